"""Lists of cells as TOML: there and back, and what is refused."""

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsim import Evaluation, RunConfig, UsageError
from fedsim.ground.version import VERSION
from fedsim.runs.launch import run_shown
from fedsim.settings import cellfile
from fedsim.settings.cellfile import cells_from_toml, cells_to_toml, from_values, write_cells
from fedsim.settings.config import SETTINGS
from fedsim.settings.grids import Cell
from fedsim.settings.strategies import FLAGS
from tests.support.markdown import ROOT, blocks

BASE = RunConfig(method="sbc(0.1)", temporal=2, iterations=20, evaluation=Evaluation(every=5))

OTHER: dict[str, Any] = {
    "task": "mnist_lenet5", "method": "topk(0.1) | float32 | golomb", "temporal": 5,
    "gradient": 0.003, "clients": 7, "cohort": 3, "iterations": 30, "rounds": 7, "batch_size": 9,
    "lr": 0.25, "momentum": 0.5, "seed": 4, "partition": "dirichlet(0.3)", "strategy": "fedadam",
    "server_lr": 0.1, "weighting": "samples", "downlink": "sbc(0.05)", "momentum_masking": "off",
    "buffers": "local", "precision": "bfloat16", "evaluate_every": 3, "test_samples": 50,
    "min_replies": 2, "engine": "flower", "workers": 2, "timeout": 5.5, "download": True,
    "keep_payloads": True, "track": "wandb,mlflow", "checkpoint_every": 6, "keep_checkpoint": True,
    "stop_at_bits": 2e6, "stop_at_joules": 50.0, "budget_of": "total", "label": "mine",
    "network": "4g, compute=10ms", "availability": "0.9", "dropout": "0.1", "ask": 4,
    "deadline": "30s", "late": "drop", "catch_up": True, "controller": "plateau(3)",
    "proximal": 0.1, "stack": "2", "validation": 0.1, "staleness": "constant", "buffer_size": 3,
    "max_norm": 3.5, "memory": 2.0**30, "stateless": True, "memory_as": "bfloat16",
    "local_epochs": 2, "evaluate_clients": 0.25, "weights": "start.safetensors@0123456789abcdef",
    "sampler": "weighted(samples)", "local_seconds": 0.5,
}  # fmt: skip
EVENTS = {"strategy": "fedbuff", "network": "4g, compute=10ms"}
NEEDS = {
    "rounds": {"iterations": None},
    "gradient": {"method": "sbc"},
    "local_epochs": {"iterations": None, "rounds": 7},
    "local_seconds": {"iterations": None, "rounds": 7, "network": "4g, compute=10ms"},
    "server_lr": {"strategy": "fedadam"},
    "controller": {"method": "sbc"},
    "staleness": EVENTS,
    "buffer_size": EVENTS,
    "stack": {"engine": "local"},
    "memory": {"engine": "local"},
    "memory_as": {"engine": "local"},
    "ask": {"network": "4g, compute=10ms", "cohort": 3},
    "stop_at_joules": {"network": "4g, energy_up=1uJ/bit"},
    "deadline": {"network": "4g, compute=10ms"},
    "catch_up": {"downlink": "sbc(0.05)"},
}
"""Another value of every setting, and what it takes."""


def again(cells: list[Cell], folder: Path) -> list[Cell]:
    (folder / "cells.toml").write_text(cells_to_toml(cells), encoding="utf-8")
    return cells_from_toml(folder / "cells.toml")


def test_every_setting_but_a_machine_s_is_here() -> None:
    assert {*OTHER} == {*SETTINGS, *FLAGS} - {*cellfile._MACHINE}


@pytest.mark.parametrize("name", OTHER)
def test_there_and_back(name: str, tmp_path: Path) -> None:
    other = BASE.but(**NEEDS.get(name, {}), **{name: OTHER[name]})
    kept = "strategy" if name in FLAGS else name
    assert other.flat()[kept] != BASE.flat()[kept]
    for cells in (
        [Cell("other", other)],
        [Cell("base", BASE), Cell("other", other)],
        [Cell("other", other), Cell("base", BASE)],
        [Cell("default", RunConfig()), Cell("other", other)],
    ):
        assert again(cells, tmp_path) == cells


