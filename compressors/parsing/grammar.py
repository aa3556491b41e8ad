"""Reads the text form of a compressor: names from the catalogue, and nothing else.

    expression := part ("|" part)*
    part       := NAME [ "(" [ argument ("," argument)* ] ")" ]
    argument   := [ NAME "=" ] ( number | "text" | expression )
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from inspect import isclass
from typing import Any

from compressors.base import Compressor, shown
from compressors.catalogue import CATALOGUE, Row
from compressors.rows.base import lacking
from compressors.sparsify.identity import Identity
from compressors.whole.lift import ByName, Flat, PerTensor
from compressors.whole.pipeline import Pipeline

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<name>[A-Za-z_]\w*)|(?P<mark>[|(),=]))"
)
_SLOTS = {"sparsifier": "sparsify", "quantizer": "quantize", "positions": "positions",
          "symbols": "symbols", "coder": "coder"}
_LONGEST, _SHOWN, _DIGITS = 100_000, 500, 400  # characters read, shown, and of a number
_WORDS = {"true": True, "false": False, "none": None}


def parse(source: str) -> Compressor:
    """The compressor that ``source`` names.

    A bare codec means ``per_tensor`` of it, and a pipeline without a sparsifier sends every
    entry. A pipeline's parts may stand in any order: each has a slot of its own (a coder of both
    kinds codes positions first, then symbols). Raises ``ValueError`` that names the offending
    part and what is allowed.

    Example:
        >>> parse("topk(0.01) | float32 | golomb") == parse("per_tensor(topk(0.01)|float32|golomb)")
        True
    """
    if not isinstance(source, str):
        raise ValueError(f"a method's text is needed, not {shown(source)}")
    if len(source) > _LONGEST:
        raise ValueError(
            f"method {_start(source)}: {len(source)} characters, at most {_LONGEST} are read"
        )
    reader = _Reader(source)
    try:
        thing = reader.expression()
    except RecursionError:
        raise ValueError(f"method {_start(source)}: nested too deeply") from None
    if reader.kind != "end":
        raise reader.error(f"unexpected {reader.value!r}")
    return _as_compressor(thing, reader)


def _start(source: str) -> str:
    """A text in an error: its beginning where it is long."""
    return repr(source) if len(source) <= _SHOWN else f"{source[:40]!r}..."


class _Part:
    """A pipeline's part, waiting to be put in its slot."""

    def __init__(self, row: Row, thing: Any) -> None:
        self.slot, self.name, self.thing = _SLOTS[row.kind], row.name, thing


class _Reader:
    def __init__(self, source: str) -> None:
        self.source, self.at = source, 0
        self.kind, self.value = "end", ""
        self.advance()

    def error(self, why: str) -> ValueError:
        return ValueError(f"method {_start(self.source)}: {why}")

    def unknown(self, name: str) -> ValueError:
        near = get_close_matches(name.lower(), CATALOGUE, n=1)
        some = "known are sbc, gradient_dropping, raw, ...: "
        guess = f"did you mean {near[0]!r}? " if near else some
        return self.error(f"unknown name {name!r}: {guess}`fedsim list methods` prints them all")

    def advance(self) -> str:
        """Moves to the next token and returns the value of the one left behind."""
        left = self.value
        rest = self.source[self.at :]
        if not rest.strip():
            self.kind, self.value = "end", ""
            return left
        found = _TOKEN.match(rest)
        if not found or found.lastgroup is None:
            raise self.error(f"cannot read {_start(rest.strip())}")
        self.at += found.end()
        self.kind, self.value = found.lastgroup, found[found.lastgroup]
        return left

    def expect(self, mark: str) -> None:
        if self.value != mark:
            raise self.error(f"expected {mark!r} before {self.value or 'the end'!r}")
        self.advance()

    def expression(self) -> Any:
        parts = [self.part()]
        while self.value == "|":
            self.advance()
            parts.append(self.part())
        if len(parts) == 1 and not isinstance(parts[0], _Part):
            return parts[0]
        return _pipeline(parts, self)

    def part(self) -> Any:
        if self.kind != "name":
            raise self.error(f"expected a name before {self.value or 'the end'!r}")
        name = self.advance()
        if name not in CATALOGUE:
            raise self.unknown(name)
        row = CATALOGUE[name]
        if row.name != name:
            raise self.error(f"CATALOGUE[{name!r}] is the row {row.name!r}: give both one name")
        positional, named = self.arguments(name) if self.value == "(" else ([], {})
        thing = self.build(row, positional, named)
        return _Part(row, thing) if row.kind in _SLOTS else thing

    def arguments(self, name: str) -> tuple[list[Any], dict[str, Any]]:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        self.expect("(")
        while self.value != ")":
            if self.kind == "end":
                raise self.error(f"')' is missing: {name}( is not closed")
            key, value = self.argument()
            if key in named:
                raise self.error(f"{key} is given twice")
            if key:
                named[key] = value
            else:
                positional.append(value)
            if self.value != ")" and self.kind != "end":
                self.expect(",")
        self.advance()
        return positional, named

    def argument(self) -> tuple[str, Any]:
        if self.kind == "name" and self.source[self.at :].lstrip().startswith("="):
            key = self.advance()
            self.advance()
            return key, self.argument()[1]
        if self.kind == "number":
            number = self.advance()
            if len(number) > _DIGITS:
                raise self.error(f"a number of {len(number)} digits")
            return "", int(number) if number.lstrip("+-").isdigit() else float(number)
        if self.kind == "text":
            return "", self.advance()[1:-1]
        if self.kind == "name" and self.value not in CATALOGUE:
            word = self.advance()
            if self.value == "(":
                raise self.unknown(word)
            return "", _WORDS.get(word.lower(), word)
        return "", self.expression()

    def build(self, row: Row, positional: list[Any], named: dict[str, Any]) -> Any:
        if row.make is ByName:
            positional = [_rules(positional, self)]
        else:
            taken = _what(row)
            positional = [taken(value) for value in positional]
            named = {key: taken(value) for key, value in named.items()}
        try:
            return _checked(row, row.make(*positional, **named))
        except TypeError as error:
            raise self.error(
                f"{row.name}: {str(error).split('() ')[-1]}, as in {row.example!r}"
            ) from error
        except ValueError as error:
            raise self.error(str(error)) from error


