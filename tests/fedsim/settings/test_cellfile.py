"""Lists of cells as TOML: there and back, what is refused, and run by `fedsim sweep`."""

import doctest
import json
import re
import tomllib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, UsageError
from fedsim.runs.launch import run_shown
from fedsim.settings import cellfile
from fedsim.settings.cellfile import from_toml, from_values, to_toml, write
from fedsim.settings.grids import Cell
from tests.support.commands import Typed, files, typed
from tests.support.markdown import ROOT, blocks
from tests.support.runs import assert_same, make_task

__all__ = ["make_task", "typed"]  # the fixtures

BASE = RunConfig(method="sbc(0.1)", temporal=2, iterations=20, evaluate_every=5)

OTHER: dict[str, Any] = {
    "task": "mnist_lenet5", "method": "topk(0.1) | float32 | golomb", "temporal": 5,
    "gradient": 0.003, "clients": 7, "cohort": 3, "iterations": 30, "batch_size": 9, "lr": 0.25,
    "momentum": 0.5, "seed": 4, "partition": "dirichlet(0.3)", "strategy": "fedadam",
    "server_lr": 0.1, "weighting": "samples", "downlink": "sbc(0.05)", "momentum_masking": "off",
    "buffers": "local", "precision": "bfloat16", "evaluate_every": 3, "test_samples": 50,
    "min_replies": 2, "engine": "flower", "workers": 2, "timeout": 5.5, "download": True,
    "keep_payloads": True, "tensorboard": True, "checkpoint_every": 6, "keep_checkpoint": True,
    "stop_at_bits": 2e6, "label": "mine",
}  # fmt: skip
NEEDS = {"gradient": {"method": "sbc"}, "server_lr": {"strategy": "fedadam"}}
"""Another value of every setting, and what it takes."""


def again(cells: list[Cell], folder: Path) -> list[Cell]:
    (folder / "cells.toml").write_text(to_toml(cells), encoding="utf-8")
    return from_toml(folder / "cells.toml")


def test_every_setting_but_a_machine_s_is_here() -> None:
    assert {*OTHER} == {f.name for f in fields(RunConfig)} - {"data", "device"}


@pytest.mark.parametrize("name", OTHER)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    other = replace(BASE, **NEEDS.get(name, {}), **{name: OTHER[name]})
    assert getattr(other, name) != getattr(BASE, name)
    for cells in (
        [Cell("other", other)],
        [Cell("base", BASE), Cell("other", other)],
        [Cell("other", other), Cell("base", BASE)],
        [Cell("default", RunConfig()), Cell("other", other)],
    ):
        assert again(cells, tmp_path) == cells


def test_all_settings_at_once(tmp_path: Path) -> None:
    much = {**OTHER, "method": "sbc", "weighting": "uniform", "task": "digits"}
    cells = [Cell("a.b", RunConfig(**much)), Cell("c_1", RunConfig(**{**much, "seed": 0}))]
    assert again(cells, tmp_path) == cells
    tables = tomllib.loads(to_toml(cells))
    assert tables["cells"] == {"a.b": {"seed": 4}, "c_1": {"seed": 0}}


def test_what_is_shared_stands_once_and_the_default_nowhere() -> None:
    cells = [Cell("dense", replace(BASE, method="raw")), Cell("sbc", BASE)]
    assert tomllib.loads(to_toml(cells)) == {
        "task": "digits", "temporal": 2, "iterations": 20, "evaluate_every": 5,
        "cells": {"dense": {"method": "raw"}, "sbc": {"method": "sbc(0.1)"}},
    }  # fmt: skip
    head = to_toml(cells).splitlines()[2]
    assert head.startswith("# Left to the task digits: clients = 4, batch_size = ")
    assert "iterations" not in head


def test_what_is_a_machine_s_is_not_written(tmp_path: Path) -> None:
    cells = [Cell("a", replace(BASE, data="/somewhere", device="cuda:1"))]
    assert "somewhere" not in to_toml(cells) and "cuda" not in to_toml(cells)
    assert again(cells, tmp_path) == [Cell("a", BASE)]
    values = tomllib.loads(to_toml(cells))
    (read,) = from_values({**values, "device": "cuda:1"}, "here", over={"data": "/there"})
    assert (read.config.data, read.config.device) == ("/there", "cuda:1")


def test_a_cell_s_settings_go_over_the_shared_and_the_command_s_over_both() -> None:
    values = {"method": "raw", "iterations": 20, "temporal": 4, "seed": 1,
              "cells": {"a": {"temporal": 2}, "b": {"iterations": 30, "seed": 2}}}  # fmt: skip
    a, b = (cell.config for cell in from_values(values, "here", over={"seed": 7}))
    assert (a.iterations, a.temporal, a.seed) == (20, 2, 7)
    assert (b.iterations, b.temporal, b.seed) == (30, 4, 7)