def test_all_settings_at_once(tmp_path: Path) -> None:
    much = {**OTHER, "method": "sbc", "task": "digits"}
    apart = {"rounds", "local_epochs", "local_seconds", "stack", "memory", "memory_as", "weighting"}
    apart |= {"stop_at_joules"}
    apart |= {name for name in NEEDS if NEEDS[name] == EVENTS}
    much = {name: value for name, value in much.items() if name not in apart}
    cells = [Cell("a.b", RunConfig.of(**much)), Cell("c_1", RunConfig.of(**{**much, "seed": 0}))]
    assert again(cells, tmp_path) == cells
    tables = tomllib.loads(cells_to_toml(cells))
    assert tables["cells"] == {"a.b": {"seed": 4}, "c_1": {"seed": 0}}


def test_what_is_shared_stands_once_and_the_default_nowhere() -> None:
    cells = [Cell("dense", replace(BASE, method="raw")), Cell("sbc", BASE)]
    assert tomllib.loads(cells_to_toml(cells)) == {
        "version": VERSION,
        "task": "digits",
        "temporal": 2,
        "iterations": 20,
        "evaluation": {"every": 5},
        "cells": {"dense": {"method": "raw"}, "sbc": {"method": "sbc(0.1)"}},
    }
    head = cells_to_toml(cells).splitlines()[2]
    assert head.startswith("# Left to the task digits: clients = 4, batch_size = ")
    assert "iterations" not in head


def test_what_is_a_machine_s_is_not_written(tmp_path: Path) -> None:
    cells = [Cell("a", BASE.but(data="/somewhere", device="cuda:1"))]
    assert "somewhere" not in cells_to_toml(cells) and "cuda" not in cells_to_toml(cells)
    assert again(cells, tmp_path) == [Cell("a", BASE)]
    values = {k: v for k, v in tomllib.loads(cells_to_toml(cells)).items() if k != "version"}
    machine = {"machine": {"device": "cuda:1"}}
    (read,) = from_values({**values, **machine}, "here", {"data": "/there"})
    assert (read.config.machine.data, read.config.machine.device) == ("/there", "cuda:1")


def test_a_cell_s_settings_go_over_the_shared_and_the_command_s_over_both() -> None:
    values = {
        "method": "raw",
        "iterations": 20,
        "temporal": 4,
        "seed": 1,
        "cells": {"a": {"temporal": 2}, "b": {"iterations": 30, "seed": 2}},
    }
    a, b = (cell.config for cell in from_values(values, "here", {"seed": 7}))
    assert (a.iterations, a.temporal, a.seed) == (20, 2, 7)
    assert (b.iterations, b.temporal, b.seed) == (30, 4, 7)


def test_cells_of_a_task_in_python_are_left_out(make_task: Any, tmp_path: Path) -> None:
    own = Cell("mine", replace(BASE, task=make_task(), iterations=None))
    text = cells_to_toml([own, Cell("theirs", BASE)])
    assert "they are defined in Python" in text and ": mine." in text
    assert [*tomllib.loads(text)["cells"]] == ["theirs"]
    assert write_cells([own], tmp_path / "out") is None and not (tmp_path / "out").exists()
    with pytest.raises(UsageError, match="defined in Python"):
        cells_to_toml([own])


def test_a_folder_s_file_grows_by_what_was_run_there(tmp_path: Path) -> None:
    cells = [Cell(name, replace(BASE, seed=seed)) for seed, name in enumerate("abc")]
    assert write_cells(cells[:2], tmp_path) == tmp_path / "runs.toml"
    (tmp_path / "cells" / "a").mkdir(parents=True)
    write_cells(cells[2:], tmp_path)
    assert cells_from_toml(tmp_path / "runs.toml") == [cells[0], cells[2]]  # b was never run
    other = Cell("a", replace(BASE, seed=9))
    write_cells([other], tmp_path)
    assert cells_from_toml(tmp_path / "runs.toml") == [other]


