"""fedsim equals the slow twin, which was written from the documentation alone, on drawn cases."""

import os
from pathlib import Path

import pytest

from tests.support.twin.cases import case, features
from tests.support.twin.compare import differences

CASES = int(os.environ.get("FEDSIM_TWIN", "200"))
CHUNK = 10
QUICK = 20
"""Cases of the quick suite; the slow one draws the others."""


@pytest.mark.parametrize(
    "begin",
    [
        pytest.param(begin, marks=[pytest.mark.slow] if begin >= QUICK else [])
        for begin in range(0, CASES, CHUNK)
    ],
)
def test_equals_the_twin(begin: int, tmp_path: Path) -> None:
    found = {}
    for number in range(begin, min(begin + CHUNK, CASES)):
        settings = case(number, tmp_path / str(number))
        different = differences(settings, tmp_path / str(number))
        if different:
            found[number] = [str(settings), *features(settings), *different[:5]]
    assert not found
