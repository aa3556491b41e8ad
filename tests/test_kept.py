"""Folders that earlier versions wrote are read, checked, compared, gone on with and extended.

``tests/kept/make.py`` wrote them; each version adds its own, and none is ever changed.
"""

import shutil
import tomllib
from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.ground.version import VERSION
from fedsim.runs import environment
from fedsim.runs.verify import rerun
from fedsim.settings.config import from_toml
from fedsim.settings.contents import recorded_content
from fedsim.settings.grids import sweep_from_toml as from_sweep
from tests.kept.make import FEEDBACK, HERE, RUN, SEARCH, STACKED, SWEEP
from tests.support.commands import Typed, files, no_page, typed
from tests.support.interrupting import recording

__all__ = ["no_page", "typed"]  # fixtures

VERSIONS = sorted(path.parent.name for path in HERE.glob("*/run"))

pytestmark = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def kept(version: str, typed: Typed) -> Path:
    """A copy in the current folder, where the task's file is too."""
    shutil.copy(HERE / "task.py", "task.py")
    shutil.copytree(HERE / version, "kept")
    return Path("kept")


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders are of another machine, whose sums may end in other digits."""
    here = environment.describe_environment()
    monkeypatch.setattr(rerun, "describe_environment", lambda: here | {"processor": "another"})


def masking(folder: Path) -> str:
    """What a folder's settings say of momentum masking."""
    given = tomllib.loads((folder / "config.toml").read_text())
    return str(given["training"]["momentum_masking"])


def column(folder: Path, file: str, name: str) -> list[object]:
    """The values of one column of a table."""
    return pd.read_parquet(folder / f"{file}.parquet")[name].tolist()


def test_load_and_verify(kept: Path, typed: Typed, elsewhere: None) -> None:
    run, sweep = fedsim.load(kept / "run"), fedsim.load(kept / "sweep")
    assert (len(run.runs), len(run.rounds), len(sweep.runs)) == (1, 4, 4)
    sent = sum(8 * file.stat().st_size for file in (kept / "run").rglob("*-up.bin"))
    assert sent == run.rounds["up_wire_bits"].sum() == 2 * run.runs["up_wire_bits"].item() > 1000
    assert sweep.runs["metric"].between(0.1, 1).all()
    for folder in ("run", "sweep", "feedback", "search"):
        said = typed("verify", kept / folder, "--own", "task.py:TASK", "--rerun")
        assert said.code == 0, said.out + said.err
    assert typed("verify", kept / "stacked", "--own", "task.py:TASK").code == 0


@pytest.mark.slow
def test_a_finished_sweep_is_not_run_again(kept: Path, typed: Typed, no_page: None) -> None:
    before, cells = files(kept / "sweep" / "cells"), kept / "sweep" / "cells"
    settings = {name for name in before if name.endswith("config.toml")}
    said = typed(*SWEEP, "--jobs", "1", "--out", kept / "sweep")
    assert said.code == 0, said.err
    now = files(cells)
    assert {n for n, instant in now.items() if before.get(n) != instant} <= settings
    assert all(recorded_content(cells / name.partition("/")[0])["task"] for name in settings)
    assert typed(*SWEEP, "--jobs", "1", "--out", kept / "sweep").code == 0
    assert files(cells) == now  # digests of the task's file are recorded once


def test_a_run_is_extended(kept: Path, typed: Typed, no_page: None) -> None:
    before = column(kept / "run", "clients", "digest_up")
    said = typed(*RUN, "12", "--out", kept / "run")
    assert said.code == 0, said.err
    assert column(kept / "run", "rounds", "round") == [1, 2, 3, 4, 5, 6]
    assert column(kept / "run", "clients", "digest_up")[: len(before)] == before
    assert typed("verify", kept / "run", "--own", "task.py:TASK").code == 0


def test_a_stopped_run_goes_on(kept: Path, typed: Typed) -> None:
    seen: list[int] = []
    config = from_toml(kept / "stopped" / "config.toml", trust_code=True)
    fedsim.run(config, kept / "stopped", callbacks=[recording(seen)], progress=False)
    assert seen == [4]
    whole = column(kept / "run", "clients", "digest_up")
    assert column(kept / "stopped", "clients", "digest_up")[:6] == whole[:6]
    assert column(kept / "stopped", "rounds", "round") == [1, 2, 3, 4]
    assert typed("verify", kept / "stopped", "--own", "task.py:TASK").code == 0


