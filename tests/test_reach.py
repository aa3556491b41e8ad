"""The wheel runs outside the checkout; the lowest versions that are allowed were run."""

import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim.runs.machine import TESTED, release
from tests.support.markdown import ROOT
from tests.support.reach import NEEDS, bounds, find, use_lowest, use_wheel


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """A folder that is gone after the last test; pytest would keep three of its own."""
    with tempfile.TemporaryDirectory(prefix="reach") as folder:
        if shutil.disk_usage(folder).free < NEEDS:
            pytest.skip(f"an environment needs {NEEDS >> 30} GiB of disk in {folder}")
        yield Path(folder)


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.processes
@pytest.mark.parametrize("python", ["python3.11", "python3.12", "python3.13"])
def test_the_wheel_runs_under(python: str, base: Path) -> None:
    interpreter = find(python)
    if interpreter is None:
        pytest.skip(f"{python} is not on this machine")
    try:
        use_wheel(base / "used", interpreter, base / "cache")
    finally:
        shutil.rmtree(base / "used", ignore_errors=True)


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.processes
def test_the_lowest_versions_run(base: Path) -> None:
    try:
        use_lowest(base / "used", sys.executable, base / "cache")
    finally:
        shutil.rmtree(base / "used", ignore_errors=True)


def test_every_library_has_a_lowest_version() -> None:
    found = bounds()
    assert {"torch", "flwr", "ray", "numpy", "pandas", "pytest", "torchvision"} <= {*found}
    assert not [name for name, version in found.items() if not version]


def test_flower_is_allowed_one_minor_release_above_the_newest_that_was_tested() -> None:
    """Above the pinned one, that is: ``fedsim doctor`` says where the other is installed."""
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (pinned,) = (line.removeprefix("flwr==") for line in pins if line.startswith("flwr=="))
    assert release(pinned) == TESTED["flwr"]
    major, minor = TESTED["flwr"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    asked = [
        *project["project"]["dependencies"],
        *project["dependency-groups"]["node"],
        *project["project"]["optional-dependencies"]["ray"],
    ]
    found = [
        line.partition(",")[2]
        for line in asked
        if line.startswith("flwr") and not line.startswith("flwr-")
    ]
    assert found == [f"<{major}.{minor + 2}"] * 3


@pytest.mark.parametrize("name", ["Dockerfile", ".github/workflows/test.yml"])
def test_what_was_not_run_here_is_marked_and_calls_the_makefile(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    targets = set(re.findall(r"(?:RUN|run:) make ([a-z-]+)", text))
    listed = re.search(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert text.startswith("# Not run here") and targets
    assert listed is not None and targets <= {*listed[1].split()}


def test_an_interpreter_is_found_or_not() -> None:
    assert find(sys.executable) == sys.executable
    assert find("python3.999") is None
