"""Compiles what is compiled on first use before any test starts: once, not once a process.

The process that hands out tests imports no torch, unless it compiles. No garbage collection looks
at modules and tests: they stay to the end, and each such look takes a third of a second.

Byte code is kept as well, even where the environment says otherwise: each worker, and each process
that a test starts, would compile modules again, and pytest rewrite their assertions again.

Each process keeps Ray's files in a folder of its own: Flower's simulation joins a cluster that it
finds, such as one that a test in another process has started.

Without a GPU, Triton's kernels run in its interpreter, which has to be said before it is imported.

Each process, and each program that it starts, computes with one thread unless the environment sets
more: two processes with two threads each wait for one another on two cores. No file is forced onto
the disk (``fsync``): no test cuts the power, and what a killed process wrote is there.

A test that starts other programs (``processes``) waits for what else the machine does; it is
repeated once when it fails, and the summary names it. ``make test-slow`` gives each process whole
files; files that share a program go to one process, and begin first.
"""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported

import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).parents[1]
DEVICES = ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")
"""A Linux with a GPU that torch can use has one of these files."""


def _has_gpu() -> bool:
    if sys.platform == "linux" and not any(map(os.path.exists, DEVICES)):
        return False
    import torch

    return torch.cuda.is_available()


if not _has_gpu():
    os.environ["TRITON_INTERPRET"] = "1"

SHARED = {
    "test_on_ray": "ray",
    "test_parallel": "ray",
    "test_ray_beside": "ray",
    "test_two_nodes": "ray",
    "test_flower_engine": "ray",
    "test_owner_mistakes": "ray",
    "test_own_strategy": "ray",
    "test_deployed_server_kill": "deployment",
    "test_flower_app": "deployment",
    "test_wire": "deployment",
}
"""By file, what its tests share with those of other files."""

LONG = (
    "test_docs",
    "test_quickstart",
    "test_smokes",
    "test_search_run",
    "test_machine_faults",
    "test_recipe",
    "test_fuzz",
)
"""The longest files: they begin next, so that no process waits for another's at the end."""


class WholeFiles(LoadScopeScheduling):  # type: ignore[misc]
    """All tests of a file go to one process, and so do those of files that share a program."""

    def _split_scope(self, nodeid: str) -> str:
        file = Path(nodeid.split("::")[0]).stem
        return SHARED.get(file, file)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return WholeFiles(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Modules and tests stay: no garbage collection looks at them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.fsync = lambda handle: None
    _ray_apart(config)
    worker = hasattr(config, "workerinput")
    if not worker:  # the process that hands out tests, or the only one
        _compile_once()
    if not worker and config.getoption("dist") != "no":
        return  # it runs no test
    import torch

    # Autograd counts its devices once, and a process that counted one cannot fork and train. Fake
    # tensors on a GPU that is not there make it count that GPU, unless it has counted before.
    torch.ones(1, requires_grad=True).sum().backward()


def _compile_once() -> None:
    """Compiles what each row needs, unless that was done since a source of it was written."""
    newest = max(file.stat().st_mtime_ns for file in (ROOT / "compressors").rglob("*.py"))
    folder = os.environ.get("NUMBA_CACHE_DIR")
    state = f"{sys.version} {version('numba')} {newest} {folder}"
    note = ROOT / "compressors" / "__pycache__" / "compiled"
    if note.exists() and note.read_text(encoding="utf-8") == state:
        return
    import torch

    from compressors import ROWS, compress, decompress, parse

    update = {"w": torch.linspace(-1, 1, 6000).reshape(60, 100), "b": torch.ones(3)}
    for row in ROWS:
        compressor = parse(row.example)
        packet, _ = compress(compressor, update)
        decompress(compressor, packet.payload, update)
    note.write_text(state, encoding="utf-8")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("processes"):
            item.add_marker(pytest.mark.flaky(reruns=1))
    order = dict.fromkeys(SHARED, 0) | dict.fromkeys(LONG, 1)
    items.sort(key=lambda item: order.get(item.path.stem, 2))


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a Ray cluster of two cores, for all tests of the group ``ray``."""
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    yield started.address
    started.shutdown()


def _ray_apart(config: pytest.Config) -> None:
    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # sockets need short paths
    os.environ["RAY_TMPDIR"] = folder
    os.environ.pop("RAY_ADDRESS", None)
    config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
