"""The frame of experiments: what ``--only`` chooses, what is written, and what may be imported."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from compressors import ROWS
from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Results, UsageError
from strategies.algorithms import ALGORITHMS
from tests.support.markdown import ROOT

FOLDERS = ("common", *sorted(path.parent.name for path in ROOT.glob("experiments/*/run.py")))


def nothing(asked: Asked, results: Results | None) -> Shown:
    return Shown({})


def framed(default: tuple[str, ...] = ()) -> Experiment:
    """Tasks a and b, of which smoke has a alone, and rows x and y."""
    return Experiment(
        nothing,
        tasks=lambda scale: "a" if scale == "smoke" else "ab",
        rows=lambda scale: "xy",
        default=lambda scale: default,
        what="tasks and rows",
    )


@pytest.mark.parametrize(
    ("only", "default", "named"),
    [
        (None, (), (["a", "b"], [])),
        (None, ("b",), (["b"], [])),
        (None, ("other",), (["other"], [])),  # it need not be known
        (["x"], ("b",), (["b"], ["x"])),
        (["y", "b", "x", "y"], ("a",), (["b"], ["y", "x"])),
        (None, ("y",), (["a", "b"], ["y"])),
    ],
)
def test_what_only_names(
    only: list[str] | None, default: tuple[str, ...], named: tuple[list[str], list[str]]
) -> None:
    assert framed(default).named("short", only) == named


@pytest.mark.parametrize("only", [["b"], ["a", "b"], ["b", "x"]])
def test_a_name_that_the_scale_lacks_is_refused_before_any_work(
    only: list[str], tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        framed().main("smoke", only, tmp_path / "out", 1, None)
    assert str(caught.value) == "--only is 'b': tasks and rows of --scale smoke are a, x, y"
    assert not (tmp_path / "out").exists()


def test_a_task_has_a_folder_of_its_own(tmp_path: Path) -> None:
    assert framed().main("short", None, tmp_path, 1, None) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_what_is_shown_is_written_and_its_texts_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pd.DataFrame({"name": ["a"], "value": [1 / 3]})
    tables = dict.fromkeys(("six", "two", "all"), frame)
    figures = {"empty": Figure()}
    Shown(tables, {"told": "| a |\n"}, figures, {"two": 2, "all": None}).write(tmp_path / "new")
    written = {path.name: path for path in (tmp_path / "new").iterdir()}
    assert set(written) == {"six.csv", "two.csv", "all.csv", "told.md", "empty.png"}
    values = [written[f"{n}.csv"].read_text().split(",")[-1].strip() for n in tables]
    assert values == ["0.333333", "0.33", "0.3333333333333333"]
    assert written["told.md"].read_text() == "| a |\n" and "| a |" in capsys.readouterr().out


OPEN = {
    "fedsim",
    "fedsim.show",
    "fedsim.federation",
    "fedsim.ground.files",
    "fedsim.measure.theory",
    "fedsim.network",
    "fedsim.search",
    "fedsim.settings.cellfile",
    "fedsim.show.plot",
    "fedsim.tasks",
    "fedsim.tasks.pack_cifar",
    "fedsim.ground.units",
}
"""What an experiment may import of fedsim: its front door, and those of its rooms."""


def imports(path: Path) -> list[tuple[str, str]]:
    """(module, name) of every import of a file; the module is empty for a neighbour's."""
    tree = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    froms = [node for node in tree if isinstance(node, ast.ImportFrom)]
    plain = [alias.name for node in tree if isinstance(node, ast.Import) for alias in node.names]
    named = [(n.module or "", alias.name) for n in froms if not n.level for alias in n.names]
    return [*named, *((name, "") for name in plain)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_an_experiment_imports_what_is_exported_and_nothing_sideways(folder: str) -> None:
    for path in ROOT.glob(f"experiments/{folder}/*.py"):
        assert "sys.path" not in path.read_text(encoding="utf-8")
        for module, name in imports(path):
            package = module.split(".")[0]
            if package == "experiments":
                assert module.startswith("experiments.common."), (path, module)
            if package == "fedsim" and not module.startswith("fedsim.measure.theory."):
                assert module in OPEN, (path, module)
                known = getattr(import_module(module), "__all__", None)
                assert known is None or name in known, (path, module, name)
            if package == "compressors":
                assert module == "compressors", (path, module)
                assert name in import_module(module).__all__, (path, name)


def test_two_experiments_use_nothing_of_contrib() -> None:
    contrib = {name for name, place in ALGORITHMS.items() if place.startswith("contrib.")}
    contrib |= {row.name for row in ROWS if row.contrib}
    users: dict[str, set[str]] = {name: set() for name in contrib}
    for path in ROOT.glob("experiments/*/**/*.py"):
        words = re.findall(r"\b\w+(?=[(\"'])", path.read_text(encoding="utf-8"))
        for name in contrib.intersection(words):
            users[name].add(path.relative_to(ROOT).parts[1])
    assert any(users.values()) and [name for name in users if len(users[name]) > 1] == []
