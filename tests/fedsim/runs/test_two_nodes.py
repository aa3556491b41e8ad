"""Runs on machines that do not see the results folder, one of which is lost midway."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsim import Cell, run_cells
from fedsim.runs import parallel
from fedsim.runs.remoterun import RemoteRun, warn_of_unshared_folders
from tests.support.runs import assert_same, small

RUN = small(
    method="sbc", gradient=0.1, temporal=2, evaluate_every=5, checkpoint_every=1, keep_payloads=True
)
CELLS = [
    Cell("fails", RUN.but(lr=1e30)),
    Cell("first", RUN),
    Cell("midway", replace(RUN, seed=1)),
    Cell("last", replace(RUN, seed=2)),
]


@pytest.fixture
def machines() -> Iterator[Any]:
    """A Ray cluster whose first node, the driver's, runs nothing."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield started
    started.shutdown()


@pytest.mark.slow
@pytest.mark.processes
def test_files_come_home_from_a_node_that_does_not_see_the_folder_and_outlive_it(
    machines: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second node is killed after the third round of a run, which goes on on another."""
    stranger = machines.add_node(num_cpus=1)
    real, rounds = parallel._attempt_on_ray, list[int]()

    def attempt(remote_run: RemoteRun, board: Any) -> Any:
        import ray

        if ray.get_runtime_context().get_node_id() == stranger_id:
            remote_run = replace(remote_run, token="of another folder at the same path")
        return real(remote_run, board)

    def progress(name: str, row: dict[str, Any]) -> None:
        if name == "midway":
            rounds.append(row["round"])
            if row["round"] == 3:
                assert (tmp_path / "two/cells/first/model.safetensors").exists()
                machines.remove_node(stranger, allow_graceful=False)
                machines.add_node(num_cpus=1)

    stranger_id = stranger.node_id
    monkeypatch.setattr(parallel, "_attempt_on_ray", attempt)
    two = run_cells(CELLS, tmp_path / "two", ray_address=machines.address, progress=progress)
    one = run_cells(CELLS, tmp_path / "one")
    assert [cell["status"] for cell in two] == ["failed", "done", "done", "done"]
    assert [cell["error"] for cell in two] == [cell["error"] for cell in one]
    assert rounds[:3] == [1, 2, 3] and rounds == sorted({*rounds})  # nothing is done twice
    for cell in CELLS[1:]:
        assert_same(tmp_path / "one/cells" / cell.name, tmp_path / "two/cells" / cell.name)
    for cell in CELLS:
        here, there = (tmp_path / name / "cells" / cell.name for name in ("one", "two"))
        assert sorted(f.name for f in here.iterdir()) == sorted(f.name for f in there.iterdir())


@pytest.mark.slow
@pytest.mark.processes
def test_machines_that_do_not_see_the_folder_are_named(
    cluster: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import ray

    from fedsim.engines.cluster import connect

    remote_run = RemoteRun.of("one", RUN, tmp_path / "one")
    connect(1, cluster, "--jobs is 1")
    try:
        with caplog.at_level(logging.WARNING):
            warn_of_unshared_folders(remote_run)
            assert not caplog.records
            warn_of_unshared_folders(replace(remote_run, token="of another folder"))
        hosts = {node["NodeManagerHostname"] for node in ray.nodes()}
    finally:
        ray.shutdown()
    (line,) = (record.getMessage() for record in caplog.records)
    assert f"{tmp_path / 'one'} is not the same folder on {', '.join(hosts)}: the files" in line
