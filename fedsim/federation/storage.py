"""Size of the clients' memory, logged before a run; refused where it does not fit."""

import logging
import math
import shutil
import tempfile
from pathlib import Path

import torch

from compressors import Raw, State
from compressors.whole.memory import nest
from fedsim.federation import client_memory
from fedsim.federation.client_memory import InProcess, size
from fedsim.federation.clientdata import ClientData
from fedsim.federation.device import free
from fedsim.federation.slots import NAME
from fedsim.federation.trainer import build_model, make_optimizer
from fedsim.ground.errors import UsageError
from fedsim.ground.files import ram
from fedsim.ground.units import memory
from fedsim.settings.config import RunConfig
from fedsim.settings.groups import EXACT
from strategies.client_optimizers import optimizer_state, settings_of

_MOST_TENSORS = 6
"""More than a client keeps of the model's size: beyond it nothing is looked at closer."""


def ram_bytes_of(config: RunConfig, free: int | None = None) -> float:
    """Bytes of RAM for clients' memories: ``--memory``, else half of what is free.

    ``free``: bytes of it, where they have been read already.
    """
    setting = config.machine.memory
    return (free or ram()[1]) / 2 if setting is None else float(setting)


def states_of(config: RunConfig) -> InProcess:
    """The states in which a run in this process keeps its clients' memories.

    A GPU may hold a quarter of what is free there.
    """
    device = config.machine.device  # it is not checked yet: a preview asks, too
    on_gpu = device.startswith("cuda") and torch.cuda.is_available()
    gpu_bytes = free(torch.device(device)) / 4 if on_gpu else math.inf
    return InProcess(ram_bytes_of(config), gpu_bytes)


def clients_seen(clients: int, cohort: int, rounds: int) -> float:
    """How many clients will have trained, on average, where cohorts are drawn at random.

    Example:
        >>> round(clients_seen(10_000, 100, 100)), clients_seen(4, 4, 50)
        (6340, 4.0)
    """
    return clients * (1 - (1 - cohort / clients) ** rounds)


def client_bytes(config: RunConfig) -> int:
    """About how many bytes a client keeps between rounds.

    The algorithm's own state is not counted.
    """
    return size(client_memory.pack_memory(_first(config), config.machine.memory_as))


def _first(config: RunConfig) -> State:
    """A client's memory: the method's, the optimizer's, and the model if updates are sent."""
    plan = config.plan
    model = build_model(plan.task, config.seed, ClientData.of(config).data)
    template = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
    state = nest("uplink", dict(plan.method.compressor.init(template)))
    if not isinstance(plan.downlink, Raw):
        state |= nest("base", template)
    if not (plan.algorithm.gradients or config.training.stateless):
        named = {name: torch.nn.Parameter(torch.zeros_like(x)) for name, x in template.items()}
        optimizer = make_optimizer(config, named.values())
        kinds = settings_of(optimizer)
        for p in named.values():
            p.grad = torch.zeros_like(p)
        optimizer.step()
        state |= nest("optimizer", optimizer_state(optimizer, named, kinds))
    return state


def check_storage(config: RunConfig, folder: Path | None) -> None:
    """Logs how much clients will keep on the engine ``local``, where not all stays in RAM.

    Raises ``UsageError`` where it fits neither into RAM nor onto the disk of the run's ``folder``,
    or cannot be kept in the format of ``--memory-as``.
    """
    if config.machine.memory_as != EXACT:
        client_memory.check_packing(_first(config), config.machine.memory_as)
    plan, free = config.plan, ram()[1]
    ram_limit = ram_bytes_of(config, free)
    count = clients_seen(plan.clients, plan.requests, plan.rounds)
    model = build_model(plan.task, config.seed, ClientData.of(config).data)
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    if count * _MOST_TENSORS * trained < min(ram_limit, free):
        return
    each_bytes = client_bytes(config)
    total, place = count * each_bytes, folder or Path(tempfile.gettempdir())
    needed = (
        f"about {count:,.0f} clients will have trained and keep {memory(each_bytes)} each, "
        f"{memory(total)} in all"
    )
    if min(total, ram_limit) > free:
        raise UsageError(
            f"--memory is {ram_limit:g}: {needed}, and {memory(free)} of RAM are free; give less, "
            "so that the rest goes to a file"
        )
    if total <= ram_limit:
        return
    existing = next(path for path in (place, *place.absolute().parents) if path.exists())
    left = shutil.disk_usage(existing).free
    # A run with checkpoints has all of it in the file, with the slots that the last two name.
    if total - (0 if folder else ram_limit) > left:
        raise UsageError(
            f"--memory is {ram_limit:g}: {needed}, and the disk of {place} has {memory(left)} "
            "left; give --stateless, a method without memory, fewer --clients, or --out on another "
            "disk"
        )
    name = place / NAME if folder else f"a file in {place}"
    logging.getLogger("fedsim").warning(
        "%s: %s stay in RAM (--memory), the rest goes to %s", needed, memory(ram_limit), name
    )
