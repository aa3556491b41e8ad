"""Which parts of a compressor have a memory, or a server, of their own, and whose a memory is."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from compressors.base import Compressor, ForServer, Holding, State
from compressors.errors import UpdateError
from compressors.grammar import name_of, short_text
from compressors.whole.lift import InParts
from compressors.whole.memory import unnest


def parts_of(thing: Any) -> Iterator[Any]:
    """A compressor and every part of it, from the outermost inwards."""
    left = [thing]
    while left:
        part = left.pop()
        yield part
        inner = part if isinstance(part, tuple) else ()
        if is_dataclass(part):
            inner = tuple([getattr(part, f.name) for f in fields(part)])
        left += reversed(inner)


def needs_server(thing: Any) -> str:
    """The strategy that alone can use the messages of a compressor; empty where any can.

    Example:
        >>> from compressors import parse
        >>> needs_server(parse("by_name('w', ef21(cnat), '*', raw)")), needs_server(parse("cnat"))
        ('ef21', '')
    """
    return next((part.server for part in parts_of(thing) if isinstance(part, ForServer)), "")


def check_keeps_nothing(name: str, inner: Any) -> None:
    """Refuses the inner compressor of ``name`` that has a memory or a server of its own.

    With two memories what is not sent is kept, and sent, twice. What a server adds up must reach
    the server as it was sent.

    Raises:
        ValueError: a part has one or the other; the message names the part.

    Example:
        >>> from compressors import parse
        >>> check_keeps_nothing("ef", parse("dgc(0.1)"))
        Traceback (most recent call last):
        ValueError: ef around dgc(0.1), which has a memory of its own: leave one of the two out
    """
    for part in parts_of(inner):
        reason = ""
        if isinstance(part, Holding):
            reason = "which has a memory of its own"
        elif isinstance(part, ForServer):
            reason = f"whose messages only the server of strategy {part.server} understands"
        if reason:
            refused = f"{name} around {short_text(part)}, {reason}"
            raise ValueError(f"{refused}: leave one of the two out")


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
    if isinstance(compressor, InParts):
        _check(compressor, (*compressor.by_key, *(compressor.keeps or ())), state)
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
