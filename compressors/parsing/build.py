"""Makes what a text or JSON describes: a row's class with its settings, a pipeline of parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import isclass, signature
from typing import Any

from compressors.base import Compressor
from compressors.catalogue import CATALOGUE
from compressors.printing import shown
from compressors.row import Row, Written, lacking
from compressors.sparsify.identity import Identity
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline

SLOTS = {"sparsifier": "sparsify", "quantizer": "quantize", "positions": "positions",
         "symbols": "symbols", "coder": "coder"}  # fmt: skip
"""Which slot of a pipeline a row's kind fills; a coder fills either of the last two."""


@dataclass
class Part:
    """A pipeline's part with the name it was given, waiting to be put in its slot."""

    slot: str
    name: str
    thing: Any


def build(row: Row, positional: Sequence[Any], named: dict[str, Any]) -> Any:
    """What a row makes of its settings; ``ValueError`` that names what is wrong with them."""
    if row.make is ByName:
        patterns, things = positional[::2], positional[1::2]
        if len(patterns) != len(things) or not all(isinstance(p, str) for p in patterns):
            raise ValueError("by_name takes pairs of a quoted pattern and a compressor")
        positional = [tuple(zip(patterns, map(as_compressor, things), strict=True))]
    else:
        taken = _taken(row)
        positional = [taken(value) for value in positional]
        named = {key: taken(value) for key, value in named.items()}
    try:
        signature(row.make).bind(*positional, **named)
        made = row.make(*positional, **named)
    except TypeError as error:
        raise ValueError(f"{row.name}: {error}, as in {row.example!r}") from error
    if isclass(row.make) or isinstance(made, Written):  # a class was checked by its row
        return made
    made = _whole(made) if row.kind == "method" else made
    if missing := lacking(row.kind, made):
        raise ValueError(
            f"{row.name} made {shown(made)}, which lacks {', '.join(missing)}: "
            f"the kind {row.kind!r} needs them"
        )
    return made


def _taken(row: Row) -> Callable[[Any], Any]:
    """How a row's arguments are understood: as parts, as codecs of a tensor, or as compressors."""
    if row.kind in SLOTS:
        return _quantizer
    takes_codecs = row.kind == "codec" or row.make in (PerTensor, Flat)
    return _same if takes_codecs else _whole


def _same(value: Any) -> Any:
    return value


def _whole(value: Any) -> Any:
    """A codec of one tensor means the same codec on each tensor of an update."""
    is_codec = hasattr(value, "read") and not hasattr(value, "init")
    return PerTensor(value) if is_codec else value


def _quantizer(value: Any) -> Any:
    """Inside a quantizer a name means a quantizer, not a pipeline of it alone."""
    alone = isinstance(value, Pipeline) and value == Pipeline(Identity(), value.quantize)
    return value.quantize if alone else value


def as_compressor(thing: Any) -> Compressor:
    """``thing``, a codec on each tensor; ``ValueError`` for what is not a method."""
    thing = _whole(thing)
    if not hasattr(thing, "init"):
        raise ValueError(f"{shown(thing)} is not a compressor")
    return thing


def pipeline(parts: list[Any]) -> Pipeline:
    """The pipeline of ``parts`` in any order; ``ValueError`` for two of a kind or no quantizer."""
    slots: dict[str, Any] = {}
    for part in _in_slots(parts):
        if part.slot in slots:
            raise ValueError(f"{part.name} is a second {part.slot} part: one of each is allowed")
        slots[part.slot] = part.thing
    if "quantize" not in slots:
        known = [row.name for row in CATALOGUE.values() if row.kind == "quantizer"]
        raise ValueError(f"no quantize part: add one of {', '.join(known)}")
    made = Pipeline(**{"sparsify": Identity(), **slots})
    if "positions" in slots:
        made.check_positions()  # golomb is a pipeline's default, but here it was written
    return made


def _in_slots(parts: list[Any]) -> list[Part]:
    """The parts, each with its slot: a coder of both kinds codes positions first, then symbols."""
    for part in parts:
        if not isinstance(part, Part):
            raise ValueError(f"{shown(part)} is a whole method and cannot stand between '|'")
    things = {part.slot: part.thing for part in parts}
    chooses = things.get("sparsify", Identity())
    free = not isinstance(chooses, Identity) and not chooses.needs_seed
    free = free and "positions" not in things
    for part in parts:
        if part.slot == "coder":
            part.slot, free = "positions" if free else "symbols", False
    return parts
