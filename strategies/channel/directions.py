"""EF21-BC's downlink: differences of the direction in which the model moves.

With ``ef21`` on the downlink a message is not the change of the model. It is the compressed
difference of the server's mean to the sum of its messages so far. Both ends add these differences
up. Their sum is the direction, by which the model moves in every round, at the server and at each
client. With the whole model, a client also receives the direction, as the tensors
``direction/NAME``: twice the bits. Before the first round it is zero, and is not sent.

Source: Fatkhullin et al. 2021 (EF21 with bells and whistles, https://arxiv.org/abs/2110.03294),
EF21-BC: g + C(mean - g).
"""

from collections.abc import Callable

import torch
from torch import Tensor

from compressors import Compressor, Sent, State, Tensors
from compressors.base import empty_like
from compressors.whole.feedback import EF21
from compressors.whole.memory import free_prefix, nest, unnest

DIRECTION = "direction"


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


def received(decoded: Callable[[Tensors], State], template: Tensors, version: int) -> State:
    """A whole model with the direction; ``decoded``: the tensors of a template that were sent.

    Before the first round (``version`` 0) the direction is zero, and was not sent.
    """
    if version == 0:
        weights = decoded(template)
        return weights | _prefixed(empty_like(weights))
    return decoded(dict(template) | _prefixed(template))


def _prefixed(direction: Tensors) -> State:
    return nest(free_prefix(DIRECTION, direction), dict(direction))


def moved(model: State, update: Tensors) -> State:
    """The model after an ``update``; with a direction, that after it and the model moved by it."""
    prefix = free_prefix(DIRECTION, update)
    direction = {n: model[f"{prefix}/{n}"] for n in update if len(model) > len(update)}
    step = {n: direction[n].to(x.device) + x for n, x in update.items()} if direction else update
    after = {name: model[name].to(x.device) + x for name, x in step.items()}
    return after | (_prefixed(step) if direction else {})