def test_cells_of_a_task_in_python_are_left_out(make_task: Any, tmp_path: Path) -> None:
    own = Cell("mine", replace(BASE, task=make_task(), iterations=None))
    text = to_toml([own, Cell("theirs", BASE)])
    assert f"({own.config.plan.task.name}) are defined in Python: mine." in text
    assert [*tomllib.loads(text)["cells"]] == ["theirs"]
    assert write([own], tmp_path / "out") is None and not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="defined in Python"):
        to_toml([own])


def test_a_folder_s_file_grows_by_what_was_run_there(tmp_path: Path) -> None:
    cells = [Cell(name, replace(BASE, seed=seed)) for seed, name in enumerate("abc")]
    assert write(cells[:2], tmp_path) == tmp_path / "runs.toml"
    (tmp_path / "cells" / "a").mkdir(parents=True)
    write(cells[2:], tmp_path)
    assert from_toml(tmp_path / "runs.toml") == [cells[0], cells[2]]  # b was never run
    other = Cell("a", replace(BASE, seed=9))
    write([other], tmp_path)
    assert from_toml(tmp_path / "runs.toml") == [other]


SOUND = {"method": "raw", "iterations": 20}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"cells": {"a": {"tusk": 1}}}, "cell 'a': unknown setting 'tusk'"),
    "unknown above": ({"tusk": 1, "cells": {"a": {}}}, "unknown setting 'tusk'"),
    "wrong type": ({"cells": {"a": {"clients": "x"}}}, "cell 'a': clients is 'x'; it takes int"),
    "a list in a cell": ({"cells": {"a": {"temporal": [1, 2]}}}, r"cell 'a': temporal is \[1, 2\]"),
    "a grid's list": ({"temporal": [1, 2], "cells": {"a": {}}}, "temporal is .*there are cells"),
    "a grid's fractions": ({"gradient": [0.1], "cells": {"a": {}}}, r"gradient is \[0.1\] and"),
    "a grid's seeds": ({"seeds": 2, "cells": {"a": {}}}, "seeds is 2 and there are cells"),
    "a grid's baseline": ({"baseline": True, "cells": {"a": {}}}, "baseline is True and"),
    "no cells": ({"cells": {}}, r"cells is {}; it takes a table a cell"),
    "cells a list": ({"cells": [1]}, r"cells is \[1\]; it takes a table"),
    "a cell no table": ({"cells": {"a": 1}}, "cell 'a' is 1; it takes a table"),
    "a folder above": ({"cells": {"../a": {}}}, "cell '../a': name is '../a'.*letters, digits"),
    "a hidden folder": ({"cells": {".a": {}}}, "cell '.a': name is '.a'"),
    "no name": ({"cells": {"": {}}}, "cell '': name is ''"),
    "a run refuses": ({"cells": {"a": {"temporal": 30}}}, "cell 'a': --temporal is 30"),
    "no such task": ({"cells": {"a": {"task": "nope"}}}, "cell 'a': unknown task 'nope'; known"),
}  # fmt: skip


@pytest.mark.parametrize(("values", "message"), BAD.values(), ids=BAD)
def test_what_is_refused_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^here: {message}"):
        from_values({**SOUND, **values}, "here")


def test_two_cells_of_one_name_are_refused(tmp_path: Path) -> None:
    cells = [Cell("a", BASE), Cell("a", replace(BASE, seed=1))]
    for refuse in (to_toml, lambda cells: run_shown(cells, tmp_path / "out")):
        with pytest.raises(UsageError, match="'a' is the name of two"):
            refuse(cells)
    assert not (tmp_path / "out").exists()


def test_a_file_without_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("method = 'raw'")
    with pytest.raises(UsageError, match="a.toml: it has no cells"):
        from_toml(tmp_path / "a.toml")


def test_the_example_of_the_page() -> None:
    (block,) = [b for b in blocks(ROOT / "docs" / "sweeps.md") if b.language == "toml"]
    cells = from_values(tomllib.loads(block.text), "docs/sweeps.md")
    assert [(c.name, c.config.temporal) for c in cells] == [("dense", 1), ("sbc", 10), ("votes", 1)]
    assert {cell.config.iterations for cell in cells} == {200}


def test_doctests() -> None:
    found = doctest.testmod(cellfile)
    assert found.attempted and not found.failed


CELLS = [
    Cell("dense", replace(BASE, method="raw", temporal=1)),
    Cell("sbc-seed0", BASE),
    Cell("sbc-seed1", replace(BASE, seed=1)),
    Cell("masked", replace(BASE, momentum_masking="off", downlink="sbc(0.2)", cohort=3)),
]
"""Two of them, `sbc-seed0` and `masked`, have one place on the plane."""


def summaries(out: Path) -> dict[str, dict[str, Any]]:
    """Every run's, without the one number that a clock made."""
    found = {f.parent.name: json.loads(f.read_text()) for f in out.glob("cells/*/summary.json")}
    return {name: {k: v for k, v in row.items() if k != "seconds"} for name, row in found.items()}


