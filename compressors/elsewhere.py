"""Updates that do not lie on the CPU: one copy to the host, one copy back of what was decoded.

The CPU's way makes and reads their messages, so that the bytes are its own.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor

from compressors.base import LazyPacket, Packet, Sent, SentTensor, Tensors, unflatten
from compressors.kernels.gpu.layout import cut, fetch, send
from compressors.segments.read import Decoded

_CPU = torch.device("cpu")


def is_elsewhere(tensors: Mapping[str, Tensor]) -> bool:
    """Whether a tensor does not lie on the CPU.

    Example:
        >>> is_elsewhere({"w": torch.zeros(2, device="meta")})
        True
    """
    return not all(x.is_cpu for x in tensors.values())


def moved(tensors: Sequence[Tensor], devices: Sequence[torch.device]) -> list[Tensor]:
    """Each tensor on its device: one copy for all of one type that go from one device to another.

    Args:
        tensors: of any shapes.
        devices: where each goes; one that is there is returned as it is.

    Example:
        >>> x = torch.ones(2)
        >>> moved([x], [torch.device("cpu")])[0] is x
        True
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for i, (x, device) in enumerate(zip(tensors, devices, strict=True)):
        if x.device != device:
            groups.setdefault((x.device, device, x.dtype), []).append(i)
    after = [*tensors]
    for places in groups.values():
        some = [tensors[i].detach() for i in places]
        flat, device = torch.cat([x.reshape(-1) for x in some]), devices[places[0]]
        copy = torch.from_numpy(fetch(flat)[0]) if device == _CPU else send(flat, device)
        for i, x in zip(places, cut(copy, [tuple(x.shape) for x in some]), strict=True):
            after[i] = x
    return after


def on_host(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors on the CPU."""
    return dict(zip(tensors, moved([*tensors.values()], [_CPU] * len(tensors)), strict=True))


def host_template(template: Tensors) -> dict[str, Tensor]:
    """Names and shapes of ``template`` on the CPU, values unset."""
    return {n: torch.empty(x.shape, dtype=torch.float32, device="cpu") for n, x in template.items()}


def placed_like(template: Tensors, update: Tensors) -> dict[str, Tensor]:
    """A decoded ``update`` where ``template`` lies: of a sparse one only the entries are copied."""
    devices = [x.device for x in template.values()]
    if isinstance(update, Decoded) and len({*devices}) == 1:
        entries, places = moved([update.values_sent, update.places], devices[:1] * 2)
        size = sum(x.numel() for x in template.values())
        flat = torch.zeros(size, dtype=torch.float32, device=devices[0])
        return unflatten(flat.index_copy_(0, places, entries), template)
    return dict(zip(template, moved([update[name] for name in template], devices), strict=True))


class HostedMessage(LazyPacket):
    """A message that the CPU's way made of an update on another device."""

    packet: Packet
    template: Tensors

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        return self.packet.counts

    @cached_property
    def sent(self) -> Sent:
        """What the receiver will see of each tensor, where the update lies."""
        sent, devices = self.packet.sent, [x.device for x in self.template.values()]
        values = moved([one.values for one in sent.values()], devices)
        chosen = {
            name: (one.indices, device)
            for (name, one), device in zip(sent.items(), devices, strict=True)
            if isinstance(one.indices, Tensor)
        }
        indices = moved([x for x, _ in chosen.values()], [device for _, device in chosen.values()])
        places = dict(zip(chosen, indices, strict=True))
        return {
            name: SentTensor(x, places.get(name, one.indices), one.shape)
            for (name, one), x in zip(sent.items(), values, strict=True)
        }
