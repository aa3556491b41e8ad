"""Summaries of an older version: the columns that they lack, where these follow from the rest."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from fedsim.federation import ledger
from fedsim.results.schema import TRAINED


def completed(cell: Mapping[str, Any], rounds: pd.DataFrame) -> dict[str, Any]:
    """`cell` with the columns that its version did not write; those not known stay out (NaN).

    Bits per client of the federation follow from the rounds where no reply failed, and with them
    that there were no failures. How many entries were trained does not follow.

    Args:
        cell: the dict of `summary.json`; what it holds is kept.
        rounds: the run's `rounds.parquet`.

    Example:
        >>> rounds = pd.DataFrame({"up_wire_bits": [40, 60], "failures": [0, 0]})
        >>> completed({"status": "done", "clients": 5}, rounds)["up_wire_bits_per_client"]
        20.0
    """
    found: dict[str, Any] = {}
    if cell.get("status") == "done" and "failures" in rounds and cell.get("clients"):
        found["failures"] = int(rounds["failures"].sum())
        if not found["failures"]:
            found |= {"failure_reasons": "", "failed_up_bits": 0}
            found |= ledger.of_federation(rounds, int(cell["clients"]))
    trained = cell.get(TRAINED)
    if isinstance(trained, Mapping) and "downlink" in trained:
        found["downlink"] = trained["downlink"]
    return {**cell, **{name: x for name, x in found.items() if cell.get(name) is None}}
