"""Bits and accuracy of plain, quantized and secure updates, and the bits of keys by clients.

``PYTHONPATH=. python docs/make_secagg.py`` trains 30 runs on digits (a minute on one core), writes
``docs/secagg.csv`` and puts both tables into ``docs/secagg.md``. ``--page`` writes the page alone.
"""

import csv
import re
import sys
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedsim import RunConfig, run

TABLE, PAGE = (Path(__file__).with_name(f"secagg.{kind}") for kind in ("csv", "md"))
ROWS: tuple[tuple[str, str, str], ...] = (
    ("raw", "dsgd", ""),
    ("steps(8, 64)", "dsgd", ""),
    ("secagg(8, 0.1, 12)", "secagg", ""),
    ("secagg(16, 0.1, 20)", "secagg", ""),
    ("secagg(8, 0.1, 12)", "secagg", "after=0.1"),
    ("secagg(8, 0.1, 12, 0.25)", "secagg", ""),
)
"""Method, strategy, ``--dropout``."""

SEEDS = 5
FIELDS = ("method", "strategy", "dropout", "seed", "accuracy", "up_bits", "up_keys", "down_keys")
CLIENTS = (3, 10, 100, 1000)


def config(method: str, strategy: str, dropout: str, seed: int) -> RunConfig:
    """8 rounds of 3 iterations on 10 clients, all of them in every round."""
    more: dict[str, Any] = {"dropout": dropout} if dropout else {}
    return RunConfig.of(
        method=method,
        strategy=strategy,
        seed=seed,
        clients=10,
        temporal=3,
        rounds=8,
        lr=0.1,
        evaluate_every=8,
        **more,
    )


def sizes(clients: int) -> tuple[int, int]:
    """Bytes of keys and shares of a client in a round in which all reply, up and down."""
    up = 64 + 88 * (clients - 1) + 32 * clients
    return up, 4 + 68 * clients + 88 * (clients - 1) + -(-clients // 8)


def train() -> None:
    """Writes ``docs/secagg.csv``."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(FIELDS)
        for row in ROWS:
            for seed in range(SEEDS):
                done = run(config(*row, seed), progress=False).summary
                bits = (done.get(f"{c}_bits", 0) for c in ("up_wire", "up_key", "down_key"))
                writer.writerow([*row, seed, f"{100 * done['metric']:.2f}", *map(round, bits)])
                print(*row, seed, done["metric"], file=sys.stderr, flush=True)


def read() -> list[dict[str, str]]:
    """The rows of ``docs/secagg.csv``."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


def runs_table(rows: list[dict[str, str]]) -> str:
    """Means over the seeds, with the sample deviation of the accuracy."""
    lines = [
        "| method | strategy | dropout | accuracy | kbit up, of a client | of these keys | "
        "kbit of keys down |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for key in ROWS:
        runs = [row for row in rows if (row["method"], row["strategy"], row["dropout"]) == key]
        scores = [float(row["accuracy"]) for row in runs]
        names = ("up_bits", "up_keys", "down_keys")
        bits = (f"{fmean(float(row[name]) for row in runs) / 1000:,.0f}" for name in names)
        dropout = f"`{key[2]}`" if key[2] else "none"
        score = f"{fmean(scores):.1f} ({stdev(scores):.1f})"
        lines.append(f"| `{key[0]}` | `{key[1]}` | {dropout} | {score} | {' | '.join(bits)} |")
    return "\n".join(lines)


def sizes_table() -> str:
    """Kilobits of keys and shares of a client in a round."""
    lines = ["| clients of a round | kbit up | kbit down |", "| --- | --- | --- |"]
    for clients in CLIENTS:
        up, down = (f"{8 * count / 1000:,.1f}" for count in sizes(clients))
        lines.append(f"| {clients:,} | {up} | {down} |")
    return "\n".join(lines)


def page() -> str:
    """``secagg.md`` with the tables."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("runs", runs_table(read())), ("sizes", sizes_table())):
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = between.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
    return text


if __name__ == "__main__":
    if "--page" not in sys.argv:
        train()
    PAGE.write_text(page(), encoding="utf-8")
