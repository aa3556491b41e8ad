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


def copied(folder: Path, *more: str) -> Path:
    """A copy of the packages, and of other folders, with what numba has compiled."""
    for package in (*PACKAGES, *more):
        shutil.copytree(ROOT / package, folder / package)
    return folder


def typed(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """``python -m fedsim`` with these arguments, by the copy ``tree``, in its folder."""
    return started(tree, "-m", "fedsim", *arguments)


def started(tree: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Python with these arguments, by the copy ``tree``, in its folder."""
    environment = os.environ | {"PYTHONPATH": str(tree)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
    )
