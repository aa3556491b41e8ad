"""Folders of an older version: what their summaries lack, where it follows from the rest.

What needs torch is imported where an older folder needs it: newer ones load without.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import pandas as pd

from fedsim.results.schema import TRAINED


def completed(cell: Mapping[str, Any], rounds: pd.DataFrame) -> dict[str, Any]:
    """`cell` with the columns that its version did not write; those not known stay out (NaN).

    Bits per client of the federation follow from the rounds where no reply failed, and with them
    that there were no failures. How many entries were trained does not follow, nor what travelled
    around the payloads (`up_message_bits`, `down_message_bits`, `total_bits`).

    Args:
        cell: the dict of `summary.json`; what it holds is kept.
        rounds: the run's `rounds.parquet`.

    Example:
        >>> rounds = pd.DataFrame({"up_wire_bits": [40, 60], "failures": [0, 0]})
        >>> completed({"status": "done", "clients": 5}, rounds)["up_wire_bits_per_client"]
        20.0
    """
    known: dict[str, Any] = {}
    lacks = cell.get("failures") is None and cell.get("status") == "done"
    if lacks and "failures" in rounds and cell.get("clients"):
        from fedsim.federation import ledger

        known["failures"] = int(rounds["failures"].sum())
        if not known["failures"]:
            known |= {"failure_reasons": "", "failed_up_bits": 0}
            known |= ledger.of_federation(rounds, int(cell["clients"]))
    trained = cell.get(TRAINED)
    if isinstance(trained, Mapping) and "downlink" in trained:
        known["downlink"] = trained["downlink"]
    return {**cell, **{name: x for name, x in known.items() if cell.get(name) is None}}


def told(cell: Mapping[str, Any], typed: str) -> dict[str, Any]:
    """What a run was told of its method, worked out again from its summary and its settings.

    Args:
        cell: the dict of `summary.json`.
        typed: the method in `config.toml`; empty where that cannot be read.
    """
    return _told(typed.strip() or cell["method"], cell["method"], float(cell["gradient"]))


@lru_cache(maxsize=4096)
def _told(typed: str, text: str, gradient: float) -> dict[str, Any]:
    if text == typed == "raw":
        return {"form": text}
    from fedsim.settings.methods import told

    return told(typed, text, gradient)
