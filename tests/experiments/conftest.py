"""What an experiment adds to the catalogue is gone after the file of its tests."""

from collections.abc import Iterator

import pytest

from compressors import CATALOGUE
from tests.support.commands import typed

__all__ = ["typed"]


@pytest.fixture(autouse=True, scope="module")
def _catalogue() -> Iterator[None]:
    before = dict(CATALOGUE)
    yield
    CATALOGUE.clear()
    CATALOGUE.update(before)
