"""Reads the text form of a compressor: names from the catalogue, and nothing else.

    expression := part ("|" part)*
    part       := NAME [ "(" [ argument ("," argument)* ] ")" ]
    argument   := [ NAME "=" ] ( number | "text" | expression | "{p}" )
"""

from typing import Any

from compressors.base import Compressor
from compressors.catalogue import CATALOGUE
from compressors.errors import MethodError
from compressors.parsing.build import SLOTS, Part, as_compressor, build, pipeline
from compressors.parsing.tokens import Tokens, start
from compressors.printing import shown

_LONGEST, _DIGITS = 100_000, 400  # characters read, and of a number
_WORDS = {"true": True, "false": False, "none": None}


def parse(source: str, p: float | None = None) -> Compressor:
    """The compressor that ``source`` names, with the number ``p`` where it says ``{p}``.

    A bare codec means ``per_tensor`` of it, and a pipeline without a sparsifier sends every
    entry. A pipeline's parts may stand in any order: each has a slot of its own (a coder of both
    kinds codes positions first, then symbols). Raises ``MethodError``, a ``ValueError`` that
    names the offending part and what is allowed.

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
            f"method {start(source)}: {len(source)} characters, at most {_LONGEST} are read"
        )
    tokens = Tokens(source, p)
    try:
        thing = _expression(tokens)
    except RecursionError:
        raise MethodError(f"method {start(source)}: nested too deeply") from None
    if tokens.kind != "end":
        raise tokens.error(f"unexpected {tokens.value!r}")
    with tokens.named():
        return as_compressor(thing)


def _expression(tokens: Tokens) -> Any:
    parts = [_part(tokens)]
    while tokens.value == "|":
        tokens.advance()
        parts.append(_part(tokens))
    if len(parts) == 1 and not isinstance(parts[0], Part):
        return parts[0]
    with tokens.named():
        return pipeline(parts)


def _part(tokens: Tokens) -> Any:
    if tokens.kind != "name":
        raise tokens.error(f"expected a name before {tokens.value or 'the end'!r}")
    name = tokens.advance()
    if name not in CATALOGUE:
        raise tokens.unknown(name)
    row = CATALOGUE[name]
    if row.name != name:
        raise tokens.error(f"CATALOGUE[{name!r}] is the row {row.name!r}: give both one name")
    positional, named = _arguments(name, tokens) if tokens.value == "(" else ([], {})
    with tokens.named():
        thing = build(row, positional, named)
    return Part(SLOTS[row.kind], row.name, thing) if row.kind in SLOTS else thing


def _arguments(name: str, tokens: Tokens) -> tuple[list[Any], dict[str, Any]]:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    tokens.expect("(")
    while tokens.value != ")":
        if tokens.kind == "end":
            raise tokens.error(f"')' is missing: {name}( is not closed")
        key, value = _argument(tokens)
        if key in named:
            raise tokens.error(f"{key} is given twice")
        if key:
            named[key] = value
        else:
            positional.append(value)
        if tokens.value != ")" and tokens.kind != "end":
            tokens.expect(",")
    tokens.advance()
    return positional, named


def _argument(tokens: Tokens) -> tuple[str, Any]:
    """The setting's name, empty where none is given, and its value."""
    if tokens.is_key():
        key = tokens.advance()
        tokens.advance()
        return key, _argument(tokens)[1]
    if tokens.kind == "number":
        number = tokens.advance()
        if len(number) > _DIGITS:
            raise tokens.error(f"a number of {len(number)} digits")
        return "", int(number) if number.lstrip("+-").isdigit() else float(number)
    if tokens.kind == "fraction":
        if tokens.p is None:
            raise tokens.error("{p} stands for a fraction of entries, and none is given")
        tokens.advance()
        return "", tokens.p
    if tokens.kind == "text":
        return "", tokens.advance()[1:-1]
    if tokens.kind == "name" and tokens.value not in CATALOGUE:
        word = tokens.advance()
        if tokens.value == "(":
            raise tokens.unknown(word)
        return "", _WORDS.get(word.lower(), word)
    return "", _expression(tokens)