def _checked(row: Row, thing: Any) -> Any:
    """What a function made; ``ValueError`` unless it is what its row says. A class was checked."""
    if not isclass(row.make):
        thing = _whole(thing) if row.kind == "method" else thing
        if missing := lacking(row.kind, thing):
            raise ValueError(
                f"{row.name} made {shown(thing)}: no {row.kind}, it lacks {', '.join(missing)}"
            )
    return thing


def _what(row: Row) -> Callable[[Any], Any]:
    """How a row's arguments are understood: as parts, as codecs of a tensor, or as compressors."""
    if row.kind in _SLOTS:
        return _part
    takes_codecs = row.kind == "codec" or row.make in (PerTensor, Flat)
    return _same if takes_codecs else _whole


def _same(value: Any) -> Any:
    return value


def _whole(value: Any) -> Any:
    """A bare codec of one tensor means one a tensor."""
    is_codec = hasattr(value, "read") and not hasattr(value, "init")
    return PerTensor(value) if is_codec else value


def _part(value: Any) -> Any:
    """Inside a quantizer a name means a quantizer, not a pipeline of it alone."""
    alone = isinstance(value, Pipeline) and value == Pipeline(Identity(), value.quantize)
    return value.quantize if alone else value


def _rules(flat: list[Any], reader: _Reader) -> tuple[tuple[str, Compressor], ...]:
    patterns, things = flat[::2], flat[1::2]
    if len(patterns) != len(things) or not all(isinstance(p, str) for p in patterns):
        raise reader.error("by_name takes pairs of a quoted pattern and a compressor")
    return tuple(
        (p, _as_compressor(t, reader)) for p, t in zip(patterns, things, strict=True)
    )


def _pipeline(parts: list[Any], reader: _Reader) -> Pipeline:
    slots: dict[str, Any] = {}
    for part in _in_slots(parts, reader):
        if part.slot in slots:
            raise reader.error(f"{part.name} is a second {part.slot} part: one of each is allowed")
        slots[part.slot] = part.thing
    if "quantize" not in slots:
        known = [row.name for row in CATALOGUE.values() if row.kind == "quantizer"]
        raise reader.error(f"no quantize part: add one of {', '.join(known)}")
    try:
        made = Pipeline(**{"sparsify": Identity(), **slots})
        if "positions" in slots:
            made.check_positions()  # golomb is a pipeline's default, but here it was written
    except ValueError as error:
        raise reader.error(str(error)) from error
    return made


def _in_slots(parts: list[Any], reader: _Reader) -> list[_Part]:
    """The parts, each with its slot: a coder of both kinds codes positions first, then symbols."""
    for part in parts:
        if not isinstance(part, _Part):
            raise reader.error(f"{shown(part)} is a whole method and cannot stand between '|'")
    things = {part.slot: part.thing for part in parts}
    chooses = things.get("sparsify", Identity())
    free = not isinstance(chooses, Identity) and not chooses.needs_seed
    free = free and "positions" not in things
    for part in parts:
        if part.slot == "coder":
            part.slot, free = "positions" if free else "symbols", False
    return parts


def _as_compressor(thing: Any, reader: _Reader) -> Compressor:
    thing = _whole(thing)
    if not hasattr(thing, "init"):
        raise reader.error(f"{shown(thing)} is not a compressor")
    return thing
