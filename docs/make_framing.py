"""Writes the table of framing: ``docs/framing.csv``, and in ``docs/flower-engine.md``."""

import csv
import re
from pathlib import Path

from flwr.app import ConfigRecord, MetricRecord, RecordDict

from strategies.channel.framing import to_client, to_server
from strategies.channel.payload import METRICS, SAMPLES, put

CSV, PAGE = Path(__file__).with_name("framing.csv"), Path(__file__).with_name("flower-engine.md")
HEAD = ("payload", "to a client", "framing", "from a client", "framing", "framing, share")
_BETWEEN = re.compile(r"(<!-- framing -->\n).*?(<!-- end of framing -->)", re.DOTALL)


def rows() -> list[tuple[str, ...]]:
    """Bytes of a message both ways for payloads of so many bytes, as ``Compressed`` sends them."""
    table = []
    for power in range(2, 8):
        payload = bytes(i % 251 for i in range(10**power))
        down = RecordDict({"config": ConfigRecord({"server-round": 7})})
        charged = {"kind": "update", "round": 7, "version": 6, "client": 3, "channel": 2**30}
        put(down, payload, **charged, base=5, applied=b"\x01")
        up = RecordDict({METRICS: MetricRecord({SAMPLES: 100, "train_loss": 0.5})})
        put(up, payload, round=7)
        there, back = to_client(down), to_server(up)
        sent, came = there.down + back.down, there.up + back.up
        share = (sent + came) / (2 * len(payload)) - 1
        numbers = (len(payload), sent, sent - len(payload), came, came - len(payload))
        table.append((*(f"{n:,}" for n in numbers), f"{share:.2%}"))
    return table


def page() -> str:
    """The page with the table of the CSV in it."""
    with CSV.open(encoding="utf-8") as file:
        lines = [f"| {' | '.join(row)} |" for row in csv.reader(file)]
    table = "\n".join([lines[0], "| --: " * len(HEAD) + "|", *lines[1:]])
    text = PAGE.read_text(encoding="utf-8")
    return _BETWEEN.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


if __name__ == "__main__":
    with CSV.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows()])
    PAGE.write_text(page(), encoding="utf-8")
