"""The methods that like-for-like brings along, as rows of a user's own."""

from functools import cache

import pytest

from compressors import CATALOGUE, Row, add_rows, own_rows
from tests.support.ownmethods import FOLDER


@cache  # a process compiles what they compile once
def rows() -> dict[str, Row]:
    add_rows(str(FOLDER))
    return own_rows()


@pytest.fixture(autouse=True)
def _rows(_catalogue: None) -> None:
    CATALOGUE.update(rows())
