"""Cases of a parametrized test, of which the quick suite takes some and the slow one the others."""

from collections.abc import Collection, Mapping
from typing import Any

import pytest
from _pytest.mark import ParameterSet


def cases(values: Mapping[str, Any], quick: Collection[str]) -> list[ParameterSet]:
    """One case per value, under its key's name; ``slow`` those that ``quick`` does not name.

    Raises ``KeyError`` where ``quick`` names none of them.
    """
    if unknown := set(quick) - values.keys():
        raise KeyError(*unknown)
    return [
        pytest.param(value, id=name, marks=[] if name in quick else pytest.mark.slow)
        for name, value in values.items()
    ]