def test_a_sweep_of_the_file_is_the_experiment_again(typed: Typed) -> None:
    """Bit for bit: the numbers, and the weights in which they end."""
    assert run_shown(CELLS, Path("first")) is not None
    assert from_toml(Path("first/runs.toml")) == CELLS
    arguments = ("sweep", "--config", "first/runs.toml", "--jobs", "1")
    said = typed(*arguments, "--out", "again", "--data", "elsewhere")
    assert said.code == 0, said.err
    names = [cell.name for cell in CELLS]
    assert sorted(f.name for f in Path("again/cells").iterdir()) == sorted(names)
    assert summaries(Path("again")) == summaries(Path("first"))
    for name in names:
        assert_same(Path("first/cells", name), Path("again/cells", name))
        assert 'data = "elsewhere"' in Path("again/cells", name, "config.toml").read_text()
    first, second = (Path(out, "runs.toml").read_bytes() for out in ("first", "again"))
    assert first == second
    page = Path("again/report.html").read_text()
    assert ">masked<" in page  # two runs of one place, told apart by their names
    before = files(Path("again/cells"))
    assert typed(*arguments, "--out", "again").code == 0 and files(Path("again/cells")) == before


def test_flags_go_over_every_cell_and_the_folder_is_named_for_them(typed: Typed) -> None:
    Path("few.toml").write_text(to_toml(CELLS[:2]))
    arguments = ("sweep", "--config", "few.toml", "--jobs", "1")
    for more in ((), ("--iterations", "10")):
        said = typed(*arguments, *more)
        assert said.code == 0 and "Report:  fedsim-results/few-" in said.out, said.err
    made = sorted(Path("fedsim-results").iterdir())
    assert len(made) == 2 and all((folder / "report.html").exists() for folder in made)
    assert {row["iterations"] for folder in made for row in summaries(folder).values()} == {10, 20}
    said = typed(*arguments, "--iterations", "10", "--out", made[0], "--seed", "3")
    assert said.code == 2 and "--seed" in said.err


def test_cells_of_other_settings_are_no_seeds(typed: Typed) -> None:
    """The table of `sweep` calls them by their names, and averages the seeds of one cell alone."""
    fast, served = replace(BASE, lr=0.1), replace(BASE, strategy="fedadam")
    cells = [Cell("a", BASE), Cell("b", fast), Cell("c", served), Cell("d", replace(BASE, seed=1))]
    Path("abc.toml").write_text(to_toml(cells))
    said = typed("sweep", "--config", "abc.toml", "--jobs", "1", "--out", "out")
    assert said.code == 0, said.err
    text = " ".join(said.out.split())
    assert "digits: b, c, sbc" in text  # a and d are seeds of one cell: neither's name is its
    assert said.out.count(" mean ") == said.out.count("± sd") == 1  # of a and d
    again = typed("report", "out")
    assert again.out.splitlines()[:-1] == said.out.splitlines()[:-2]


def test_cells_that_no_page_can_hold_are_told_by_their_names(typed: Typed) -> None:
    cells = [Cell("all", BASE), Cell("few", replace(BASE, test_samples=100))]
    Path("two.toml").write_text(to_toml(cells))
    said = typed("sweep", "--config", "two.toml", "--jobs", "1", "--out", "out")
    assert said.code == 0 and "test_samples is None in the one and 100" in said.out
    assert re.search(r"^all +2 ", said.out, re.M) and re.search(r"^few +2 ", said.out, re.M)
    assert "mean" not in said.out


REFUSED = {
    "sweep --config few.toml --temporal 10": "--temporal is 10: few.toml lists cells",
    "sweep --config few.toml --gradient 0.1": "--gradient is 0.1: few.toml lists cells",
    "sweep --config few.toml --seeds 2": "--seeds is 2: few.toml lists cells",
    "sweep --config few.toml --no-baseline": "--no-baseline: few.toml lists cells",
    "sweep --config few.toml --jobs 0": "--jobs is 0: it is above 0",
    "sweep --config few.toml --clients 3": "few.toml: cell 'all': --cohort is 4: there are 3",
    "run --config few.toml": "few.toml: it lists cells: `fedsim sweep --config` runs them",
}


@pytest.mark.parametrize(("text", "message"), REFUSED.items(), ids=REFUSED)
def test_commands_that_are_refused(text: str, message: str, typed: Typed) -> None:
    Path("few.toml").write_text(to_toml([*CELLS, Cell("all", replace(BASE, cohort=4))]))
    said = typed(*text.split())
    assert said.code == 2 and message in said.err and "Traceback" not in said.err
    assert [f.name for f in Path.cwd().iterdir()] == ["few.toml"]


def test_other_settings_of_a_cell_are_refused(typed: Typed) -> None:
    run_shown(CELLS[:2], Path("out"))
    before = files(Path("out"))
    Path("few.toml").write_text(to_toml([CELLS[0], Cell("sbc-seed0", CELLS[2].config)]))
    said = typed("sweep", "--config", "few.toml", "--out", "out", "--jobs", "1")
    assert said.code == 2 and "seed 0 there, 1 here" in said.err
    assert files(Path("out")) == before
