"""CONTRIBUTING's recipes, followed to the letter in a copy of the tree; and its questions."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.markdown import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
COPIED, LINKED = ("fedsim", "experiments", "tests"), ("compressors", "strategies")
Do = Callable[[str], "subprocess.CompletedProcess[str]"]


def recipe(title: str) -> str:
    """A section of CONTRIBUTING, from its heading to the next."""
    return TEXT.split(f"### {title}\n")[1].split("\n## ")[0].split("\n### ")[0].strip()


def commands(title: str, name: str) -> list[str]:
    """What Python is given in the commands of a recipe, indented, for the name ``name``."""
    found = re.findall(r"^ {7}(?:python|(fedsim)) (.+)$", recipe(title), re.MULTILINE)
    lines = [f"-m fedsim {given}" if ours else given for ours, given in found]
    return [line.replace("NAME", name) for line in lines]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what a recipe changes, with links to the rest."""
    hidden = shutil.ignore_patterns("cells", "*.npz")  # what is compiled goes along
    for folder in COPIED:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=hidden)
    for name in LINKED:
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "docs").mkdir()
    for page in ROOT.glob("docs/*.md"):
        shutil.copy(page, tmp_path / "docs" / page.name)
    return tmp_path


@pytest.fixture
def do(tree: Path) -> Do:
    """Runs Python with the arguments of a command in the copy."""

    def run(command: str) -> "subprocess.CompletedProcess[str]":
        environment = os.environ | {"PYTHONPATH": str(tree)}
        return subprocess.run(
            [sys.executable, *command.split()],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )

    return run


@pytest.mark.parametrize("title", ["A task", "A setting", "An experiment"])
def test_a_recipe_is_at_most_fifteen_lines(title: str) -> None:
    lines = [line for line in recipe(title).splitlines() if line.strip()]
    assert 4 <= len(lines) <= 15


TASK = '''"""Two halves of a plane."""

import torch
from torch import nn

from fedsim.tasks.tasklist import about
from fedsim.tasks.base import Data, Task


def load(folder=None, download=False):
    x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > x[:, 1]).long()
    return Data(x[:160], y[:160], x[160:], y[160:], "made up")


def build():
    return nn.Linear(2, 2)


def optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def right(outputs, targets):
    return (outputs.argmax(dim=1) == targets).sum()


HALVES = Task(
    **about("halves"),
    build=build,
    load=load,
    optimizer=optimizer,
    loss=nn.functional.cross_entropy,
    metric=right,
    batch_size=8,
    iterations=50,
)
'''
ROW = '    "halves": TaskEntry("halves:HALVES", "halves of a plane, one layer", "this test"),\n'


