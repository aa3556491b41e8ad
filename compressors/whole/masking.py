"""Of which entries a sender forgets its momentum: those that ``ef(..., mask=true)`` has sent.

The sender's optimizer has the momentum (``fedsim.federation.client``); a method says where.
"""

from typing import Any

from compressors.base import Sent
from compressors.sparsify.threshold import Identity
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.fragments import Fragments
from compressors.whole.keepers import parts_of
from compressors.whole.lift import ByName, Flat, PerTensor, innermost
from compressors.whole.lowrank import LowRank
from compressors.whole.pipeline import Pipeline
from compressors.whole.projections import Projections
from compressors.whole.raw import Raw
from compressors.whole.rotate import Transform
from compressors.whole.threelc import ThreeLC

ALL, SOME, NONE = "all", "some", "none"


def masked(method: Any, sent: Sent) -> Sent:
    """What was sent by those parts of a method that mask, tensor by tensor.

    Example:
        >>> import torch
        >>> from compressors import compress, parse
        >>> method = parse("by_name('a', sbc(0.5), '*', ef(topk(0.5) | float32))")
        >>> packet, _ = compress(method, {"a": torch.ones(4), "b": torch.ones(4)})
        >>> [*masked(method, packet.sent)]
        ['a']
    """
    if isinstance(method, ByName):
        parts: Sent = {}
        for name, part in sent.items():
            _, rule = method.rules[method.ordinal(name, part.shape)]
            parts |= masked(rule, {name: part})
        return parts
    if isinstance(method, Fragments):
        return masked(method.inner, sent)
    return sent if _masks(method) else {}


def masking(method: Any) -> str:
    """Whether a method masks ``all`` entries that it sends, ``some`` or ``none``.

    What sends a tensor whole holds nothing of it back: its entries count as those around them.

    Example:
        >>> from compressors import parse
        >>> masking(parse("sbc(0.1)")), masking(parse("ef(topk(0.1) | float32)"))
        ('all', 'none')
        >>> masking(parse("by_name('size<9', raw, '*', sbc(0.1))"))
        'all'
    """
    rules = [*innermost(method)]
    if not any(map(_masks, rules)):
        return NONE
    return ALL if all(_masks(rule) or sends_all(rule) for rule in rules) else SOME


def sends_all(method: Any) -> bool:
    """Whether each message has a value for every entry, so that positions make no difference.

    False for a class from outside the package, of which it is not known.

    Example:
        >>> from compressors import parse
        >>> sends_all(parse("ef_sign()")), sends_all(parse("ef(topk(0.1) | float32)"))
        (True, False)
    """
    if isinstance(method, ByName):
        return all(sends_all(rule) for _, rule in method.rules)
    if isinstance(method, ErrorFeedback):
        return sends_all(method.inner)
    codec = method.codec if isinstance(method, PerTensor | Flat) else method
    if isinstance(codec, Pipeline):
        return isinstance(codec.sparsify, Identity)
    if isinstance(codec, Transform):
        return codec.mixes
    return isinstance(codec, Raw | LowRank | ThreeLC | Projections)


def _masks(rule: Any) -> bool:
    return any(isinstance(part, ErrorFeedback) and part.mask for part in parts_of(rule))
