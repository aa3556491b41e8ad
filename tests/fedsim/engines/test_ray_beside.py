"""Clusters of our own start beside whatever Ray the machine runs, or says that it runs."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedsim import SweepConfig, UsageError, run, sweep
from fedsim.engines import cluster
from tests.support.commands import no_page
from tests.support.runs import assert_same, small

pytestmark = [
    pytest.mark.processes,
    pytest.mark.usefixtures(no_page.__name__),
]

NOBODY = "127.0.0.1:1"
GRID = SweepConfig(small(method="sbc", gradient=0.1, evaluate_every=2), (5, 10), (0.1,))


@pytest.fixture(params=["stale file", "RAY_ADDRESS", "running cluster"])
def beside(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A cluster of which a file or the environment tells, and which runs or not."""
    from ray.cluster_utils import Cluster

    home = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))  # sockets need short paths
    monkeypatch.setenv("RAY_TMPDIR", str(home))
    (home / "ray").mkdir()
    named, there = home / "ray" / "ray_current_cluster", None
    if request.param == "RAY_ADDRESS":
        monkeypatch.setenv("RAY_ADDRESS", NOBODY)
    elif request.param == "stale file":
        named.write_text(NOBODY)
    else:
        there = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
        named.write_text(there.address)
    yield
    if there is not None:
        there.shutdown()
    shutil.rmtree(home, ignore_errors=True)


@pytest.mark.proof
@pytest.mark.usefixtures(beside.__name__)
def test_a_sweep_and_engines_on_ray_start_clusters_of_their_own(tmp_path: Path) -> None:
    summaries = sweep(GRID, tmp_path / "ray", jobs=2)
    assert [s["status"] for s in summaries] == ["done"] * len(summaries)
    config = small(clients=2)
    run(config, tmp_path / "local")
    for engine in ("ray", "flower"):
        run(small(clients=2, engine=engine), tmp_path / engine)
        assert_same(tmp_path / "local", tmp_path / engine)


@pytest.mark.slow
def test_a_cluster_of_this_process_is_left_alone(tmp_path: Path) -> None:
    import ray

    ray.init(address="local", num_cpus=1, include_dashboard=False)
    try:
        with pytest.raises(UsageError, match="--jobs is 2: this process has a Ray"):
            cluster.connect(2, None, "--jobs is 2")
        for engine in ("ray", "flower"):
            with pytest.raises(UsageError, match=f"--engine is '{engine}': this process has"):
                run(small(clients=2, engine=engine), tmp_path)
        assert ray.is_initialized()
    finally:
        ray.shutdown()
