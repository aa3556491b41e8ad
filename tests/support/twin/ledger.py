"""The books of a run: the rows of its rounds and clients, and its sums (docs/analysis.md)."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PARTS = ("download", "compute", "upload", "waiting")
MEANS = ("train_loss", *(f"sim_{part}_seconds" for part in PARTS))  # over the clients used
SUMS = (
    "failures", "failed_up_bits", "returned", "lost", "late", "up_wire_bits", "up_content_bits",
    "up_report_bits", "up_sent", "down_wire_bits", "down_content_bits", "down_order_bits",
    "down_news_bits", "energy_joules", "up_key_bits", "down_key_bits",
)  # fmt: skip


def blank(client: int) -> dict[str, Any]:
    """A client's row in a round, before anything is known."""
    row: dict[str, Any] = dict.fromkeys(SUMS, 0)
    row["energy_joules"] = 0.0
    return row | {"client": client, "samples": 0, "train_loss": math.nan}


@dataclass
class Result:
    """What a run leaves."""

    rounds: list[dict[str, Any]] = field(default_factory=list)
    clients: list[dict[str, Any]] = field(default_factory=list)
    summary: Counter[str] = field(default_factory=Counter)
    model: Any = None
    failed: int | None = None  # the round in which the run ended with an error
    largest: float = 1.0  # loss after a round, or 1
    by_rounding: bool = False  # whether roundings of times decided which of two updates came first

    def add(
        self, row: dict[str, Any], rows: Sequence[dict[str, Any]], federation: int
    ) -> dict[str, Any]:
        """A round.

        Args:
            row: what is known of it as a whole.
            rows: of its clients.
            federation: how many clients there are.
        """
        used = [r for r in rows if r.get("used", True)]
        asked = [r for r in rows if r.get("asked", True)]
        row |= {"clients": len(used), "absent": 0}
        row |= {name: sum(r[name] for r in rows) for name in SUMS}
        row["energy_joules"] += row.pop("unlisted_joules")
        row["up_wire_bits"] += row["up_sampler_bits"]
        row |= {name: np.mean([r[name] for r in used]) if used else math.nan for name in MEANS}
        for name in (*SUMS, "up_sampler_bits"):  # bits of a client of every round
            among = {"up": len(used), "down": len(asked)}.get(name.split("_")[0], 1)
            self.summary[name] += row[name] / max(1, among)
        for name in ("up_wire_bits", "up_content_bits", "down_wire_bits"):
            self.summary[f"{name}_per_client"] += row[name] / federation
        self.summary["up_wire_bits_per_client"] += row["failed_up_bits"] / federation
        self.largest = max(self.largest, row["loss"])
        self.rounds.append(row)
        self.clients += [{"round": row["round"], **r} for r in rows]
        return row

    def score_only(self, rounds: set[int], every: int) -> None:
        """Takes out the scores but for these rounds, and those of every so many iterations."""
        before = 0
        for row in self.rounds:
            if row["iteration"] // every == before // every and row["round"] not in rounds:
                row["metric"] = row["loss"] = math.nan
            before = row["iteration"]
