"""EF21-BC's downlink: differences of the direction in which the model moves.

With ``ef21`` on the downlink a message is not the change of the model. It is the compressed
difference of the server's mean to the sum of its messages so far. Both ends add these differences
up. Their sum is the direction, by which the model moves in every round, at the server and at each
client. With the whole model, a client also receives the direction, as the tensors
``direction/NAME``: twice the bits. Before the first round it is zero, and is not sent.

Source: Fatkhullin et al. 2021 (EF21 with bells and whistles, https://arxiv.org/abs/2110.03294),
EF21-BC: g + C(mean - g).
"""

import threading
from typing import Any

import torch
from torch import Tensor

from compressors import Compressor, Raw, Sent, State, Tensors, decompress
from compressors.base import empty_like
from compressors.whole.feedback import EF21
from compressors.whole.memory import free_prefix, nest, unnest

DIRECTION = "direction"
RAW = Raw()


def directs(downlink: Compressor) -> bool:
    """Whether both ends keep a direction: the downlink is ``ef21``.

    Example:
        >>> from compressors import parse
        >>> directs(parse("ef21(cnat)")), directs(parse("ef(cnat)"))
        (True, False)
    """
    return isinstance(downlink, EF21)


def stepped(weights: Tensors, downlink: Compressor, sent: Sent, memory: State) -> dict[str, Tensor]:
    """A server's model after it ``sent`` something, with the ``memory`` that is left of that."""
    step = _direction(downlink, memory) or {name: entries.decoded for name, entries in sent.items()}
    return {name: x + step[name] for name, x in weights.items()}


def sent_with_model(downlink: Compressor, memory: State, version: int) -> State:
    """What a server with this ``memory`` sends with its whole model, number ``version``."""
    return _prefixed(_direction(downlink, memory)) if version else {}


def _direction(downlink: Compressor, memory: State) -> State:
    """The clients' sums, bit for bit and with the signs of zeros: zero minus the shift."""
    shift = unnest(EF21.held, memory) if directs(downlink) else {}
    return {name: torch.zeros_like(x) - x for name, x in shift.items()}


def received(
    downlink: Compressor, payload: bytes, template: Tensors, version: int, model: Compressor = RAW
) -> State:
    """A whole model as it came, with the direction where both ends keep one.

    Args:
        downlink: how the server encodes the global update.
        payload: the model's.
        template: the model: names, shapes and devices.
        version: of the model; before the first round the direction is zero, and was not sent.
        model: how it was sent.
    """
    if not isinstance(downlink, EF21):
        return _decoded(model, payload, template)
    if version == 0:
        weights = _decoded(model, payload, template)
        return weights | _prefixed(empty_like(weights))
    return _decoded(model, payload, dict(template) | _prefixed(template))


def _prefixed(direction: Tensors) -> State:
    return nest(free_prefix(DIRECTION, direction), dict(direction))


class _Last(threading.local):
    """What a thread has decoded last, and its tensors' names, shapes, devices and changes then."""

    def __init__(self) -> None:
        self.payload: bytes | None = None
        self.model: State = {}
        self.versions: list[Any] = []


_LAST = _Last()


def _decoded(method: Compressor, payload: bytes, template: Tensors) -> State:
    """A whole model, which a thread decodes once: a round's clients receive the same bytes.

    Tensors that a client has changed in place are decoded again for the next client.
    """
    layout = [(name, x.shape, x.device) for name, x in template.items()]
    now = [layout, [x._version for x in _LAST.model.values()]]
    if payload is not _LAST.payload or now != _LAST.versions:
        _LAST.payload, _LAST.model = None, {}  # room for the next
        _LAST.model = decompress(method, payload, template)
        _LAST.versions = [layout, [x._version for x in _LAST.model.values()]]
        _LAST.payload = payload
    return dict(_LAST.model)


def moved(model: State, update: Tensors) -> State:
    """The model after an ``update``; with a direction, that after it and the model moved by it."""
    prefix = free_prefix(DIRECTION, update)
    direction = {n: model[f"{prefix}/{n}"] for n in update if len(model) > len(update)}
    step = {n: direction[n].to(x.device) + x for n, x in update.items()} if direction else update
    after = {name: model[name].to(x.device) + x for name, x in step.items()}
    return after | (_prefixed(step) if direction else {})
