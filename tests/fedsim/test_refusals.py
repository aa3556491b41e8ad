"""Folders and settings that ``run`` refuses before it trains, and runs that are done."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, SweepConfig, UsageError, run, sweep
from tests.fedsim.runs import done, finished, small

__all__ = ["done", "finished"]  # fixtures


def test_a_finished_run_is_not_run_again(done: Path) -> None:
    first = json.loads((done / "summary.json").read_text())
    before = {f: f.stat().st_mtime_ns for f in done.iterdir()}
    rows: list[dict[str, Any]] = []
    again = run(small(workers=2, engine="flower"), done, rows.append)  # the same numbers
    assert again == first and not rows
    assert {f: f.stat().st_mtime_ns for f in done.iterdir()} == before


def test_a_folder_of_other_settings_is_refused(done: Path) -> None:
    before = (done / "summary.json").read_text()
    with pytest.raises(UsageError) as error:
        run(small(seed=3, downlink="sbc(0.1)"), done)
    for word in ("--out", str(done), "seed 0 there, 3 here", "downlink 'raw' there"):
        assert word in str(error.value)
    assert (done / "summary.json").read_text() == before


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for out in (tmp_path / "file" / "below", tmp_path / "file"):
        with pytest.raises(UsageError) as error:
            run(small(), out)
        assert "--out" in str(error.value) and str(out) in str(error.value)
        assert "cannot be written" in str(error.value)


@pytest.mark.parametrize("content", ["temporal = ", "temporal = 'x'", "tempral = 3", "seed = -1"])
def test_a_corrupt_config_is_refused(content: str, done: Path) -> None:
    (done / "config.toml").write_text(content)
    with pytest.raises(UsageError) as error:
        run(small(), done)
    assert str(error.value).count("\n") <= 1
    if "seed" not in content:
        assert "config.toml" in str(error.value)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"status"'])
def test_a_corrupt_summary_is_refused(content: str, done: Path) -> None:
    (done / "summary.json").write_text(content)
    with pytest.raises(UsageError, match=r"(?s)summary\.json cannot be read.*run it again"):
        run(small(), done)


def test_more_clients_than_samples(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError) as error:
        run(small(clients=1438), out)
    for word in ("clients", "1438", "1437"):
        assert word in str(error.value)
    assert not out.exists()


def test_a_split_that_cannot_be_made(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(UsageError, match=r"shards\(400\)"):
        run(small(partition="shards(400)"), out)
    assert not out.exists()


def test_missing_data_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    config = RunConfig(task="mnist_lenet5", data=str(tmp_path / "nowhere"))
    with pytest.raises(UsageError, match="nowhere") as error:
        run(config, tmp_path / "out")
    assert str(error.value).count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SweepConfig.of(seed=7, gradient=0.1), ("seed is 7", "seeds")),
        (
            lambda: SweepConfig.of(temporal=float("inf"), gradient=0.1),
            ("temporal is [inf]", "whole"),
        ),
        (lambda: RunConfig(downlink="sbc"), ("--downlink is 'sbc'", "'sbc(0.05)'")),
        (lambda: RunConfig(method="ef(" * 5000), ("--method", "nested too deeply")),
    ],
)
def test_settings_that_cannot_be_meant(make: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert all(word in str(error.value) for word in words)


def test_flowers_simulation_is_not_started_inside_ray(tmp_path: Path) -> None:
    config = SweepConfig.of(engine="flower", gradient=0.1, iterations=20)
    for how in ({"jobs": 2}, {"ray_address": "10.0.0.1:6379"}):
        with pytest.raises(UsageError, match="--engine is 'flower' and --jobs is"):
            sweep(config, tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()
