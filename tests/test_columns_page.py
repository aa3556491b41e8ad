"""The page of columns names every column that runs write, and no other."""

import re
from pathlib import Path
from typing import Any

import pytest

from fedsim.results.schema import frame
from fedsim.runs.run import run
from fedsim.settings.config import RunConfig

PAGE = Path(__file__).parent.parent / "docs" / "columns.md"
SHARED: dict[str, Any] = {
    "task": "digits", "clients": 6, "iterations": 4, "temporal": 2, "network": "4g, compute=20ms",
}  # fmt: skip
KINDS: dict[str, dict[str, Any]] = {
    "deadline": {"method": "sbc(0.01)", "cohort": 3, "deadline": "2s", "late": "count"},
    "clients": {"method": "sbc(0.01)", "evaluate_clients": 0.2},
    "controller": {"method": "sbc(0.1)", "controller": "pace(2)"},
    "asynchronous": {"method": "sbc(0.1)", "strategy": "fedbuff(2)", "deadline": "9s"},
}


def named() -> dict[str, set[str]]:
    """The columns of each file on the page."""
    columns: dict[str, set[str]] = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        rows = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
        columns[section.split(":")[0].split(",")[0]] = {
            name for row in rows for name in re.findall(r"`(\w+)`", row)
        }
    return columns


@pytest.fixture(scope="module")
def written() -> dict[str, set[str]]:
    """The columns of each file, over a run of each kind."""
    columns: dict[str, set[str]] = {name: set() for name in named()}
    for settings in KINDS.values():
        result = run(RunConfig.of(**SHARED, **settings))
        for name in ("rounds", "clients", "layers"):
            columns[f"{name}.parquet"] |= {*getattr(result, name).columns}
        columns["summary.csv"] |= {*frame([result.summary]).columns}
    return columns


@pytest.mark.parametrize("file", [*named()])
def test_the_page_names_the_columns(written: dict[str, set[str]], file: str) -> None:
    assert named()[file] == written[file]
