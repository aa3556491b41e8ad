"""The columns of a summary that follow from the run's tables, for the run and for its check.

And training that has not moved the model when a run ends: residuals and pending messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from compressors import State
from compressors.whole.feedback import holds
from fedsim.federation import ledger
from fedsim.federation.client_memory import unpack_memory
from fedsim.federation.failures import failed_clients, reasons
from fedsim.federation.orders import norm, residual_of
from fedsim.ground.columns import receivers
from fedsim.ground.records import CLIENT_SCORES, PRIVACY, SCORE
from fedsim.results.schema import OF_BOTH, ratio_both_ways
from fedsim.settings.groups import EXACT
from strategies.channel.acknowledge import LOST_KEPT, PAYLOAD_KEPT, ROUND_KEPT
from strategies.channel.server_end import ServerEnd

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd


_OUTCOMES = ("returned", "lost")
"""What becomes of an update that arrived too late, or not at all, and was not applied."""

_EDGES = ("edge_up_bits", "edge_down_bits")
"""The columns of what travels between the server and edge servers."""

_OF_ALL = ("up_wire_bits", "up_content_bits", "down_wire_bits")


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
        rounds: ``rounds.parquet``, with a row at least; ``clients``: ``clients.parquet``.
        description: of the run: ``clients`` of the federation and ``trained_parameters``.
        entries: of an update; None: not known, and ``up_share`` is left out.
        controlled: whether a controller moved n and p.
        epochs: whether clients trained local epochs, or local seconds.
        unapplied: columns on training that the model lacks; they go between the others.
    """
    last = rounds.iloc[-1]
    columns: dict[str, Any] = per_participation(rounds)
    columns |= of_federation(rounds, description["clients"]) | failed(rounds, clients)
    columns |= unapplied
    if "sim_seconds" in rounds:
        columns["sim_seconds"] = float(rounds["sim_seconds"].sum())
    if "energy_joules" in rounds:
        columns["energy_joules"] = float(rounds["energy_joules"].sum())
    if entries is not None:
        columns["up_share"] = share(rounds, entries)
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
    names = [name for name in ledger.ITERATIONS_OF if name in rounds]
    rows = ({k: x for k, x in row.items() if x == x} for row in rounds[names].to_dict("records"))
    used = sum(map(ledger.used_iterations, rows))
    if epochs:  # of the rounds that have iterations
        counted = rounds[rounds["clients"] > 0]
        p = description["gradient"] * len(counted)
        fractions = float(counted["sent_fraction"].sum() if controlled else p)
        columns["total_sparsity"] = fractions / used if used else nan
    elif controlled:  # n and p moved: what they were on average
        columns["total_sparsity"] = float(rounds["sent_fraction"].sum()) / columns["iterations"]
    for kind in ("wire", "content"):
        columns[f"ratio_{kind}"] = compression_ratio(trained, used, columns[f"up_{kind}_bits"])
    columns["ratio_both"] = ratio_both_ways(*(columns[name] for name in OF_BOTH))
    return columns


def per_participation(rounds: pd.DataFrame) -> dict[str, float]:
    """Bits of a client that takes part in every round: round by round, the mean over its cohort.

    With them ``total_bits``, all that travelled, and ``_EDGES``, of all edge servers.
    """
    up_columns = [c for c in rounds.columns if c.startswith("up_")]
    down_columns = [c for c in rounds.columns if c.startswith("down_") and c.endswith("_bits")]
    receiver_counts = receivers(rounds)
    sums = {c: _of_each(rounds[c], rounds["clients"]) for c in up_columns}
    sums |= {c: _of_each(rounds[c], receiver_counts) for c in down_columns}
    # NaN where a round lacks the number, as in a run that an older version began
    of_all = [name for name in ("total_bits", *_EDGES) if name in rounds]
    return sums | {name: float(rounds[name].sum(skipna=False)) for name in of_all}


def _of_each(bits: pd.Series, clients: pd.Series) -> float:
    many, totals = clients.to_numpy(float), bits.to_numpy(float)  # short runs would wait for pandas
    return float((totals / np.maximum(many, 1)).sum())


def of_federation(rounds: pd.DataFrame, clients: int) -> dict[str, float]:
    """Bits of the whole federation over the number of its clients.

    With a cohort smaller than the federation they are fewer than those of `per_participation`. The
    wire columns include unused uploads, too, whose content is not known.
    """
    sums = {f"{name}_per_client": float(rounds[name].sum()) for name in _OF_ALL}
    sums["up_wire_bits_per_client"] += float(rounds["failed_up_bits"].sum())
    return {name: bits / clients for name, bits in sums.items()}


def failed(rounds: pd.DataFrame, clients: pd.DataFrame) -> dict[str, Any]:
    """A run's failed replies: how many, why, and the bits of such uploads, over all clients."""
    texts = clients.loc[clients["failures"] > 0, "failure_reasons"]
    whose = failed_clients(clients)
    return {
        "failures": int(rounds["failures"].sum()),
        "failure_reasons": reasons(texts),
        "failed_up_bits": int(rounds["failed_up_bits"].sum()),
        **{outcome: int(rounds[outcome].sum()) for outcome in _OUTCOMES},
        **({"failed_clients": whose} if whose else {}),
    }


def share(rounds: pd.DataFrame, entries: int) -> float:
    """The share of an update's entries that travelled, over all uploads that were used.

    The share differs from the nominal p: a tensor sends at least one entry, and zeros are never
    sent. `entries`: those of an update, to which frozen ones do not belong, but control variates
    do.
    """
    uploads = rounds["clients"].sum()
    return float(rounds["up_sent"].sum() / (uploads * entries)) if uploads else 0.0


def compression_ratio(trained: int, iterations: float, up_bits: float) -> float:
    """32 bits per trained parameter and local iteration, over the bits that were sent instead."""
    return 32 * trained * iterations / up_bits if up_bits else float("inf")


def count_unapplied(
    end: ServerEnd, memories: Mapping[int, State], clients: int, memory_as: str = EXACT
) -> dict[str, float]:
    """The columns of a summary on training that has not moved the model when the run ends.

    ``held``: clients whose last update is neither applied nor counted as lost: its upload is under
    way, or the client takes it back with the next message. ``held_norm``: the L2 norm of the mean
    residual over all ``clients``, 0 for methods without; a pending update is not in it.
    ``memories``: of the clients that have trained, in the form of ``memory_as``.
    """
    total: State = {}
    waiting, takes_back = 0, holds(end.uplink, end.weights)
    for client, memory in memories.items():
        for name, x in residual_of(end.uplink, unpack_memory(memory, memory_as)).items():
            total[name] = total.get(name, torch.zeros(())) + x.double()
        if ROUND_KEPT in memory and int(memory[ROUND_KEPT]) != end.applied.get(client):
            lost = end.lost.get(client, 0) > int(memory.get(LOST_KEPT, 0))
            waiting += (takes_back and PAYLOAD_KEPT in memory) or not lost
    return {"held": waiting, "held_norm": norm(total) / clients}
