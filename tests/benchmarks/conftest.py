"""The scripts of ``benchmarks`` as modules."""

import importlib
import sys
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from fedsim import TASKS
from tests.support.markdown import ROOT

BENCHMARKS = ROOT / "benchmarks"


def loaded(name: str) -> Iterator[Any]:
    """A script as a module; its neighbours are gone afterwards, and the tasks that it adds."""
    before = set(sys.modules)
    with patch.dict(TASKS), patch.object(sys, "path", [str(BENCHMARKS), *sys.path]):
        yield importlib.import_module(name)
    for added in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[added], "__file__", "")):
            sys.modules.pop(added)


@pytest.fixture(scope="module")
def bench(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The script that the tests of a file are of, which names it: ``SCRIPT``."""
    yield from loaded(request.module.SCRIPT)
