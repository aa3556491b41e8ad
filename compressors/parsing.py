"""Texts and JSON to compressors: the grammar, and a row's class with its settings."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import isclass, signature
from typing import Any

from compressors.base import Compressor
from compressors.catalogue import CATALOGUE, check_names
from compressors.errors import MethodError
from compressors.grammar import NAME, Call, read_call, shortened, shown, value
from compressors.row import Composition, Row, Written, lacking
from compressors.sparsify.threshold import Identity
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline

SLOTS = {
    "sparsifier": "sparsify",
    "quantizer": "quantize",
    "positions": "positions",
    "symbols": "symbols",
    "coder": "coder",
}
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
        positional = [_value_of(row, value) for value in positional]
        named = {key: _value_of(row, value) for key, value in named.items()}
    try:
        _signature(make).bind(*positional, **named)
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


_signature = lru_cache(maxsize=512)(signature)
"""The signature of what a row makes its things with, looked up once."""


def _value_of(row: Row, value: Any) -> Any:
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


_LONGEST = 100_000  # characters read
_FRACTION = "{p}"


def parse(source: str, p: float | None = None) -> Compressor:
    """The compressor that ``source`` names, with the number ``p`` where it says ``{p}``.

    A bare codec means ``per_tensor`` of it, and a pipeline without a sparsifier sends every
    entry. A pipeline's parts have one order: sparsifier, quantizer, position code, symbol code
    (a coder of both kinds codes positions first, then symbols). Raises ``MethodError``, a
    ``ValueError`` that names the offending part and what is allowed.

    Example:
        >>> parse("topk(0.01) | float32 | golomb") == parse("per_tensor(topk(0.01)|float32|golomb)")
        True
        >>> parse("sbc({p})", p=0.01) == parse("sbc(0.01)")
        True
    """
    if not isinstance(source, str):
        raise MethodError(f"a method's text is needed, not {shown(source)}")
    if len(source) > _LONGEST:
        raise MethodError(
            f"method {shortened(source)}: {len(source)} characters, at most {_LONGEST} are read"
        )
    try:
        return as_compressor(_expression(read_call(source), {} if p is None else {_FRACTION: p}))
    except RecursionError:
        raise MethodError(f"method {shortened(source)}: nested too deeply") from None
    except MethodError:
        raise
    except ValueError as error:
        raise MethodError(f"method {shortened(source)}: {error}") from error


def _expression(call: Call, words: Mapping[str, Any]) -> Any:
    """What an expression makes: a whole method, a codec, or a pipeline of parts.

    ``words``: what words in it stand for.
    """
    parts = []
    for part in call.arguments if call.name == "|" else [call]:
        name = part.name
        if not NAME.fullmatch(name):
            raise ValueError(f"expected a name, not {shortened(name or '(')}")
        check_names(Call(name))
        row = CATALOGUE[name]
        if row.name != name:
            raise ValueError(f"CATALOGUE[{name!r}] is the row {row.name!r}: give both one name")
        positional = [_argument(one, words) for one in part.arguments]
        named = {key: _argument(one, words) for key, one in part.named.items()}
        thing = instance_of(name, *positional, **named)
        parts.append(PipelinePart(SLOTS[row.kind], part, thing) if row.kind in SLOTS else thing)
    if len(parts) == 1 and not isinstance(parts[0], PipelinePart):
        return parts[0]
    return pipeline(parts)


def instance_of(name: str, *positional: Any, **named: Any) -> Any:
    """What the row ``name`` makes of its settings: a part, a codec or a whole method."""
    thing = build(CATALOGUE[name], positional, named)
    if not isinstance(thing, Written):
        return thing
    return as_compressor(_expression(read_call(thing.text), thing.settings))


def _argument(call: Call, words: Mapping[str, Any]) -> Any:
    if call.name in words and not call.called:
        return words[call.name]
    if call.called or call.name == "|" or call.name in CATALOGUE:
        return _expression(call, words)
    if call.name == _FRACTION:
        raise ValueError(f"{_FRACTION} stands for a fraction of entries, and none is given")
    return value(call.name)


def from_json(value: Any) -> Any:
    """The object that ``to_json`` described; ``MethodError`` for an unknown name."""
    if isinstance(value, list):
        return tuple(from_json(part) for part in value)
    if not isinstance(value, dict):
        return value
    settings = {key: from_json(part) for key, part in value.items() if key != "name"}
    name = value.get("name")
    if name != Pipeline.codec_id and (not isinstance(name, str) or name not in CATALOGUE):
        raise MethodError(f"unknown method {name!r}: known are {', '.join(CATALOGUE)}")
    make = Pipeline if name == Pipeline.codec_id else CATALOGUE[name].make
    try:
        _signature(make).bind(**settings)
        return instance_of(name, **settings) if isinstance(make, Composition) else make(**settings)
    except TypeError as error:
        raise MethodError(f"{name}: {error}") from error


_Method = Callable[..., Compressor]

sbc: _Method = partial(instance_of, "sbc")
"""Sparse Binary Compression of a fraction ``p`` of each tensor."""

gradient_dropping: _Method = partial(instance_of, "gradient_dropping")
"""Gradient dropping of all but a fraction ``p`` of each tensor, or with ``scope`` of the model."""

stc: _Method = partial(instance_of, "stc")
"""Sparse ternary compression of a fraction ``p`` of each tensor."""

ef_sign: _Method = partial(instance_of, "ef_sign")
"""Signs and mean magnitudes with error feedback; no settings."""

powersgd: _Method = partial(instance_of, "powersgd")
"""Low rank with error feedback, of a ``rank``."""

structured_mask: _Method = partial(instance_of, "structured_mask")
"""A random fraction ``p`` of each tensor."""

sketched: _Method = partial(instance_of, "sketched")
"""Rotated, a random fraction ``p``, ``bits`` for each entry."""

q_sparse: _Method = partial(instance_of, "q_sparse")
"""The largest fraction ``p``, then QSGD of ``levels``."""

topk_cnat: _Method = partial(instance_of, "topk_cnat")
"""The largest fraction ``p``, then natural compression."""

skcompress: _Method = partial(instance_of, "skcompress")
"""The largest fraction ``p``, quantile ``buckets`` and delta keys."""
