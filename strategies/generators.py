"""torch's global generators, seeded and put back.

All of a process shares these generators. What must seed them (for a model's initial weights, or a
step that draws from them) restores them afterwards.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Inside, the global generators are seeded; afterwards they are as they were.

    Example:
        >>> with seeded(7, torch.device("cpu")):
        ...     first = torch.rand(3)
        >>> with seeded(7, torch.device("cpu")):
        ...     torch.equal(first, torch.rand(3))
        True
    """
    generators = global_generators(device)
    before = [generator.get_state() for generator in generators]
    for generator in generators:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)


def global_generators(device: torch.device) -> list[torch.Generator]:
    """The CPU's global generator, and that of ``device`` where it has one of its own."""
    generators = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()  # there are none before
        number = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[number])
    if device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    return generators
