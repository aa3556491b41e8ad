"""The learning curve that a run has left in its folder."""

from collections.abc import Iterable, Mapping
from math import inf, isnan
from pathlib import Path
from typing import Any

from fedsim.federation.ledger import bits_of_each
from fedsim.results.schema import read_summary, rounds_of
from fedsim.search.goal import Curve


def curve_of(rows: Iterable[Mapping[str, Any]], budget_of: str = "up") -> Curve:
    """The evaluations of rounds in order, over the bits of a client of every round.

    The loss is infinite where the rows have none.

    Example:
        >>> rows = [{"up_wire_bits": 80, "clients": 2, "metric": 0.5, "loss": 0.7}]
        >>> curve_of(rows)
        Curve(bits=(40.0,), metric=(0.5,), losses=(0.7,))
    """
    sent, points = 0.0, list[tuple[float, float, float]]()
    for row in rows:
        sent += bits_of_each(row, budget_of)
        if not isnan(row["metric"]):
            points.append((sent, float(row["metric"]), float(row.get("loss", inf))))
    bits, metric, losses = zip(*points, strict=True) if points else ((), (), ())
    return Curve(bits, metric, losses)


def ended(folder: Path) -> dict[str, Any] | None:
    """The summary of a run that is done, was stopped or failed; None: it has not ended."""
    return read_summary(folder) if (folder / "summary.json").exists() else None


def read_curve(folder: Path, budget_of: str = "up") -> Curve:
    """The curve of a run that has ended; without points where it has no evaluation."""
    return curve_of(rounds_of(folder, read_summary(folder)).to_dict("records"), budget_of)
