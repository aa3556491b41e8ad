"""Every example in a docstring of `fedsim` and `strategies` runs and prints what it says."""

import doctest
import importlib
import pkgutil

import pytest

import fedsim
import strategies

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
