"""What starting costs: libraries are imported where they are used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.markdown import ROOT

_CHILD = """
import sys
from fedsim.cli import main
absent = sys.argv.pop(1).split(",")
try:
    code = main()
except SystemExit as end:
    code = end.code
assert not code, code
loaded = [name for name in absent if name in sys.modules]
raise SystemExit(f"imported: {loaded}" if loaded else 0)
"""
FIGURES = ("matplotlib", "plotly")
DATA = ("sklearn", "flwr_datasets", "datasets", "torchvision")
CLUSTER = ("ray",)


def start(absent: tuple[str, ...], *arguments: str) -> None:
    """Fails where a command in a new process has imported one of the modules ``absent``."""
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, ",".join(absent), *arguments],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("arguments", ["--help", "list tasks"])
def test_what_needs_no_figures_imports_none(arguments: str) -> None:
    start(FIGURES + DATA + CLUSTER, *arguments.split())


def test_a_run_of_digits_needs_no_data_library_and_no_cluster(tmp_path: Path) -> None:
    absent = (*DATA, *CLUSTER)
    start(absent, "run", "--iterations", "1", "--json", "--out", str(tmp_path / "out"))


def test_the_figures_are_all_there() -> None:
    from fedsim import plot

    for name in plot.__all__:
        assert getattr(plot, name).__name__ == name and name in dir(plot)
    with pytest.raises(AttributeError, match="'fedsim.plot' has no attribute 'matrices'"):
        _ = plot.matrices
