"""Every example in a docstring of the package runs and prints what it says."""

import doctest
import functools
import importlib
import pkgutil

import pytest
import torch

import compressors

NAMES = ["compressors"] + [
    info.name for info in pkgutil.walk_packages(compressors.__path__, "compressors.")
]


@functools.cache  # a process runs each module's once
def run(name: str) -> doctest.TestResults:
    module = importlib.import_module(name)
    return doctest.testmod(module, extraglobs={"torch": torch}, report=False)


@pytest.mark.parametrize("name", NAMES)
def test_examples(name: str) -> None:
    assert run(name).failed == 0


def test_there_are_examples() -> None:
    """A runner that finds nothing proves nothing."""
    assert sum(run(name).attempted for name in NAMES) >= 15
