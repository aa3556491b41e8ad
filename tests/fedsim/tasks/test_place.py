"""A task of a user's own, named ``FILE.py:NAME``: in a run, in files of settings, on workers."""

import importlib
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import cloudpickle
import pytest

from fedsim import TASKS, RunConfig, UsageError, run
from fedsim.runs.sweep import run_cells, sweep
from fedsim.search.search import rerun, search
from fedsim.settings import cellfile, grids
from fedsim.settings.config import from_toml
from fedsim.settings.grids import Cell, SweepConfig
from fedsim.settings.masks import resolve_masking
from tests.support.markdown import ROOT, blocks

PAGE = next(b.text for b in blocks(ROOT / "docs" / "own-task.md") if b.language == "python")
FILE = PAGE.split("result = ")[0]
PLACE = "spirals.py:spirals"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the page's task in a file."""
    (tmp_path / "spirals.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(TASKS, "spirals", raising=False)
    return tmp_path


def changed(path: Path, text: str) -> None:
    """Writes a file that is newer than the one before it, however coarse the disk's clock."""
    path.write_text(text)
    os.utime(path, (time.time() + 5, time.time() + 5))


def test_a_run_s_folder_names_the_place_and_can_be_run_again(folder: Path) -> None:
    config = RunConfig(task=PLACE, method="sbc(0.05)", iterations=40)
    summary = run(config, folder / "out", progress=False).summary
    assert summary["task"] == "spirals"
    assert 'task = "spirals.py:spirals"' in (folder / "out" / "config.toml").read_text()
    read = from_toml(folder / "out" / "config.toml", trust_code=True)
    assert read == resolve_masking(config, config.plan) and read.digest == config.digest
    assert run(read, folder / "out", progress=False).summary == summary  # done already


@pytest.mark.slow
def test_sweeps_cells_and_the_search_s_winner_name_the_place(folder: Path) -> None:
    base = RunConfig(task=PLACE, method="sbc", iterations=20)
    written = grids.sweep_to_toml(SweepConfig(base, [1, 10], [0.1]))
    assert 'task = "spirals.py:spirals"' in written
    cells = [Cell("a", base), Cell("b", RunConfig(method="raw"))]
    path = cellfile.write_cells(cells, folder / "cells")
    assert path is not None and "defined in Python" not in path.read_text()
    assert cellfile.cells_from_toml(path, trust_code=True) == cells
    search(base, folder / "found", budget="100kbit", methods="sbc", trials=2, seeds=1)
    best = folder / "found" / "best.toml"
    assert from_toml(best, trust_code=True).task == base.task
    assert "defined in Python" not in best.read_text()
    assert f"--own {PLACE} --out" in rerun(folder / "found")


@pytest.mark.parametrize(
    "file", ["config.toml", "sweep.toml", "runs.toml", "cells/n1-p0.5-s0/config.toml"]
)
def test_a_folder_s_own_task_is_not_carried_out(folder: Path, file: str) -> None:
    """Whoever wrote the folder would write files as the user who gives it as `--out`."""
    (folder / "theirs.py").write_text("open('carried-out', 'w').close()")
    there = folder / "out" / file
    there.parent.mkdir(parents=True)
    table = "[cells.a]\n" if file == "runs.toml" else ""
    there.write_text(f'{table}task = "{folder}/theirs.py:theirs"\n')
    config = RunConfig(method="raw", temporal=1, iterations=1)
    third = 0.3333333333333  # of which the folder is asked whether it has the cell
    calls = [
        lambda out: run(config, out),
        lambda out: run_cells([Cell("b", config)], out),
        lambda out: sweep(SweepConfig(RunConfig(gradient=third), (10,), (third,)), out),
        lambda out: search(config, out, budget="100kbit", methods="sbc", trials=1),
    ]
    beside = "sweep.toml" if file.startswith("cells") else file
    for call in calls[:1] if beside == "config.toml" else calls[1:]:
        with pytest.raises(UsageError, match=f"its {file} names the task '{folder}/theirs.py:the"):
            call(folder / "out")
    assert not (folder / "carried-out").exists()


def test_a_folder_s_task_is_the_same_however_its_place_is_spelled(folder: Path) -> None:
    config = RunConfig(task=PLACE, method="raw", temporal=1, iterations=1)
    summary = run(config, folder / "out", progress=False).summary
    spelled = replace(config, task=str(folder / "here" / ".." / PLACE))
    assert run(spelled, folder / "out", progress=False).summary == summary


def test_it_travels_to_other_processes_by_value(folder: Path) -> None:
    """Ray's workers stand in another folder, and need not have the file."""
    carried = cloudpickle.dumps(RunConfig(task=PLACE))
    (folder / "spirals.py").unlink()
    assert cloudpickle.loads(carried).plan.task.load(None, False).source == "spirals, made up"


def test_a_file_may_import_what_stands_beside_it(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Each its own, which travels with it; the path is as it was."""
    before, sources = list(sys.path), []
    for source in ("one", "two"):
        there = tmp_path_factory.mktemp(source)
        (there / "beside.py").write_text(f"import sys\n\n\ndef said():\n    return {source!r}\n")
        text = FILE.replace('"spirals, made up"', "beside.said()")
        (there / "mine.py").write_text("import beside\n" + text)
        carried = cloudpickle.dumps(RunConfig(task=f"{there}/mine.py:spirals"))
        sources.append(cloudpickle.loads(carried).plan.task.load(None, False).source)
    assert sources == ["one", "two"]
    assert sys.path == before and "beside" not in sys.modules


@pytest.mark.parametrize("imported", [False, True])
@pytest.mark.parametrize("name", ["helper.py", "helper/__init__.py", "helper/deep.py"])
def test_what_stands_beside_a_file_is_that_of_its_digest(
    folder: Path, name: str, imported: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An edit is executed, also where this process has imported the module before it."""
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    monkeypatch.syspath_prepend(folder)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("SAID = 'one'\n")
    text = FILE.replace('"spirals, made up"', f"{module}.SAID")
    (folder / "spirals.py").write_text(f"import {module}\n" + text)
    before = importlib.import_module(module) if imported else None
    sources, digests = [], set()
    for said in ("one", "three"):
        changed(folder / name, f"SAID = {said!r}\n")
        config = RunConfig(task=PLACE)
        digests.add(config.content["task"]["spirals"])
        carried = cloudpickle.loads(cloudpickle.dumps(config))
        sources.append(carried.plan.task.load(None, False).source)
        assert sys.modules.get(module) is before
    assert sources == ["one", "three"] and len(digests) == 2
    for name in ("helper.deep", "helper"):
        sys.modules.pop(name, None)


def test_a_module_that_was_edited_after_its_import_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(folder)
    (folder / "mine").mkdir()
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "mine" / "deep.py").write_text("")
    (folder / "mine" / "task.py").write_text("from mine import deep\n" + FILE)
    before = RunConfig(task="mine.task:spirals")
    assert RunConfig(task="mine.task:spirals").content == before.content
    changed(folder / "mine" / "deep.py", "edited = True\n")
    with pytest.raises(UsageError, match="task: 'mine.task:spirals': mine.task, .* has changed"):
        RunConfig(task="mine.task:spirals")
    importlib.reload(sys.modules["mine.task"])
    assert RunConfig(task="mine.task:spirals").content != before.content
    for name in ("mine.task", "mine.deep", "mine"):
        del sys.modules[name]


def test_a_file_that_changed_is_read_again(folder: Path) -> None:
    before = RunConfig(task=PLACE).plan
    assert RunConfig(task=PLACE).task == before.task
    changed(folder / "spirals.py", FILE.replace("iterations=400", "iterations=500"))
    assert (before.iterations, RunConfig(task=PLACE).plan.iterations) == (400, 500)


def test_fedsim_s_own_keep_their_names() -> None:
    assert RunConfig(task="fedsim.tasks.digits:DIGITS") == RunConfig(task="digits")
    assert TASKS["digits"].place == "" and TASKS["digits"].written == "digits"


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("gone.py:spirals", "task: 'gone.py:spirals': there is no file gone.py; it takes FILE.py:"),
        ("spirals.py:spiral", "'spiral' is not there, where a fedsim.Task is wanted (there: spir"),
        ("spirals.py:load", "'load' is of type function, where a fedsim.Task is wanted"),
        ("spirals.py", "--task is 'spirals.py': it is a file; give spirals.py:NAME"),
        ("no.module:mine", "no.module cannot be imported: ModuleNotFoundError"),
        (":mine", "task: ':mine': it takes FILE.py:NAME or package.module:NAME"),
        ("broken.py:mine", "broken.py, line 2: ZeroDivisionError: division by zero"),
        ("digits.py:mine", "--task is 'digits': fedsim has one of that name; give yours"),
        ("spirals", "a task of your own is FILE.py:NAME"),
    ],
)
def test_a_wrong_place_is_told(folder: Path, place: str, said: str) -> None:
    (folder / "broken.py").write_text("one = 1\nhalf = one / 0\n")
    (folder / "digits.py").write_text(FILE.replace('"spirals"', '"digits"') + "mine = spirals\n")
    with pytest.raises(UsageError) as told:
        RunConfig(task=place)
    assert said in str(told.value)


def test_a_file_that_changes_the_working_directory_moves_no_results(folder: Path) -> None:
    (folder / "there").mkdir()
    away = "import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\n"
    (folder / "there" / "mine.py").write_text(away + FILE)
    config = RunConfig(task="there/mine.py:spirals", method="raw", temporal=1, iterations=2)
    assert Path.cwd() == folder
    run(config, "out", progress=False)
    assert (folder / "out" / "summary.json").exists()
    read = from_toml(Path("out", "config.toml"), trust_code=True)
    assert read == resolve_masking(config, config.plan)
