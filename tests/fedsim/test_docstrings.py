"""Every example in a docstring of `fedsim` and `strategies` runs and prints what it says."""

import ast
import doctest
import importlib
import pkgutil
import re

import pytest

import fedsim
import strategies
from tests.support.markdown import ROOT

_STARTS = ("fedsim.__main__",)  # which runs the command line when it is imported
NAMES = [
    name
    for package in (fedsim, strategies)
    for name in (
        package.__name__,
        *(i.name for i in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
    )
    if name not in _STARTS
]


def run(name: str) -> doctest.TestResults:
    return doctest.testmod(importlib.import_module(name), report=False)


def room(name: str) -> str:
    return ".".join(name.split(".")[:2])


ROOMS = sorted({*map(room, NAMES)})
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ROOMS if name.startswith("fedsim.")]


@pytest.mark.parametrize("folder", [*(x for x in ROOMS if not x.startswith("fedsim.")), *SLOW])
def test_examples(folder: str) -> None:
    names = [name for name in NAMES if room(name) == folder]
    assert [name for name in names if run(name).failed] == []


def test_there_are_examples() -> None:
    """A runner that finds nothing proves nothing."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [test for name in NAMES for test in finder.find(importlib.import_module(name))]
    assert sum(len(test.examples) for test in found) >= 40


def test_an_argument_has_a_line_of_its_own() -> None:
    """The site's reference takes `a, b: text` for one argument, which the signature lacks."""
    several = re.compile(r"\w+(, \w+)+: ")
    found = []
    for package in ("fedsim", "strategies"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
                text = (ast.get_docstring(node) or "") if isinstance(node, kinds) else ""
                part = text.partition("Args:\n")[2].partition("\n\n")[0]
                found += [f"{file}: {x}" for x in part.splitlines() if several.match(x.strip())]
    assert not found
