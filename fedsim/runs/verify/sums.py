"""A folder's tables against each other: rounds are sums over clients, the summary over rounds."""

from collections.abc import Iterator

import numpy as np

from fedsim.federation import ledger
from fedsim.results.schema import TRAINED
from fedsim.runs.totals import totals
from fedsim.runs.verify.recordedrun import RecordedRun
from fedsim.runs.verify.verdict import digest_difference

_SUMS = ("up_sent", "failures", "returned", "lost")
"""Columns of both tables that are sums, in addition to those of bits."""


def sum_differences(recorded: RecordedRun) -> Iterator[str]:
    """Where a round's columns are not the sums over its clients' rows, or its digest not theirs."""
    rounds, clients = recorded.rounds.set_index("round"), recorded.clients
    both = [
        name
        for name in rounds.columns
        if name in clients.columns and (name.endswith("_bits") or name in _SUMS)
    ]
    totals = clients.groupby("round")[both].sum()
    if more := sorted({*totals.index} - {*rounds.index}):
        yield f"clients.parquet has round {more[0]}, which rounds.parquet lacks"
        return
    totals = totals.reindex(rounds.index, fill_value=0)  # a round may be nobody's
    for direction in ("up", "down"):  # a sampler's requests are in no client's row
        if f"{direction}_sampler_bits" in rounds:
            totals[f"{direction}_wire_bits"] += rounds[f"{direction}_sampler_bits"]
    wrong = [
        (number, name)
        for name in both
        for number in rounds.index[rounds[name].notna() & (rounds[name] != totals[name])]
    ]
    for number, name in sorted(wrong):
        value, total = rounds.loc[number, name], totals.loc[number, name]
        yield f"round {number}: {name} is {value:g}, and {total:g} over its clients"
    if not recorded.has_digests:
        return
    for number, expected in rounds[ledger.DIGEST_PAYLOADS].items():
        digest = ledger.digest_of_rows(recorded.clients_in(int(str(number))))
        if digest != expected:
            place = f"round {number}: the digest of its clients' rows"
            yield digest_difference(place, expected, digest)


def summary_differences(recorded: RecordedRun) -> Iterator[str]:
    """The differences between the summary and its tables."""
    stored, rounds = recorded.summary, recorded.rounds
    trained = stored.get(TRAINED) or {}
    moved = bool(trained.get("controller"))
    epochs = any(trained.get(name) for name in ("local_epochs", "local_seconds"))
    computed = totals(rounds, recorded.clients, stored, None, moved, epochs)
    for name, value in computed.items():
        if name not in stored or stored[name] == value:
            continue
        number = isinstance(value, float)
        if not (number and np.isclose(stored[name], value, 1e-12, 0, equal_nan=True)):
            yield f"summary.json: {name} is {stored[name]}, and {value} by the tables"
