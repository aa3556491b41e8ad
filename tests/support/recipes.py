"""CONTRIBUTING's recipes, followed in a copy of the tree."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.markdown import ROOT

PACKAGES = ("compressors", "strategies", "fedsim")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def codes(heading: str) -> list[str]:
    """The blocks of Python in one section of CONTRIBUTING."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return _BLOCK.findall(page.split(f"\n## {heading}\n")[1].split("\n## ")[0])


def copied(folder: Path) -> Path:
    """A copy of the packages in ``folder``, with what numba has compiled."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package)
    return folder


def typed(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """``python -m fedsim`` with these arguments, by the copy ``tree``, in its folder."""
    return _started(tree, "-m", "fedsim", *arguments)


def python(tree: Path, code: str) -> "subprocess.CompletedProcess[str]":
    """A script by the copy ``tree``, in its folder."""
    return _started(tree, "-c", code)


def _started(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
