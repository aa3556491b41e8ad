"""Every experiment runs at the scale smoke, a new one too."""

from pathlib import Path

import pytest

from fedsim.commands.experiment import experiments
from tests.fedsim.commands import Typed, typed
from tests.markdown import ROOT

__all__ = ["typed"]  # the fixture
DATA = ROOT.parent / "shared" / "data"
FOLDER = ROOT / "experiments"


def test_every_folder_is_an_experiment_that_is_listed() -> None:
    folders = {path.name for path in FOLDER.iterdir() if any(path.glob("*.py"))}
    assert folders == {row["name"] for row in experiments()} and len(folders) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("name", [row["name"] for row in experiments()])
def test_smoke(name: str, typed: Typed) -> None:
    """It ends well, trains nothing outside its folder, and leaves numbers and what it printed."""
    data = ("--data", DATA) if DATA.is_dir() else ()
    said = typed("experiment", name, "--scale", "smoke", "--out", "out", *data)
    if not data and "--data" in said.err:
        pytest.skip("this smoke run needs data, and shared/data is not beside the checkout")
    assert said.code == 0, said.err
    assert "Traceback" not in said.out + said.err
    assert [path.name for path in Path.cwd().iterdir()] == ["out"]
    written = [path for path in Path("out").rglob("*") if "cells" not in path.parts]
    tables = [path for path in written if path.suffix == ".csv"]
    assert tables and all(path.stat().st_size > 100 for path in tables)
    assert all(path.stat().st_size > 10_000 for path in written if path.suffix == ".png")
    assert said.out.count("\n") > 5
