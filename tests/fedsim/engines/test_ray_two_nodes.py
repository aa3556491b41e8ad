"""The engine ray on a cluster of two machines, one of which is lost midway: the same bits."""

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from tests.support.faults import told
from tests.support.runs import assert_same, small

pytestmark = [
    pytest.mark.slow,
    pytest.mark.proof,
    pytest.mark.processes,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def machines() -> Iterator[Any]:
    """A Ray cluster of two nodes with a core each, and the one that may be killed."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    yield started, started.add_node(num_cpus=1)
    started.shutdown()


def test_a_machine_is_lost_midway_and_nothing_differs(
    machines: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The other does all that is left: no machine has room for the worker that was lost."""
    cluster, second = machines
    config = small(
        clients=64,
        temporal=1,
        iterations=5,
        downlink="sbc(0.05)",
        partition="drawn(20)",
        keep_payloads=True,
    )

    def kill(row: Mapping[str, Any]) -> None:
        if row["round"] == 3:
            cluster.remove_node(second, allow_graceful=False)

    run(config, tmp_path / "local", progress=False)
    with caplog.at_level(logging.WARNING, logger="fedsim"):
        run(
            config.but(engine="ray"),
            tmp_path / "ray",
            progress=False,
            callbacks=[kill],
            ray_address=cluster.address,
        )
    assert caplog.text.count("Ray lost a worker (1 so far)") == 1
    assert_same(tmp_path / "local", tmp_path / "ray")
    told("Ray machine killed", "no room elsewhere", 1)
