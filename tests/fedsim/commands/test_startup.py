"""What starting costs: libraries are imported where they are used."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import compressors
import fedsim
from fedsim.tasks.tasklist import LISTED
from tests.support.markdown import ROOT

_CHILD = """
import sys
from fedsim.commands.cli import main
absent, wanted = sys.argv.pop(1).split(","), int(sys.argv.pop(1))
try:
    code = main()
except SystemExit as end:
    code = end.code
assert (code or 0) == wanted, code
loaded = [name for name in absent if name in sys.modules]
raise SystemExit(f"imported: {loaded}" if loaded else 0)
"""
COMMANDS = (
    "search",
    "run",
    "sweep",
    "deploy",
    "report",
    "verify",
    "compress",
    "decompress",
    "measure",
    "experiment",
    "doctor",
)
FIGURES = ("matplotlib",)
DATA = ("sklearn", "flwr_datasets", "datasets", "torchvision")
HEAVY = ("torch", "flwr", "pandas", "numba", "ray", "pyarrow", "numpy", "optuna", "scipy")


def start(absent: tuple[str, ...], *arguments: str, code: int = 0) -> None:
    """Fails where a command in a new process has imported one of the modules ``absent``."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, ",".join(absent), str(code), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", ["", "list ", "theory ", *(f"{name} " for name in COMMANDS)])
def test_help_imports_nothing_that_a_run_needs(command: str) -> None:
    start((*HEAVY, *FIGURES, *DATA, "rich", "tomllib"), *command.split(), "--help")


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["tasks", "methods", "coders", "strategies", "experiments", "columns"]
)
def test_lists_import_nothing_that_a_run_needs(what: str) -> None:
    start(HEAVY + FIGURES + DATA, "list", what)
    start(HEAVY + FIGURES + DATA, "list", what, "--json")


@pytest.mark.parametrize(
    "arguments",
    [
        "swep",
        "list taks",
        "sweep --tempral 1",
        "run --seed x",
        "theory tabel1",
        "",
        "run --task nope",
        "sweep --method sbcc",
        "run --method ef(topk(0.1)|float23)",
        "run --clients 0",
        "run --config WRONG",
        "sweep --engine fast",
        "search --lr 0",
        "deploy --cohort -1",
    ],
)
def test_what_is_refused_imports_nothing_that_a_run_needs(arguments: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("batch-size = 0")
    start(HEAVY + FIGURES + DATA, *arguments.replace("WRONG", str(wrong)).split(), code=2)


@pytest.mark.slow
def test_packages_import_their_names_when_they_are_used() -> None:
    child = f"""
import importlib, sys
names = "fedsim", "strategies", "compressors", "fedsim.measure.theory"
packages = [importlib.import_module(name) for name in names]
assert not [name for name in {HEAVY} if name in sys.modules]
for package in packages:
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        exec(f"from {{package.__name__}} import {{name}}")
    for name in package.__all__:  # nor does a submodule of that name take its place
        assert getattr(package, name) is eval(name), name
    try:
        package.nothing
    except AttributeError as error:
        assert str(error) == f"module {{package.__name__!r}} has no attribute 'nothing'", error
"""
    done = subprocess.run([sys.executable, "-c", child], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_module_is_there_without_an_import_of_its_own() -> None:
    assert fedsim.show.results_view.load is fedsim.load
    assert fedsim.measure is not sys.modules["fedsim.measure"]  # the function, not the folder


def test_a_package_travels_to_other_processes_by_its_name() -> None:
    for package in (fedsim, compressors):
        assert pickle.loads(pickle.dumps(package)) is package


def test_tasks_are_listed_as_they_are() -> None:
    told = {name: (listed.title, listed.source) for name, listed in LISTED.items()}
    tasks = {name: fedsim.TASKS[name] for name in LISTED}  # a user's own may have come since
    assert {name: (task.title, task.source) for name, task in tasks.items()} == told


def test_the_figures_are_all_there() -> None:
    from fedsim import plot

    for name in plot.__all__:
        assert getattr(plot, name).__name__ == name and name in dir(plot)
    with pytest.raises(AttributeError, match="'fedsim.show.plot' has no attribute 'heatmaps'"):
        _ = plot.heatmaps


def test_a_board_of_a_sweep_needs_no_torch() -> None:
    child = f"""
import sys, fedsim.runs.archive
loaded = [name for name in {HEAVY} if name in sys.modules]
raise SystemExit(f"imported: {{loaded}}" if loaded else 0)
"""
    done = subprocess.run([sys.executable, "-c", child], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
