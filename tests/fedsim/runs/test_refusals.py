"""Folders and settings that ``run`` refuses before it trains, and runs that are done."""

from pathlib import Path

import pytest

from fedsim import SweepConfig, UsageError, run, sweep
from fedsim.runs.sweep import run_cells
from tests.support.runs import small


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


@pytest.mark.parametrize("engine", ["ray", "flower"])
def test_engines_on_ray_are_not_started_inside_ray(engine: str, tmp_path: Path) -> None:
    config = SweepConfig.of(engine=engine, gradient=0.1, iterations=20)
    for how in ({"jobs": 2}, {"ray_address": "10.0.0.1:6379"}):
        with pytest.raises(UsageError, match=f"--engine is '{engine}' and --jobs is"):
            sweep(config, tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


def test_a_run_and_a_sweep_have_folders_of_their_own(done: Path, tmp_path: Path) -> None:
    config = SweepConfig(small(method="sbc", gradient=0.1), (5,), (0.1,), baseline=False)
    before = sorted(done.iterdir())
    with pytest.raises(UsageError, match="--out is .*done: it holds a run"):
        sweep(config, done)
    with pytest.raises(UsageError, match="it holds a run"):
        run_cells(config.cells(), done)
    assert sorted(done.iterdir()) == before
    (tmp_path / "swept" / "cells").mkdir(parents=True)
    with pytest.raises(UsageError, match=r"--out is .*swept: it holds a sweep \(cells/\)"):
        run(small(), tmp_path / "swept")
    assert [f.name for f in (tmp_path / "swept").iterdir()] == ["cells"]


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_cell_that_cannot_be_shown_stops_a_sweep_before_it_trains(
    damage: str, done: Path, tmp_path: Path
) -> None:
    out = tmp_path / "swept"
    (out / "cells").mkdir(parents=True)
    file = done.rename(out / "cells" / "old") / "rounds.parquet"
    file.write_bytes(file.read_bytes()[:-9])
    if damage == "missing":
        file.unlink()
    words = r"(?s)old/rounds\.parquet cannot be read: .*Delete the folder .*or move it"
    config = SweepConfig(small(method="sbc", gradient=0.1), (5,), (0.1,), baseline=False)
    for start in (lambda: sweep(config, out), lambda: run_cells(config.cells(), out)):
        with pytest.raises(UsageError, match=words) as error:
            start()
        assert ("it is missing" in str(error.value)) == (damage == "missing")
    assert [f.name for f in (out / "cells").iterdir()] == ["old"] and len([*out.iterdir()]) == 1
    with pytest.raises(UsageError, match=r"rounds\.parquet cannot be read"):
        run(small(), out / "cells" / "old")


def test_settings_left_alone_are_told_as_defaults(done: Path) -> None:
    with pytest.raises(UsageError, match="lr the task's there, 0.5 here; .* the default there"):
        run(small(lr=0.5, test_samples=9), done)
