"""What every test of strategies begins with."""

import logging

import pytest

from fedsim.engines import compat


@pytest.fixture(autouse=True)
def flower() -> None:
    """Messages can be made in this process, and Flower's log has errors alone."""
    compat.identify()
    logging.getLogger("flwr").setLevel(logging.ERROR)