SOUND = {"method": "raw", "iterations": 20}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": ({"cells": {"a": {"tusk": 1}}}, "cell 'a': unknown setting 'tusk'"),
    "unknown above": ({"tusk": 1, "cells": {"a": {}}}, "unknown setting 'tusk'"),
    "wrong type": ({"cells": {"a": {"clients": "x"}}}, "cell 'a': clients is 'x'; it takes int"),
    "a setting of a group": (
        {"cells": {"a": {"lr": 0.5}}},
        r"cell 'a': lr = 0.5 goes .* below \[training\]",
    ),
    "a list in a cell": ({"cells": {"a": {"temporal": [1, 2]}}}, r"cell 'a': temporal is \[1, 2\]"),
    "a grid's list": ({"temporal": [1, 2], "cells": {"a": {}}}, "temporal is .*the file has cells"),
    "a grid's fractions": ({"gradient": [0.1], "cells": {"a": {}}}, r"gradient is \[0.1\] and"),
    "a grid's seeds": ({"seeds": 2, "cells": {"a": {}}}, "seeds is 2 and the file has cells"),
    "a grid's baseline": ({"baseline": True, "cells": {"a": {}}}, "baseline is True and"),
    "no cells": ({"cells": {}}, r"cells is {}; it takes a table per cell"),
    "cells a list": ({"cells": [1]}, r"cells is \[1\]; it takes a table"),
    "a cell no table": ({"cells": {"a": 1}}, "cell 'a' is 1; it takes a table"),
    "a folder above": ({"cells": {"../a": {}}}, "cell '../a': name is '../a'.*letters, digits"),
    "a hidden folder": ({"cells": {".a": {}}}, "cell '.a': name is '.a'"),
    "no name": ({"cells": {"": {}}}, "cell '': name is ''"),
    "a run refuses": ({"cells": {"a": {"temporal": 30}}}, "cell 'a': --temporal is 30"),
    "no such task": ({"cells": {"a": {"task": "nope"}}}, "cell 'a': --task: unknown task 'nope'"),
}


@pytest.mark.parametrize(("values", "message"), BAD.values(), ids=BAD)
def test_what_is_refused_is_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^here: {message}"):
        from_values({**SOUND, **values}, "here")


def test_two_cells_of_one_name_are_refused(tmp_path: Path) -> None:
    cells = [Cell("a", BASE), Cell("a", replace(BASE, seed=1))]
    for refuse in (cells_to_toml, lambda cells: run_shown(cells, tmp_path / "out")):
        with pytest.raises(UsageError, match="'a' is the name of two"):
            refuse(cells)
    assert not (tmp_path / "out").exists()


def test_a_file_without_cells_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("method = 'raw'")
    with pytest.raises(UsageError, match="a.toml: it has no cells"):
        cells_from_toml(tmp_path / "a.toml")


def test_the_example_of_the_page() -> None:
    toml = [b for b in blocks(ROOT / "docs" / "sweeps.md") if b.language == "toml"]
    (block,) = [b for b in toml if "[cells." in b.text]
    cells = from_values(tomllib.loads(block.text), "docs/sweeps.md")
    assert [(c.name, c.config.temporal) for c in cells] == [("dense", 1), ("sbc", 10), ("votes", 1)]
    assert {cell.config.iterations for cell in cells} == {200}


def test_a_name_with_a_version_keeps_it() -> None:
    cell = Cell("sbc-n1.2.3-s4", replace(BASE, seed=4))
    assert cellfile.labelled(cell).config.label == "sbc-n1.2.3"


def test_numbers_that_stand_for_a_text_keep_their_digits() -> None:
    network = "4g, compute=10ms"
    assert BASE.but(stack=1000000, engine="local").machine.stack == "1000000"
    assert BASE.but(deadline=1234567.5, network=network).clients.deadline == "1234567.5"
    assert BASE.but(deadline=2.0, network=network).clients.deadline == "2"
