"""The apps of ``examples``, plain and compressed: they run; the page has what was counted."""

import csv
import difflib
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedsim.engines.deploy import Deployment
from tests.support.polling import quick_polls

__all__ = ["quick_polls"]  # the fixture
ROOT = Path(__file__).parents[1]
LINES = {"quickstart": 6, "batchnorm": 8, "sklearn": 7, "huggingface": 6}


def made() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "docs" / "make_quickstart.py"))


def rows() -> dict[str, list[str]]:
    with (ROOT / "docs" / "quickstart.csv").open(encoding="utf-8") as file:
        return {row[0].strip("`"): row[1:] for row in csv.reader(file)}


@pytest.mark.parametrize("app", LINES)
def test_few_lines_make_the_difference(app: str) -> None:
    plain, packed = (ROOT / "examples" / name for name in (app, f"{app}-sbc"))
    files = [f for f in plain.rglob("*.*") if f.suffix != ".pyc"]
    names = sorted(file.relative_to(plain).as_posix() for file in files)
    added = 0
    for name in names:
        one, other = ((folder / name).read_text().splitlines() for folder in (plain, packed))
        added += sum(line.startswith("+ ") for line in difflib.ndiff(one, other))
    assert len(names) == 5 and added == LINES[app]


@pytest.mark.slow
@pytest.mark.parametrize("app", LINES)
def test_it_learns_and_sends_what_the_page_says(app: str) -> None:
    if app == "huggingface":
        pytest.importorskip("transformers")
    counted, ours = rows()[app], made()["row"](app)[1:]
    for said, came in zip(counted, ours, strict=True):
        one, other = (float(number.replace(",", "")) for number in (said, came))
        assert abs(one - other) < (0.06 if "." in said else 0.05 * one)  # of 360 digits, one run


def test_the_page_has_what_was_counted() -> None:
    assert [*made()["APPS"]] == [*LINES] and [*rows()][1:5] == [*LINES]
    for app, least in (("quickstart", 35), ("batchnorm", 30), ("sklearn", 25), ("huggingface", 75)):
        up, down, _, packed_up, packed_down, _ = rows()[app]
        ups, downs = (
            (int(a.replace(",", "")), int(b.replace(",", "")))
            for a, b in ((up, packed_up), (down, packed_down))
        )
        assert ups[0] > least * ups[1] and downs[0] > 7 * downs[1]


@pytest.mark.slow
@pytest.mark.processes
def test_it_is_deployed(quick_polls: None, tmp_path: Path) -> None:
    """Two rounds with a SuperLink and two SuperNodes: Flower's counters say what is computed."""
    told: list[str] = []
    app = shutil.copytree(ROOT / "examples" / "sklearn-sbc", tmp_path / "app")
    settings = (app / "pyproject.toml").read_text(encoding="utf-8")
    (app / "pyproject.toml").write_text(settings.replace("rounds = 10", "rounds = 2"), "utf-8")
    with Deployment(2, tmp_path / "out") as federation:
        federation.run_app(app, told.append)
        (counted,) = federation.traffic()
    travel, accuracy = made()["measured"]("sklearn-sbc", "sklearnexample", rounds=2)
    assert abs(float(told[-1].split()[-1]) - float(accuracy)) < 0.03
    assert abs(counted["up"] / travel.up - 1) < 0.03
    assert abs(counted["down"] / travel.down - 1) < 0.03
