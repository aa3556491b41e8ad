"""Runs write the columns that the records declare."""

from typing import Any

import pytest

from fedsim.ground.records import (
    ASYNCHRONOUS,
    CONTROLLER,
    EVALUATED,
    NETWORK,
    OVERDUE,
    PRIVATE,
    WITH_LATE,
)
from fedsim.results.schema import frame
from fedsim.results.summaries import TABLES, WAITING
from fedsim.runs.run import run
from fedsim.settings.config import RunConfig

SHARED: dict[str, Any] = {
    "task": "digits",
    "clients": 6,
    "iterations": 4,
    "temporal": 2,
    "method": "sbc(0.1)",
}
LINKS = {"network": "4g, compute=20ms"}
RUNS: list[tuple[dict[str, Any], set[str]]] = [
    ({}, {WAITING}),
    (LINKS | {"cohort": 3, "deadline": "2s", "late": "count"}, {WAITING, NETWORK, WITH_LATE}),
    ({"evaluate_clients": 0.2}, {WAITING, EVALUATED}),
    ({"strategy": "dp"}, {WAITING, PRIVATE}),
    (LINKS | {"controller": "pace(2)"}, {WAITING, NETWORK, CONTROLLER}),
    (LINKS | {"strategy": "fedbuff(2)", "deadline": "9s"}, {NETWORK, ASYNCHRONOUS, OVERDUE}),
]
"""Settings, and of the conditions that columns have those that they meet."""


@pytest.mark.parametrize(("settings", "met"), RUNS)
def test_a_run_has_the_columns_whose_condition_it_meets(
    settings: dict[str, Any], met: set[str]
) -> None:
    result = run(RunConfig.of(**SHARED, **settings))
    tables = {
        "rounds.parquet": result.rounds,
        "clients.parquet": result.clients,
        "layers.parquet": result.layers,
        "summary.csv": frame([result.summary]),
    }
    types = {int: "int64", float: "float64", bool: "bool"}
    for file, table in tables.items():
        specs = [spec for spec in TABLES[file] if not spec.when or met & {*spec.when}]
        assert {*table.columns} == {spec.name for spec in specs}, file
        numbers = {spec.name: types[spec.kind] for spec in specs if spec.kind in types}
        assert {name: str(table[name].dtype) for name in numbers} == numbers, file
