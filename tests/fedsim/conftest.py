"""What the tests of fedsim share: fixtures, and one Ray cluster, as if a user had it running."""

from collections.abc import Iterator

import pytest

from tests.support.commands import no_page, typed
from tests.support.realupdate import real
from tests.support.runs import done, finished, make_task, not_tried
from tests.support.together import together

__all__ = ["done", "finished", "make_task", "no_page", "not_tried", "real", "together", "typed"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of two cores, for all tests of the group ``ray``."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    yield started.address
    started.shutdown()
