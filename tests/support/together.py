"""Clients of a CPU's runs that train together, as those of a GPU."""

from collections.abc import Callable

import pytest

from fedsim.federation import drivers

Together = Callable[[int], None]


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> Together:
    """Has the runs from here on train so many clients at once; 1: one after the other."""

    def train_at_once(width: int) -> None:
        monkeypatch.setattr(drivers, "width_of", lambda config: width)

    return train_at_once