def test_a_run_that_was_stopped_with_late_updates_under_way_goes_on(
    kept: Path, typed: Typed
) -> None:
    """In 0.1.0 the clock had forecasts; last digits of its seconds may differ."""
    config = from_toml(kept / "late-stopped" / "config.toml", trust_code=True)
    seen: list[int] = []
    fedsim.run(config, kept / "late-stopped", callbacks=[recording(seen)], progress=False)
    assert seen == [6, 7, 8]
    folders = kept / "late", kept / "late-stopped"
    whole, again = (pd.read_parquet(folder / "rounds.parquet") for folder in folders)
    same = ["clients", "failures", "late", "lost", "returned", "up_wire_bits", "digest_model"]
    pd.testing.assert_frame_equal(again[same], whole[same])
    assert again["sim_end_seconds"].tolist() == pytest.approx(whole["sim_end_seconds"], rel=1e-12)
    assert typed("verify", kept / "late-stopped", "--own", "task.py:TASK").code == 0


@pytest.mark.slow
def test_reports_and_comparisons(kept: Path, typed: Typed) -> None:
    said = typed("report", kept / "run", kept / "sweep", "--out", "both")
    assert said.code == 0, said.err
    assert Path("both", "report.html").read_text().count("<svg ") >= 3
    shutil.copytree(kept / "sweep", "again")
    said = typed("compare", kept / "sweep", "again")
    assert said.code == 0, said.err


def test_ef_without_a_mask_of_its_own_is_extended_as_it_was_made(
    version: str, kept: Path, typed: Typed, no_page: None, caplog: pytest.LogCaptureFixture
) -> None:
    """In 0.1.0 momentum was masked with every ``ef``: the same command goes on with that."""
    plain = Path("plain")  # the same memory, from which no momentum is forgotten
    shutil.copytree(kept / "feedback", plain)
    text = (plain / "config.toml").read_text()
    (plain / "config.toml").write_text(text.replace('masking = "auto"', 'masking = "off"'))
    before = column(kept / "feedback", "clients", "digest_up")
    said = typed(*FEEDBACK, "12", "--out", kept / "feedback")
    assert said.code == 0, said.err
    assert caplog.text.count("kept/feedback goes on as it was made") == 1
    assert "0.1.0 (commit 29f117ea)" in caplog.text
    assert typed(*FEEDBACK, "12", "--momentum-masking", "off", "--out", plain).code == 0
    own = column(kept / "feedback", "clients", "digest_up")
    assert own[: len(before)] == before and len(own) == 12
    other = column(plain, "clients", "digest_up")
    assert other[:8] == own[:8] and not {*other[10:]} & {*own[10:]}
    assert (masking(kept / "feedback"), masking(plain)) == ("ef", "off")
    assert typed("verify", kept / "feedback", "--own", "task.py:TASK").code == 0
    # And so it stays: a longer one follows what the folder says now.
    said = typed(*FEEDBACK, "16", "--out", kept / "feedback")
    assert said.code == 0 and masking(kept / "feedback") == "ef", said.err


