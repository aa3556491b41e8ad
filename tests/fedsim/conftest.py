"""What the tests of runs share: one Ray cluster, as a user would have it running."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of two cores, for all tests of the group ``ray``."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    yield started.address
    started.shutdown()
