"""The list of what waits for a GPU: lengths by hand, and a small item on the CPU, killed once."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim import RunConfig
from tests.support.experiments import experiment, made_up


@pytest.fixture
def small() -> Any:
    """An item of two runs that takes seconds."""
    items = experiment("gpu", "items")
    runs = {
        name: RunConfig(task="digits", method=method, temporal=n, iterations=40)
        for name, method, n in (("dense", "raw", 20), ("sbc", "sbc(0.01)", 2))
    }
    return items.Item("small", "nothing", runs)


def test_the_list_has_the_papers_runs() -> None:
    items = experiment("gpu", "items").ITEMS
    assert {*items} >= {"sbc-table2", "cnat-vgg11", "deepreduce"}
    assert items["sbc-table2"].published == 60_000 and len(items["sbc-table2"].runs) == 6
    assert items["sbc-table2"].runs["fedavg"].temporal == 1000
    run = items["deepreduce"].runs["topr"]
    assert (run.clients.count, run.clients.cohort) == (100, 10)
    assert run.clients.partition == "dirichlet(0.3)"


def test_a_length_fits_the_minutes(small: Any) -> None:
    """0.8 of 10 minutes are 480 s: at 4 ms an iteration of all runs 120,000 of them."""
    sizing = experiment("gpu", "sizing")
    milliseconds = pd.Series([3.0, 1.0])
    assert sizing.length(small, milliseconds, 10) == 40  # as published
    long = experiment("gpu", "items").ITEMS["sbc-table2"]
    assert sizing.length(long, pd.Series([100.0] * 6), 10) == 800
    assert sizing.length(long, pd.Series([1e6] * 6), 10) == 4
    runs = sizing.sized(small, 20, "cpu", None)
    assert [config.temporal for config in runs.values()] == [5, 2]
    assert {config.iterations for config in runs.values()} == {20}


def test_a_length_is_chosen_once(small: Any, tmp_path: Path) -> None:
    sizing, path = experiment("gpu", "sizing"), tmp_path / "small" / "iterations.txt"
    slow, fast = pd.Series([5000.0, 1000.0]), pd.Series([1.0, 1.0])
    assert sizing.planned(small, slow, 1, path) == sizing.planned(small, fast, 1, path) == 8


@pytest.mark.slow
def test_time_over_and_on(small: Any, tmp_path: Path) -> None:
    """Without time nothing ends; the same call later ends all, and the table has a line per run."""
    main = experiment("gpu", "__main__")
    out = tmp_path / "out"
    assert not main.carry_out([small], 0.001, "cpu", None, out)
    steps = (out / "steps.csv").read_bytes()
    assert main.carry_out([small], 2, "cpu", None, out)
    assert (out / "steps.csv").read_bytes() == steps
    frame = main.summary([small], out, "cpu", 7)
    assert sorted(frame["run"]) == ["dense", "sbc"] and (frame["training_images"] == 7).all()
    assert (frame["iterations"] == int((out / "small" / "iterations.txt").read_text())).all()
    assert "2 of 2" in main.listing([small], out)


def test_a_part_of_the_images(tmp_path: Path) -> None:
    main, data = experiment("gpu", "__main__"), made_up(tmp_path / "data")
    with np.load(main.pack_part(10, data, tmp_path / "part")) as part:
        assert (part["train_x"].shape, len(part["test_y"])) == ((10, 32, 32, 3), 2)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["--only", "other"], ["--only", "'other'", "deepreduce"]),
        (["--minutes", "0"], ["--minutes", "0"]),
        (["--pack", "5"], ["--pack", "5", "40"]),
        (["--device", "cuda:99"], ["--device", "cuda:99"]),
        (["--device", "gpu"], ["--device", "'gpu'", "cuda:1"]),
    ],
)
def test_bad_input(
    given: list[str], names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = str(made_up(tmp_path / "data"))
    code = experiment("gpu", "__main__").main(
        [*given, "--data", data, "--out", str(tmp_path / "o")]
    )
    told = capsys.readouterr().err
    assert code == 2 and all(name in told for name in names)
    assert not (tmp_path / "o").exists()
