"""A finished run with more iterations: bit-identical to a longer one, or refused with a reason."""

import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedsim import SweepConfig, UsageError, run, sweep
from fedsim.federation.slots import NAME
from fedsim.ground.files import write_text
from fedsim.runs import checkpoint, extending
from fedsim.runs.sweep import run_cells
from fedsim.settings import contents
from fedsim.settings.config import from_toml
from fedsim.settings.grids import Cell
from tests.support.commands import files
from tests.support.interrupting import SETTINGS, Stopped, recording, stop_after
from tests.support.runs import assert_same, parts, small


def sized(rounds: int, settings: dict[str, Any] | None = None, every: int = 2) -> Any:
    settings = dict(settings or {})
    temporal = settings.get("temporal", 5)
    length = {"rounds": rounds} if "rounds" in settings else {"iterations": rounds * temporal}
    given = {"evaluate_every": every, **settings, **length}
    return small(**given)


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_an_extended_run_ends_as_a_long_one(settings: dict[str, Any], tmp_path: Path) -> None:
    config = sized(6, settings)
    run(config, tmp_path / "whole")
    out, seen = tmp_path / "out", list[int]()
    run(sized(2, settings), out)
    for rounds in (4, 6):
        run(sized(rounds, settings), out, callbacks=[recording(seen)])
    assert seen == [3, 4, 5, 6]
    assert_same(tmp_path / "whole", out)
    again = from_toml(out / "config.toml")
    assert (again.iterations, again.rounds) == (config.iterations, config.rounds)
    assert not list(out.glob("checkpoint-*")) and not parts(out)


def test_more_rounds_extend_a_run(tmp_path: Path) -> None:
    for rounds in (2, 4):
        run(small(rounds=rounds, iterations=None, temporal=5, evaluate_every=2), tmp_path / "out")
    run(small(iterations=20, temporal=5, evaluate_every=2), tmp_path / "whole")
    assert_same(tmp_path / "whole", tmp_path / "out")


@pytest.mark.slow
def test_an_extension_that_was_stopped_goes_on(tmp_path: Path) -> None:
    run(sized(6), tmp_path / "whole")
    out, seen = tmp_path / "out", list[int]()
    run(sized(2), out)
    with pytest.raises(Stopped):
        run(sized(6), out, callbacks=[stop_after(4)])
    with pytest.raises(UsageError, match="iterations 30 there, 10 here"):
        run(sized(2), out)
    run(sized(6), out, callbacks=[recording(seen)])
    assert seen == [3, 4, 5, 6]
    assert_same(tmp_path / "whole", out)


@pytest.mark.slow
def test_what_would_not_be_the_longer_run_is_refused(tmp_path: Path) -> None:
    run(small(iterations=12, evaluate_every=3), tmp_path / "part")
    run(sized(3), tmp_path / "odd")
    run(sized(4), tmp_path / "even")
    for folder, config, reason in (
        ("part", small(iterations=30, evaluate_every=3), "last round has 2 local iterations"),
        ("odd", sized(6), "its last round, 3, is not a multiple of 2, and a longer run"),
        ("even", sized(8, every=4), "evaluations are 2 there and 4 here; give --evaluate-every 2"),
        ("even", sized(8, {"engine": "flower"}), "a longer run goes on with --engine local or ray"),
    ):
        out = tmp_path / folder
        before = {f: f.stat().st_mtime_ns for f in out.rglob("*")}
        with pytest.raises(UsageError, match=f"holds a run of .* cannot be extended: .*{reason}"):
            run(config, out)
        assert {f: f.stat().st_mtime_ns for f in out.rglob("*")} == before
    for config in (sized(2), sized(8, {"lr": 0.5})):
        with pytest.raises(UsageError, match="it holds results of other settings"):
            run(config, tmp_path / "even")


@pytest.mark.slow
def test_what_is_large_is_kept_where_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_page: None
) -> None:
    monkeypatch.setattr(checkpoint, "KEPT_BYTES", 1000)
    run(sized(2), tmp_path / "left")
    with pytest.raises(UsageError, match="was not kept, .* with --keep-checkpoint"):
        run(sized(4), tmp_path / "left")
    kept = sized(2, {"keep_checkpoint": True})
    run(kept, tmp_path / "kept")
    assert run(sized(4), tmp_path / "kept").summary["iterations"] == 20
    cell = [Cell("kept", kept)]
    for cells in (cell, [Cell("kept", sized(2))]):  # kept, and then not any more
        run_cells(cells, tmp_path / "cell", described=False)
        names = {place.name for place in (tmp_path / "cell" / "cells" / "kept").iterdir()}
        assert (checkpoint.END in names) == (NAME in names) == (cells is cell)
    monkeypatch.setattr(checkpoint, "KEPT_BYTES", 10**9)
    sweep(SweepConfig(sized(2), (5,), (), baseline=False), tmp_path / "sweep")
    assert not list(tmp_path.glob("sweep/cells/*/final"))


def test_a_sweep_that_is_refused_has_changed_no_cell(tmp_path: Path) -> None:
    """Of two finished cells one can be extended; the other kept no memory."""
    short, long = sized(2), sized(4)
    kept = short.but(seed=1, keep_checkpoint=True)
    run_cells([Cell("kept", kept), Cell("plain", short)], tmp_path)
    (tmp_path / "cells" / "kept" / "summary.json").touch()
    before = files(tmp_path / "cells")
    with pytest.raises(UsageError, match="its memory was not kept"):
        run_cells(
            [Cell("kept", long.but(seed=1, keep_checkpoint=True)), Cell("plain", long)], tmp_path
        )
    assert files(tmp_path / "cells") == before


@pytest.mark.parametrize("stopped", [False, True])
def test_what_a_run_began_with_is_recorded_once(stopped: bool, tmp_path: Path) -> None:
    """The weights were of another torch: what goes on keeps their digest."""
    settings, out = {"checkpoint_every": 1} if stopped else {}, tmp_path / "out"
    if stopped:
        with pytest.raises(Stopped):
            run(sized(4, settings), out, callbacks=[stop_after(2)])
    else:
        run(sized(2), out)
    file, before = out / "config.toml", contents.recorded_content(out, contents.START)["weights"]
    file.write_text(file.read_text().replace(before, "0" * 16))
    run(sized(4, settings), out)
    assert contents.recorded_content(out, contents.START) == {"weights": "0" * 16}


def test_a_kill_while_a_run_is_extended_keeps_what_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(sized(2), tmp_path)
    before = contents.recorded_content(tmp_path, contents.START)
    monkeypatch.setattr(extending, "write_text", partial(_written_and_killed, write_text))
    with pytest.raises(Stopped):
        run(sized(4), tmp_path)
    assert "iterations = 20" in (tmp_path / "config.toml").read_text()
    assert before and contents.recorded_content(tmp_path, contents.START) == before


def _written_and_killed(write: Any, path: Path, text: str) -> None:
    write(path, text)
    raise Stopped


def test_a_run_that_begins_again_records_what_it_begins_with(tmp_path: Path) -> None:
    run(sized(2), tmp_path)
    (tmp_path / "summary.json").unlink()  # as if it had been killed before a checkpoint
    shutil.rmtree(tmp_path / checkpoint.END)
    file, before = tmp_path / "config.toml", contents.recorded_content(tmp_path, contents.START)
    file.write_text(file.read_text().replace(before["weights"], "0" * 16))
    run(sized(2), tmp_path)
    assert contents.recorded_content(tmp_path, contents.START) == before
