"""A sweep and an unfinished run of a version before the rooms: they load, resume and report."""

import json
import tarfile
from pathlib import Path
from shutil import copytree

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file

from fedsim import load, report, run
from fedsim.settings.config import from_toml
from tests.support.page import Page
from tests.support.runs import clients, layers, rounds

WRITTEN = Path(__file__).parents[2] / "data" / "before-the-rooms.tar.xz"
"""`sweep`: sbc at n = 2, p = 0.1 and its reference on digits, without their models. `unfinished`:
gradient_dropping, stopped in its third round of four, with a checkpoint of the second."""


@pytest.fixture
def older(tmp_path: Path) -> Path:
    with tarfile.open(WRITTEN) as folders:
        folders.extractall(tmp_path, filter="data")
    return tmp_path


def test_an_older_sweep_loads_with_all_that_runs_know_now(older: Path) -> None:
    results = load(older / "sweep")
    assert results.runs["label"].to_dict() == {"n1-p1-s0": "dense", "n2-p0.1-s0": "sbc"}
    assert results.runs["metric"].round(4).tolist() == [0.1111, 0.1528]
    assert results.runs["failures"].tolist() == [0, 0]
    assert results.runs["up_wire_bits_per_client"].tolist() == [2737504, 21324]
    assert len(results.rounds) == 6 and set(results.layers["label"]) == {"dense", "sbc"}


def test_an_older_sweep_is_reported(older: Path) -> None:
    page = Page(report.write(older / "sweep").read_text(encoding="utf-8"))
    assert "digits: sbc" in page.text
    assert "Dense reference (n = 1, p = 1): accuracy 0.1111 with 2.74 Mbit" in page.text


def test_an_older_run_ends_as_if_it_had_never_stopped(older: Path, tmp_path: Path) -> None:
    folder = older / "unfinished"
    config = from_toml(folder / "config.toml")
    before = copytree(folder / "checkpoint-00000002", tmp_path / "before")
    numbers: list[int] = []
    run(config, folder, lambda row: numbers.append(row["round"]))
    assert numbers == [3, 4]
    run(config, tmp_path / "whole", None)
    # The older run trained on another processor, whose last bits are others.
    weights, known = (load_file(f / "model.safetensors") for f in (folder, tmp_path / "whole"))
    torch.testing.assert_close(weights, known, rtol=0, atol=1e-6)
    for table in (rounds, clients, layers):  # which have more columns since then
        names = [name for name in table(before).columns if not name.endswith("seconds")]
        pd.testing.assert_frame_equal(table(folder)[names], table(tmp_path / "whole")[names])
    assert json.loads((folder / "summary.json").read_text())["status"] == "done"
    assert load(folder).runs["label"].tolist() == ["gradient_dropping"]
