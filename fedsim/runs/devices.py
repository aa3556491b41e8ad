"""The devices on which clients train."""

import os

import torch

from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig

DEVICES = ("cpu", "cuda", "mps")


def check_device(name: str) -> None:
    """Raises ``UsageError`` unless torch can use the device ``name`` on this machine."""
    if name.split(":")[0] not in DEVICES:
        raise UsageError(f"--device is {name!r}: give one of {', '.join(DEVICES)}, cuda:1, ...")
    try:
        torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError) as error:
        if name.startswith("cuda") and not torch.cuda.is_available():
            raise UsageError(
                f"--device is {name!r}: torch finds no GPU on this machine; write --device cpu"
            ) from error
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--device is {name!r}: torch cannot use it here ({reason}); cpu always works"
        ) from error


def worker_environment(device: str, number: int) -> dict[str, str]:
    """Variables with which a worker sees its GPU alone: workers take this machine's in turns.

    ``device`` ``cuda:1`` is one GPU for all workers. ``number``: of the worker, from 0.
    """
    if device != "cuda":
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = visible.split(",") if visible else [*map(str, range(torch.cuda.device_count()))]
    if len(names) < 2:
        return {}
    return {"CUDA_VISIBLE_DEVICES": names[number % len(names)].strip()}


def gpus_per_client(config: RunConfig) -> float:
    """GPUs that Ray sets aside for a client: one for all workers, unless told."""
    return _share(config, config.machine.gpus_per_client, config.machine.workers)


def gpus_per_run(config: RunConfig, jobs: int) -> float:
    """GPUs that Ray sets aside for a cell of a sweep: one for all ``jobs``, unless told."""
    return _share(config, config.machine.gpus_per_run, jobs)


def _share(config: RunConfig, share: float | None, many: int) -> float:
    if config.machine.device != "cuda":  # cuda:1 is a GPU by number, which Ray does not assign
        return 0.0
    return float(share) if share is not None else 1 / many
