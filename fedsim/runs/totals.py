"""The columns of a summary that follow from the run's tables, for the run and for its check."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedsim.federation import ledger
from fedsim.ground.records import CLIENT_SCORES, PRIVACY, SCORE
from fedsim.results.schema import OF_BOTH, ratio_both_ways

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd


def totals(
    rounds: pd.DataFrame,
    clients: pd.DataFrame,
    description: Mapping[str, Any],
    entries: int | None,
    controlled: bool,
    epochs: bool,
    unapplied: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, Any]:
    """The columns of a summary that follow from the tables.

    Args:
        rounds: ``rounds.parquet``, with a row at least.
        clients: ``clients.parquet``.
        description: of the run: ``clients`` of the federation and ``trained_parameters``.
        entries: of an update; None: not known, and ``up_share`` is left out.
        controlled: whether a controller moved n and p.
        epochs: whether clients trained local epochs, or local seconds.
        unapplied: columns on training that the model lacks; they go between the others.
    """
    last = rounds.iloc[-1]
    columns: dict[str, Any] = ledger.per_participation(rounds)
    columns |= ledger.of_federation(rounds, description["clients"]) | ledger.failed(rounds, clients)
    columns |= unapplied
    if "sim_seconds" in rounds:
        columns["sim_seconds"] = float(rounds["sim_seconds"].sum())
    if "energy_joules" in rounds:
        columns["energy_joules"] = float(rounds["energy_joules"].sum())
    if entries is not None:
        columns["up_share"] = ledger.share(rounds, entries)
    columns |= {
        "iterations": int(last["iteration"]),  # fewer where it stopped at its bits
        "rounds": len(rounds),
        "metric": float(last["metric"]),
        "loss": float(last["loss"]),
        "seconds": float(rounds["seconds"].sum()),
    }
    of_last = (*CLIENT_SCORES, *PRIVACY)
    scores = [name for name in rounds if name in of_last or name.startswith(SCORE)]
    columns |= {name: float(last[name]) for name in scores}
    trained = description["trained_parameters"]
    # A round of an earlier version lacks columns, which are NaN in a table with later rounds.
    rows = ({k: x for k, x in row.items() if x == x} for row in rounds.to_dict("records"))
    used = sum(map(ledger.used_iterations, rows))
    if epochs:  # of the rounds that have iterations
        counted = rounds[rounds["clients"] > 0]
        p = description["gradient"] * len(counted)
        fractions = float(counted["sent_fraction"].sum() if controlled else p)
        columns["total_sparsity"] = fractions / used if used else nan
    elif controlled:  # n and p moved: what they were on average
        columns["total_sparsity"] = float(rounds["sent_fraction"].sum()) / columns["iterations"]
    for kind in ("wire", "content"):
        columns[f"ratio_{kind}"] = ledger.compression_ratio(
            trained, used, columns[f"up_{kind}_bits"]
        )
    columns["ratio_both"] = ratio_both_ways(*(columns[name] for name in OF_BOTH))
    return columns
