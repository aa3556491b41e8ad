"""Flower's quickstart with and without compression: both run; the page has what was counted."""

import csv
import difflib
import runpy
import sys
from importlib import import_module
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from fedsim.engines.local import LocalGrid

ROOT = Path(__file__).parents[1]
APPS = {"FedAvg": "quickstart", "FedAvg, `sbc(0.05)` both ways": "quickstart-sbc"}


def rows() -> dict[str, dict[str, str]]:
    with (ROOT / "docs" / "quickstart.csv").open(encoding="utf-8") as file:
        return {row["app"]: row for row in csv.DictReader(file)}


def test_six_lines_make_the_difference() -> None:
    plain, packed = (ROOT / "examples" / name for name in APPS.values())
    files = [f for f in plain.rglob("*.*") if f.suffix != ".pyc"]
    names = sorted(file.relative_to(plain).as_posix() for file in files)
    added = 0
    for name in names:
        one, other = ((folder / name).read_text().splitlines() for folder in (plain, packed))
        added += sum(line.startswith("+ ") for line in difflib.ndiff(one, other))
    assert len(names) == 5 and added == 6


@pytest.mark.slow
@pytest.mark.parametrize("title", APPS)
def test_it_learns(
    title: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples" / APPS[title])
    for name in [name for name in sys.modules if name.split(".")[0] == "quickstart"]:
        monkeypatch.delitem(sys.modules, name)
    client, server = (import_module(f"quickstart.{half}") for half in ("client", "server"))

    grid = LocalGrid(client.app, clients=2)
    context = Context(1, 0, {}, RecordDict(), {"rounds": 10})
    server.app(grid=grid, context=context)
    grid.close()
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("round 10/10 · accuracy ")
    assert abs(float(told.split()[-1]) - float(rows()[title]["accuracy"])) < 0.01


def test_the_page_has_what_flower_counted() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_quickstart.py"))
    assert made["APPS"] == APPS and list(rows()) == list(APPS)
    assert (ROOT / "docs" / "flower.md").read_text(encoding="utf-8") == made["page"]()
    plain, packed = rows().values()
    up, down = (
        int(plain[way].replace(",", "")) / int(packed[way].replace(",", ""))
        for way in ("bytes up", "bytes down")
    )
    assert 35 < up < 45 and 7 < down < 10