def write_task(tree: Path, listed: bool = True) -> None:
    (tree / "fedsim" / "tasks" / "halves.py").write_text(TASK)
    table = tree / "fedsim" / "tasks" / "tasklist.py"
    text = table.read_text(encoding="utf-8")
    opening = "LISTED: dict[str, TaskEntry] = {\n"
    assert opening in text
    table.write_text(text.replace(opening, opening + listed * ROW), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.processes
def test_a_task(tree: Path, do: Do) -> None:
    write_task(tree)
    train, contract = commands("A task", "halves")
    done = do(f"-m fedsim run --task halves --out out {train.split('halves ')[1]}")
    assert done.returncode == 0, done.stderr
    assert (tree / "out" / "summary.json").exists()
    done = do(contract)
    assert done.returncode == 0 and done.stdout.startswith(".."), done.stdout


SETTING = """    warmth: float = setting(
        1.0, "how warm it is", rule=Rule(lambda x: x < 9, "a number below 9")
    )
"""
"""In the group ``Training``."""

ASKED = """
from fedsim import RunConfig, Training, UsageError
config = RunConfig(training=Training(warmth=2), iterations=20, temporal=5)
assert config == RunConfig.of(warmth=2.0, iterations=20, temporal=5)
assert config.digest != config.but(warmth=1.0).digest
assert "warmth = 2.0" in config.to_toml().split("[training]")[1]
from fedsim import run
assert run(config).summary["settings"]["warmth"] == 2.0
try:
    Training(warmth=10)
except UsageError as error:
    assert str(error) == "--warmth is 10: give a number below 9 (Training.warmth)"
"""


@pytest.mark.slow
@pytest.mark.processes
def test_a_setting_is_spelled_once(tree: Path, do: Do) -> None:
    (tree / "docs" / "make_settings.py").symlink_to(ROOT / "docs" / "make_settings.py")
    file = tree / "fedsim" / "settings" / "groups.py"
    before, here, after = file.read_text(encoding="utf-8").partition("class Training:")
    first = "    batch_size: int | None = setting("
    file.write_text(before + here + after.replace(first, SETTING + first, 1), encoding="utf-8")
    made, told = commands("A setting", "warmth")
    assert do(made).returncode == 0
    done = do(told)
    assert "--warmth FLOAT" in done.stdout and "how warm it is (default: 1.0)" in done.stdout
    (tree / "asked.py").write_text(ASKED)
    done = do("asked.py")
    assert done.returncode == 0, done.stderr


EXPERIMENT = '''"""One method at two sparsities."""

from pathlib import Path

import pandas as pd

from experiments.common.figures import canvas
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table
from fedsim import Cell, Results, RunConfig

SCALES = {"smoke": 4, "short": 100, "paper": 1000}
SHARES = (0.1, 0.01)


def cells(asked: Asked) -> list[Cell]:
    """A run per share of the entries."""
    common = {"task": "digits", "method": "sbc", "temporal": 1, "clients": 2, "batch_size": 8}
    length = {"iterations": SCALES[asked.scale], "evaluate_every": 4}
    return [Cell(f"p{p:g}", RunConfig.of(gradient=p, **common, **length)) for p in SHARES]


def show(asked: Asked, results: Results | None) -> Shown:
    """The compression ratio of both."""
    frame = results.runs.reset_index()[["run", "ratio_wire"]]
    drawn = canvas(4, 3)
    drawn.subplots().bar(frame["run"], frame["ratio_wire"])
    return Shown({"ratios": frame}, {"ratios": text(frame)}, {"ratios": drawn})


def text(frame: pd.DataFrame) -> str:
    """A row per run."""
    rows = frame.itertuples(index=False)
    return table(("run", "ratio"), [[run, f"×{ratio:.1f}"] for run, ratio in rows])


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table."""
    return {"ratios": text(pd.read_csv(results / "ratios.csv"))}


EXPERIMENT = Experiment(show, cells)
'''
README = """# Two shares

    fedsim sweep --config experiments/shares/results/runs.toml

<!-- table: ratios -->
<!-- end -->
"""


def write_experiment(tree: Path, leave_out: str = "") -> Path:
    """Writes the files of the recipe, but for one."""
    folder = tree / "experiments" / "shares"
    folder.mkdir()
    texts = {
        "experiment.toml": 'title = "Two shares"\nsource = "this test"\n',
        "run.py": EXPERIMENT,
        "README.md": README,
    }
    for name, text in texts.items():
        if name != leave_out:
            (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.mark.proof
@pytest.mark.processes
def test_an_experiment(tree: Path, do: Do) -> None:
    folder = write_experiment(tree)
    (command,) = commands("An experiment", "shares")
    done = do(command)
    assert done.returncode == 0, done.stderr
    results, out = folder / "results", tree / "fedsim-results" / "shares"
    results.mkdir()
    names = ("ratios.csv", "ratios.md", "ratios.png", "runs.toml", "summary.csv")
    for name in names:
        shutil.copy(out / name, results / name)
    fill = re.search(r"`python (-m experiments\.common\.readme)`", recipe("An experiment"))
    assert fill is not None
    unfilled = do(f"{fill[1]} --check")
    assert unfilled.returncode == 1 and "experiments/shares/README.md: differs" in unfilled.stdout
    done = do(fill[1])
    assert done.returncode == 0, done.stderr
    table = (results / "ratios.md").read_text(encoding="utf-8")
    assert table.count("×") == 2 and table in (folder / "README.md").read_text(encoding="utf-8")
    assert do(f"{fill[1]} --check").returncode == 0


@pytest.mark.parametrize(
    ("left_out", "told"),
    [("experiment.toml", "shares"), ("run.py", "experiment 'shares' has no run.py")],
)
def test_an_experiment_that_lacks_a_file_is_refused(
    tree: Path, do: Do, left_out: str, told: str
) -> None:
    write_experiment(tree, left_out)
    done = do(commands("An experiment", "shares")[0])
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr


def test_questions_are_answered_by_files_that_exist() -> None:
    section = TEXT.split("## Which file do I open to ...\n")[1].split("\n## ")[0]
    rows = [row.split("|")[2] for row in section.strip().splitlines()[2:]]
    assert len(rows) == 12
    for row in rows:
        places = [place for place in re.findall(r"`([\w/.-]+)`", row) if "/" in place]
        assert places
        for place in places:
            assert list(ROOT.glob(place.replace("NAME", "*"))), place
