"""Flower's programs that look for messages more often than Flower lets them, in tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("quickpolls")


@pytest.fixture(scope="module")
def quick_polls() -> Iterator[None]:
    """Programs that start meanwhile poll five times a second where Flower has three seconds."""
    paths = [str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(paths))
        yield
