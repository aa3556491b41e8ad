"""Reads the text form of a compressor: calls of names from the catalogue, and nothing else.

``compressors.calls`` is the grammar; ``{p}`` stands for a fraction of entries.
"""

from collections.abc import Mapping
from typing import Any

from compressors.base import Compressor
from compressors.calls import NAME, Call, read, shortened, value
from compressors.catalogue import CATALOGUE, check_names
from compressors.errors import MethodError
from compressors.parsing.build import SLOTS, PipelinePart, as_compressor, build, pipeline
from compressors.printing import shown
from compressors.row import Written

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
        return as_compressor(_expression(read(source), {} if p is None else {_FRACTION: p}))
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
    return as_compressor(_expression(read(thing.text), thing.settings))


def _argument(call: Call, words: Mapping[str, Any]) -> Any:
    if call.name in words and not call.called:
        return words[call.name]
    if call.called or call.name == "|" or call.name in CATALOGUE:
        return _expression(call, words)
    if call.name == _FRACTION:
        raise ValueError(f"{_FRACTION} stands for a fraction of entries, and none is given")
    return value(call.name)
