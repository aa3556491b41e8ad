"""Whose a memory is: that of another method is refused, not overlooked or taken for one's own."""

from compressors.base import Compressor, State
from compressors.errors import UpdateError
from compressors.printing import name_of
from compressors.whole.lift import InParts
from compressors.whole.memory import unnest


def check_whose(compressor: Compressor, state: State) -> None:
    """Refuses a memory that another method has left; settings of the same method may change.

    ``Compressor.keeps`` names the kinds of tensors that a memory has.

    Raises:
        UpdateError: the memory holds another kind; the message names it and the method.

    Example:
        >>> import torch
        >>> from compressors import parse
        >>> check_whose(parse("cnat"), {"residual/w": torch.ones(2)})
        Traceback (most recent call last):
        compressors.errors.UpdateError: the memory holds residual, per_tensor keeps nothing: it \
belongs to another method
    """
    keeps = getattr(compressor, "keeps", None)
    if isinstance(compressor, InParts):
        _check(compressor, (*compressor.by_key, *(keeps or ())), state)
        for key, part in compressor.by_key.items():
            check_whose(part, unnest(key, state))
        return
    if compressor.keeps is None:
        return
    _check(compressor, compressor.keeps, state)
    if "inner" in compressor.keeps:
        check_whose(compressor.inner, unnest("inner", state))  # type: ignore[attr-defined]


def _check(compressor: Compressor, keeps: tuple[str, ...], state: State) -> None:
    for kind in (key.partition("/")[0] for key in state):
        if kind not in keeps:
            kept_kinds = " and ".join(keeps) or "nothing"
            raise UpdateError(
                f"the memory holds {kind}, {name_of(compressor)} keeps {kept_kinds}: it belongs to "
                "another method"
            )
