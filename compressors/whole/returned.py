"""A message that did not count: what it carried goes back into its sender's memory."""

from torch import Tensor

from compressors.base import Compressor, State, Tensors
from compressors.bounds import bound
from compressors.whole.lift import InParts
from compressors.whole.memory import nest, unnest

_MANY = 2**20
"""Entries: a method that is exact for so many is for all."""


def holds(compressor: Compressor, template: Tensors) -> bool:
    """Whether a memory of ``compressor`` takes back what a message carried, of any tensor.

    Example:
        >>> import torch
        >>> from compressors import Raw, parse
        >>> holds(parse("sbc(0.01)"), {"w": torch.zeros(4)}), holds(Raw(), {"w": torch.zeros(4)})
        (True, False)
    """
    if isinstance(compressor, InParts):
        return any(part and holds(inner, part) for inner, part in compressor.parts(template))
    return _kind(compressor) is not None


def loses(compressor: Compressor, template: Tensors) -> set[str]:
    """The tensors of a message that are lost where it does not count: no memory takes them back.

    Example:
        >>> import torch
        >>> from compressors import Raw, parse
        >>> loses(parse("sbc(0.01)"), {"w": torch.zeros(4)}), loses(Raw(), {"w": torch.zeros(4)})
        (set(), {'w'})
    """
    if isinstance(compressor, InParts):
        return set[str]().union(*(loses(inner, part) for inner, part in compressor.parts(template)))
    return set() if _kind(compressor) else {*template}


def leaves_out(compressor: Compressor) -> bool:
    """Whether messages may leave out something that no later message brings.

    Not where all is sent, nor where a residual keeps the whole rest; one that decays does not.

    Example:
        >>> from compressors import Raw, parse
        >>> [leaves_out(method) for method in (Raw(), parse("sbc(0.01)"), parse("cnat"))]
        [False, False, True]
    """
    if isinstance(compressor, InParts):
        return any(leaves_out(inner) for inner in compressor.by_key.values())
    without_decay = _kind(compressor) == "residual" and getattr(compressor, "decay", 1.0) == 1
    return not without_decay and bound(compressor, _MANY).omega != 0


def take_back(
    compressor: Compressor, carried: Tensors, state: State
) -> tuple[State, dict[str, Tensor]]:
    """The memory as if the message had held nothing, and what no memory takes back.

    ``ef`` and ``dgc`` add what they hold to the next update; the tensors of any other method are
    lost with their message. A class says by ``held`` under which name its memory has the tensors
    that are added (``residual`` of ``ef``), and by ``steps`` what part of them, if not all.

    Args:
        compressor: made the message.
        carried: what the message decodes to, by name, in the update's shapes.
        state: the sender's memory after the message; not changed.

    Example:
        >>> import torch
        >>> from compressors import compress, decompress, gradient_dropping
        >>> method, update = gradient_dropping(0.5), {"w": torch.tensor([4.0, 1.0])}
        >>> packet, memory = compress(method, update)
        >>> memory, lost = take_back(method, decompress(method, packet.payload, update), memory)
        >>> memory["residual/w"], lost
        (tensor([4., 1.]), {})
    """
    if isinstance(compressor, InParts):
        lost: dict[str, Tensor] = {}
        for i, (inner, part) in enumerate(compressor.parts(carried)):
            memory, remainder = take_back(inner, part, unnest(f"{i}", state))
            state = state | nest(f"{i}", memory)
            lost |= remainder
        return state, lost
    kind = _kind(compressor)
    if kind is None:
        return state, dict(carried)
    held, steps = unnest(kind, state), getattr(compressor, "steps", None)
    parts = steps(carried) if callable(steps) else dict.fromkeys(carried, 1.0)
    back = {name: held[name] + parts[name] * x for name, x in carried.items()}
    return state | nest(kind, back), {}


def _kind(compressor: Compressor) -> str | None:
    kind = getattr(compressor, "held", None)
    return kind if isinstance(kind, str) else None
