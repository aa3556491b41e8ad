"""Every experiment runs at the scale smoke, a new one too."""

from pathlib import Path

import pytest

from fedsim.commands.experiment import experiments
from tests.support.commands import Typed
from tests.support.markdown import ROOT
from tests.support.realdata import folder_with

NEEDS = {"dropping-words": "wikitext-2", "lora": "shakespeare", "ncf-movielens": "ml-latest-small"}
"""Smoke runs that need a data set; all others run on what is always there."""
READ = {
    "deepreduce", "gradient-dropping", "huffman-encoders", "cnat-variance", "topk-cnat",
    "ncf-movielens", "position-coding", "sbc-matrix", "sbc-curves", "sbc-table1", "sbc-table2",
}  # fmt: skip
"""Experiments with a smoke run of their own file, which reads its numbers too."""
FOLDER = ROOT / "experiments"


def test_every_folder_is_an_experiment_that_is_listed() -> None:
    """But what all use, and the list that waits for a GPU, which has a command of its own."""
    folders = {path.name for path in FOLDER.iterdir() if any(path.glob("*.py"))} - {"common", "gpu"}
    assert folders == {row["name"] for row in experiments()} and len(folders) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({row["name"] for row in experiments()} - READ))
def test_smoke(name: str, typed: Typed) -> None:
    """It ends well, trains nothing outside its folder, and leaves numbers and what it printed."""
    data = ("--data", folder_with(NEEDS[name])) if name in NEEDS else ()
    said = typed("experiment", name, "--scale", "smoke", "--out", "out", *data)
    assert said.code == 0, said.err
    assert "Traceback" not in said.out + said.err
    assert [path.name for path in Path.cwd().iterdir()] == ["out"]
    written = [path for path in Path("out").rglob("*") if "cells" not in path.parts]
    tables = [path for path in written if path.suffix == ".csv"]
    assert tables and all(path.stat().st_size > 100 for path in tables)
    assert all(path.stat().st_size > 10_000 for path in written if path.suffix == ".png")
    assert said.out.count("\n") > 5


@pytest.mark.parametrize("name", [row["name"] for row in experiments()])
def test_an_unknown_name_is_refused_before_any_work(name: str, typed: Typed) -> None:
    said = typed("experiment", name, "--only", "no-such", "--out", "out")
    assert said.code == 2 and "--only is 'no-such': " in said.err and " are " in said.err
    assert not [*Path.cwd().iterdir()]
