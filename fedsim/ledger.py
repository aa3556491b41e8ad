"""The one place where bits are counted: eight times the length of what was sent.

Uplinks are counted as they arrived, downlinks once for each receiver. The initial model
is known to all and not charged. ``wire`` is the whole message; ``content`` is what
papers report: positions, values and side information, without the header. Buffers
(BatchNorm's statistics), which papers leave out, are in ``wire`` and in a column of their own.
"""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from compressors.bits import Span
from strategies import Trip

_SPLIT: dict[str, Span] = {
    "header_bits": "header", "position_bits": "positions", "value_bits": "values",
    "side_bits": "side",
}  # fmt: skip
CONTENT = ("position_bits", "value_bits", "side_bits")


def wire_bits(payload: bytes) -> int:
    """The bits of one message."""
    return 8 * len(payload)


def _totals(messages: Iterable[tuple[bytes, dict[Span, int]]], direction: str) -> dict[str, int]:
    row = dict.fromkeys(("wire_bits", "content_bits", *_SPLIT), 0)
    for payload, spans in messages:
        row["wire_bits"] += wire_bits(payload)
        for column, span in _SPLIT.items():
            row[column] += spans[span]
    row["content_bits"] = sum(row[column] for column in CONTENT)
    return {f"{direction}_{column}": value for column, value in row.items()}


def round_bits(trip: Trip) -> dict[str, int]:
    """The bit columns of one round: sums over the cohort, both directions."""
    ups = list(trip.uplinks.values())
    downs = [down for down in trip.downlinks.values() if down.charged]
    row = _totals([(up.payload, up.spans) for up in ups], "up")
    row |= _totals([(down.payload, down.spans) for down in downs], "down")
    row["up_buffer_bits"] = sum(wire_bits(up.buffers) for up in ups)
    row["down_buffer_bits"] = sum(wire_bits(down.buffers) for down in downs)
    for direction in ("up", "down"):
        row[f"{direction}_wire_bits"] += row[f"{direction}_buffer_bits"]
    return row | {"up_sent": sum(int(up.metrics.get("sent", 0)) for up in ups)}


def client_rows(trip: Trip) -> list[dict[str, Any]]:
    """One row a client that replied in this round."""
    rows = []
    for client, up in sorted(trip.uplinks.items()):
        down = trip.downlinks[client]
        rows.append(
            {
                "round": trip.round,
                "client": client,
                "samples": int(up.samples),
                "up_wire_bits": wire_bits(up.payload) + wire_bits(up.buffers),
                "up_content_bits": wire_bits(up.payload) - up.spans["header"],
                "up_buffer_bits": wire_bits(up.buffers),
                "down_wire_bits": wire_bits(down.payload + down.buffers) if down.charged else 0,
                "up_sent": int(up.metrics.get("sent", 0)),
                "train_loss": up.metrics.get("train-loss", float("nan")),
            }
        )
    return rows


def layer_rows(trip: Trip) -> list[dict[str, Any]]:
    """One row a tensor of the model: its entries, and how many travelled, the cohort's mean.

    Empty where no client of the round has told it.
    """
    told = [up for up in trip.uplinks.values() if up.sent]
    return [
        {
            "round": trip.round,
            "tensor": name,
            "entries": told[0].update[name].numel(),
            "sent": sum(up.sent[name] for up in told) / len(told),
        }
        for name in (told[0].sent if told else ())
    ]


def per_client(rounds: pd.DataFrame) -> dict[str, float]:
    """Bits of a client that takes part in every round: round by round, the mean over its cohort."""
    up_columns = [c for c in rounds.columns if c.startswith("up_")]
    down_columns = [c for c in rounds.columns if c.startswith("down_") and c.endswith("_bits")]
    receivers = rounds["clients"] + rounds["failures"]
    ups = {c: float((rounds[c] / rounds["clients"]).sum()) for c in up_columns}
    return ups | {c: float((rounds[c] / receivers).sum()) for c in down_columns}


def ratio(parameters: int, iterations: int, up_bits: float) -> float:
    """32 bits a parameter and local iteration, over the bits that were sent instead."""
    return 32 * parameters * iterations / up_bits if up_bits else float("inf")
