"""Packages of other projects that have the names of fedsim's own: the import says which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.markdown import ROOT


def message(path: str) -> str:
    """How `import fedsim` ends with these folders in front of all others."""
    done = subprocess.run(
        [sys.executable, "-c", "import fedsim"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": path},
        cwd="/",
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["compressors", "strategies"])
def test_another_project_s_package_is_named(name: str, tmp_path: Path) -> None:
    other = tmp_path / name
    other.mkdir()
    (other / "__init__.py").touch()
    assert str(other) in message(f"{tmp_path}:{ROOT}")


def test_files_that_are_overwritten_are_named(tmp_path: Path) -> None:
    """As an installer does that puts another distribution into the same folder."""
    for name in ("fedsim", "compressors"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "strategies").mkdir()
    (tmp_path / "strategies" / "__init__.py").touch()
    text = message(str(tmp_path))
    assert "strategies" in text and "fedsim-lab" in text
