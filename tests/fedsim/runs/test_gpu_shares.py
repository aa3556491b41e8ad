"""GPUs of cells and clients: Ray's own counting, which needs none to be there."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

from fedsim import Machine, RunConfig, UsageError
from fedsim.engines import cluster
from fedsim.runs import devices, parallel
from fedsim.runs.remoterun import RemoteRun
from fedsim.runs.run import engine_of


def test_one_gpu_is_shared_unless_told() -> None:
    cuda = RunConfig(machine=Machine(device="cuda", engine="ray", workers=4))
    assert devices.gpus_per_client(cuda) == 0.25
    assert devices.gpus_per_run(cuda, 2) == 0.5
    assert devices.gpus_per_run(RunConfig.of(device="cuda", gpus_per_run=2.0), 2) == 2.0
    assert devices.gpus_per_run(RunConfig(), 2) == 0.0
    assert devices.gpus_per_run(RunConfig.of(device="cuda:1"), 2) == 0.0  # by number, not by Ray


def test_flower_is_told_the_share_of_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        "flwr.simulation.run_simulation",
        lambda *_, backend_config: asked.append(backend_config["client_resources"]),
    )
    monkeypatch.setattr(cluster, "connect", lambda *_: None)
    config = RunConfig(machine=Machine(device="cuda", engine="flower", gpus_per_client=0.5))
    engine_of(config)[1](lambda grid: None)
    assert [(one["num_cpus"], one["num_gpus"]) for one in asked] == [(1, 0.5)]


@pytest.mark.proof
@pytest.mark.processes
def test_ray_gives_each_cell_its_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs that Ray counts and nobody has: cells go round them, and each sees one."""

    def attempt(remote_run: RemoteRun, board: Any) -> None:
        import os
        import time

        name, folder = remote_run.name, remote_run.archive.home
        (folder / f"began-{name}").touch()
        while len(list(folder.glob("began-*"))) < 2:  # two cells run at the same time
            time.sleep(0.05)
        (folder / name).write_text(os.environ["CUDA_VISIBLE_DEVICES"])

    monkeypatch.setattr(parallel, "_attempt_on_ray", attempt)
    monkeypatch.setattr(ray, "init", partial(ray.init, num_gpus=2))
    config = RunConfig(machine=Machine(device="cuda", gpus_per_run=1.0))
    names = ["a", "b", "c"]
    parallel.run_on_ray([(name, config, tmp_path) for name in names], 3, None, None)
    seen = [(tmp_path / name).read_text() for name in names]
    assert set(seen) == {"0", "1"}
    with pytest.raises(UsageError, match="--gpus-per-run is 3: no machine .* more than 2"):
        many = RunConfig(machine=Machine(device="cuda", gpus_per_run=3.0))
        parallel.run_on_ray([("d", many, tmp_path)], 1, None, None)
