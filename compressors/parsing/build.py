"""Makes what a text or JSON describes: a row's class with its settings, a pipeline of parts."""

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import isclass, signature
from typing import Any

from compressors.base import Compressor
from compressors.calls import Call, shortened
from compressors.catalogue import CATALOGUE
from compressors.printing import shown
from compressors.row import Row, Written, lacking
from compressors.sparsify.identity import Identity
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline

SLOTS = {"sparsifier": "sparsify", "quantizer": "quantize", "positions": "positions",
         "symbols": "symbols", "coder": "coder"}  # fmt: skip
"""Which slot of a pipeline a row's kind fills; a coder fills either of the last two."""

_ORDER = ("sparsify", "quantize", "positions", "symbols")


@dataclass
class PipelinePart:
    """A pipeline's part as it was typed, waiting to be put in its slot."""

    slot: str
    typed: Call
    thing: Any


def build(row: Row, positional: Sequence[Any], named: dict[str, Any]) -> Any:
    """What a row makes of its settings; ``ValueError`` that names what is wrong with them."""
    make = row.make
    if make is ByName:
        patterns, things = positional[::2], positional[1::2]
        if len(patterns) != len(things) or not all(isinstance(p, str) for p in patterns):
            raise ValueError("by_name takes pairs of a quoted pattern and a compressor")
        positional = [tuple(zip(patterns, map(as_compressor, things), strict=True))]
    else:
        positional = [_argument(row, value) for value in positional]
        named = {key: _argument(row, value) for key, value in named.items()}
    try:
        signature(make).bind(*positional, **named)
        product = make(*positional, **named)
    except TypeError as error:
        raise ValueError(f"{row.name}: {error}, as in {row.example!r}") from error
    if isclass(make) or isinstance(product, Written):  # a class was checked by its row
        return product
    product = _as_method(product) if row.kind == "method" else product
    if missing := lacking(row.kind, product):
        raise ValueError(
            f"{row.name} made {shown(product)}, which lacks {', '.join(missing)}: "
            f"the kind {row.kind!r} needs them"
        )
    return product


def _argument(row: Row, value: Any) -> Any:
    """A row's argument as it takes it: a part, a codec of a tensor, or a compressor."""
    if row.kind in SLOTS:  # a name means a quantizer there, not a pipeline of it alone
        single = isinstance(value, Pipeline) and value == Pipeline(Identity(), value.quantize)
        return value.quantize if single else value
    takes_codecs = row.kind == "codec" or row.make in (PerTensor, Flat)
    return value if takes_codecs else _as_method(value)


def _as_method(value: Any) -> Any:
    """A codec of one tensor means the same codec on each tensor of an update."""
    is_codec = hasattr(value, "read") and not hasattr(value, "init")
    return PerTensor(value) if is_codec else value


def as_compressor(thing: Any) -> Compressor:
    """``thing``, a codec on each tensor; ``ValueError`` for what is not a method."""
    thing = _as_method(thing)
    if not hasattr(thing, "init"):
        raise ValueError(f"{shown(thing)} is not a compressor")
    return thing


def pipeline(parts: list[Any]) -> Pipeline:
    """The pipeline of ``parts``; ``ValueError`` for two of a kind, no quantizer or another order.

    A coder of both kinds codes positions first, then symbols.
    """
    for part in parts:
        if not isinstance(part, PipelinePart):
            raise ValueError(f"{shown(part)} is a whole method and cannot stand between '|'")
    named = {part.slot: part.thing for part in parts}
    selector = named.get("sparsify", Identity())
    free = not (isinstance(selector, Identity) or selector.needs_seed or "positions" in named)
    slots: dict[str, Any] = {}
    for part in parts:
        if part.slot == "coder":
            part.slot, free = "positions" if free else "symbols", False
        if part.slot in slots:
            name = part.typed.name
            raise ValueError(f"{name} is a second {part.slot} part: one of each is allowed")
        slots[part.slot] = part.thing
    if "quantize" not in slots:
        quantizers = [row.name for row in CATALOGUE.values() if row.kind == "quantizer"]
        raise ValueError(f"no quantize part: add one of {', '.join(quantizers)}")
    ordered = sorted(parts, key=lambda part: _ORDER.index(part.slot))
    if parts != ordered:
        written = " | ".join(str(part.typed) for part in ordered)
        raise ValueError(
            "a pipeline is written in the order in which it works, [sparsifier |] quantizer "
            f"[| positions] [| symbols]: write {shortened(written)}"
        )
    product = Pipeline(**{"sparsify": Identity(), **slots})
    if "positions" in slots:
        product.check_positions()  # golomb is a pipeline's default, but here it was written
    return product