def test_ef_without_a_mask_that_was_stopped_goes_on_as_it_was_made(
    kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, seen = kept / "feedback-stopped", list[int]()
    typed = fedsim.RunConfig.of(
        task="task.py:TASK",
        clients=2,
        evaluate_every=1,
        temporal=2,
        iterations=8,
        method="ef(topk(0.1) | float32 | golomb)",
    )
    assert not typed.plan.masks and from_toml(folder / "config.toml", trust_code=True).plan.masks
    with pytest.raises(fedsim.UsageError, match="momentum_masking True there, False here"):
        fedsim.run(typed.but(momentum_masking="off"), folder, progress=False)
    result = fedsim.run(typed, folder, callbacks=[recording(seen)], progress=False)
    assert seen == [4] and caplog.text.count("goes on as it was made") == 1
    assert result.summary["settings"]["momentum_masking"] is True
    whole = column(kept / "feedback", "clients", "digest_up")
    assert column(folder, "clients", "digest_up")[:6] == whole[:6]


def test_a_file_that_fedsim_wrote_has_the_meaning_of_its_version(
    version: str, kept: Path, typed: Typed
) -> None:
    """In a results folder, copied from one, and beside what a person wrote."""
    shutil.copy(kept / "feedback" / "config.toml", "copied.toml")
    Path("own.toml").write_text('method = "ef(topk(0.1) | float32)"\ntemporal = 2\n')
    files = kept / "feedback" / "config.toml", Path("copied.toml"), kept / "search" / "best.toml"
    assert all(from_toml(file, trust_code=True).plan.masks for file in files)
    assert not from_toml(Path("own.toml")).plan.masks
    sweep = from_sweep(kept / "sweep" / "sweep.toml", trust_code=True)
    assert sweep.base.training.momentum_masking == "ef" and sweep.base.plan.masks
    typed("run", "--config", "own.toml", "--iterations", "4", "--out", "new")
    written = tomllib.loads(Path("new/config.toml").read_text())
    assert written["version"] == VERSION and masking(Path("new")) == "off"


@pytest.mark.slow
def test_a_sweep_gets_further_cells_by_its_own_rules(
    kept: Path, typed: Typed, no_page: None
) -> None:
    before = files(kept / "sweep" / "cells")
    more = [*SWEEP, "--jobs", "1", "--out", str(kept / "sweep")]
    more[more.index("0.1")] = "0.1,0.2"
    assert typed(*more).code == 0
    there = files(kept / "sweep" / "cells")
    results = {f: t for f, t in before.items() if not f.endswith("config.toml")}  # it gets digests
    assert results.items() <= there.items()
    cells = kept / "sweep" / "cells"
    masks = {masking(cells / name) for name in ("n2-p0.1-s0", "n2-p0.1-s1", "n2-p0.2-s0")}
    assert masks == {"ef"} and recorded_content(cells / "n2-p0.1-s0")
    assert typed(*more).code == 0 and files(kept / "sweep" / "cells") == there


@pytest.mark.slow
def test_a_stacked_run_is_read_and_neither_extended_nor_run_again(
    version: str, kept: Path, typed: Typed
) -> None:
    """In 0.1.0 ``--stack`` trained clients in one batch: its last bits are no other's."""
    folder = kept / "stacked"
    before, config = files(folder), from_toml(folder / "config.toml", trust_code=True)
    assert config.identity()["stack"] == "2" and len(fedsim.load(folder).rounds) == 4
    assert typed("report", folder, "--out", "report").code == 0
    for command in (
        (*STACKED, "8", "--out", folder),
        (*STACKED, "12", "--out", folder),
        ("run", "--config", folder / "config.toml", "--own", "task.py:TASK", "--out", "again"),
        ("verify", folder, "--own", "task.py:TASK", "--rerun"),
    ):
        said = typed(*map(str, command))
        assert said.code != 0 and "fedsim 0.1.0 (commit 29f117ea)" in said.err + said.out
    assert files(folder) == before


@pytest.mark.slow
def test_a_search_goes_on(kept: Path, typed: Typed, caplog: pytest.LogCaptureFixture) -> None:
    """Its trials count, and further ones are made as they were."""
    before = files(kept / "search" / "cells")
    said = typed(*SEARCH, "4", "--out", kept / "search")
    assert said.code == 0, said.err
    there = files(kept / "search" / "cells")
    assert before.items() <= there.items() and len(there) > len(before)
    assert (said.err + caplog.text).count("goes on as it was made") == 1 and "trial 3" in said.err
    assert "trial 2:" not in said.err
    cells = (kept / "search").glob("cells/*/config.toml")
    assert all(from_toml(cell, trust_code=True).plan.masks for cell in cells)
    assert from_toml(kept / "search" / "best.toml", trust_code=True).plan.masks


@pytest.fixture
def varied(kept: Path) -> Path:
    """A sweep over masking, from runs of before: as ``--vary momentum-masking=auto,off`` wrote it.

    Its first run masks, and the second does not, as it has not been run.
    """
    out = kept / "varied"
    cell = out / "cells" / "n2-p0.1-s0-momentum_masking-auto"
    shutil.copytree(kept / "feedback", cell)
    shutil.rmtree(cell / "final")  # sweeps do not keep it
    (out / "sweep.toml").write_text(VARIED)
    return out


VARIED = """method = "ef(topk(0.1) | float32 | golomb)"
temporal = [2]
gradient = []
seeds = 1
baseline = false
task = "task.py:TASK"
iterations = 8

[vary]
momentum_masking = ["auto", "off"]

[clients]
count = 2

[evaluation]
every = 1
"""
VARY = ("sweep", *FEEDBACK[1:-1], "--iterations", "8", "--no-baseline", "--jobs", "1", "--vary")


@pytest.mark.slow
@pytest.mark.parametrize("given", ["auto,off", "off,auto", "ef,off"])
def test_a_sweep_over_masking_goes_on_as_it_was_made(
    given: str, varied: Path, typed: Typed, no_page: None, caplog: pytest.LogCaptureFixture
) -> None:
    before = files(varied / "cells")
    for _ in range(2):
        caplog.clear()
        said = typed(*VARY, f"momentum-masking={given}", "--out", varied)
        assert said.code == 0, said.err
        assert caplog.text.count("goes on as it was made") == (given != "ef,off")
    there = files(varied / "cells")
    results = {f: t for f, t in before.items() if not f.endswith("config.toml")}
    assert results.items() <= there.items()  # it is not run again
    cells = varied / "cells"
    masks = {folder.name.rpartition("-")[2]: masking(folder) for folder in cells.iterdir()}
    assert masks == {"auto": "ef", "off": "off"}
    written = from_sweep(varied / "sweep.toml", trust_code=True)
    assert sorted(written.vary["momentum_masking"]) == ["ef", "off"]
