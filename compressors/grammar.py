"""The one grammar of texts that name something and its settings: read, and printed again.

    expression := part ("|" part)*
    part       := [ WORD ] [ "(" [ argument ("," argument)* [ "," ] ] ")" ]
    argument   := [ WORD "=" ] expression

A word is what stands between the marks: a name, a number, a number with its unit, a text in quotes.
Methods, controllers and networks are read by it, and whoever reads a call says what its words mean.

The text form of a compressor, as people type it, and the JSON form of the same: ``topk(0.01) |
float32 | golomb`` is a pipeline; as a whole method it means ``per_tensor(...)`` of it. A published
method is a name that prints its expansion: ``sbc(0.01)`` prints
``ef(per_tensor(one_sided(0.01) | mean | golomb), mask=true)``. ``parse(text(c)) == c``.

A class carries its name as ``codec_id``, so that printing knows of no class and of no table: it
is on the ground floor, where errors need it. ``compressors.parsing`` makes compressors of calls.
"""

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import Field, dataclass, field, fields, is_dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any
from unicodedata import category

NAME = re.compile(r"[A-Za-z_]\w*")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(r"[|(),=]|'[^']*'|\"[^\"]*\"|[^|(),='\"]+|.+", re.DOTALL)
_LETTER = re.compile(r"'[^']*'|\"[^\"]*\"|.", re.DOTALL)  # what is in quotes is one
_END, _QUOTES = "", ("'", '"')
_MARKS = (_END, *"|(),=")
_WORDS = {"true": True, "false": False, "none": None}
_DIGITS, _LONGEST = 400, 500  # of a number; characters of a text in an error


@dataclass(frozen=True)
class Call:
    """A name and what is given to it; a word alone, too.

    Args:
        name: ``|`` where ``arguments`` are the parts of an expression that has several.
        arguments: arguments without a name, in their order.
        named: arguments with one.
        called: whether there are parentheses.
    """

    name: str
    arguments: "list[Call]" = field(default_factory=list)
    named: "dict[str, Call]" = field(default_factory=dict)
    called: bool = False

    def __str__(self) -> str:
        if self.name == "|":
            return " | ".join(map(str, self.arguments))
        named = (f"{key}={one}" for key, one in self.named.items())
        arguments = [*map(str, self.arguments), *named]
        return f"{self.name}({', '.join(arguments)})" if self.called else self.name


def read_call(source: str) -> Call:
    """The call that a text is; ``ValueError`` with the place where it is none.

    Example:
        >>> call = read_call("warmup(20, first=0.25)")
        >>> call.name, str(call.arguments[0]), str(call.named["first"])
        ('warmup', '20', '0.25')
    """
    tokens = [_END, *filter(None, map(str.strip, reversed(_TOKEN.findall(source))))]
    for token in tokens:
        if token[:1] in _QUOTES and (len(token) == 1 or token[-1] != token[0]):
            raise ValueError(f"cannot read {shortened(token)}")
    try:
        call = _expression(tokens)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if tokens[-1] != _END:
        raise ValueError(f"unexpected {shortened(tokens[-1])}")
    return call


def _expression(left: list[str]) -> Call:
    """The next expression of what is left, the last token first."""
    parts = [_part(left)]
    while left[-1] == "|":
        left.pop()
        parts.append(_part(left))
    return parts[0] if len(parts) == 1 else Call("|", parts)


def _part(left: list[str]) -> Call:
    name = "" if left[-1] in _MARKS else left.pop()
    if left[-1] != "(":
        if not name:
            raise ValueError(f"expected a name before {left[-1] or 'the end'!r}")
        return Call(name)
    call = Call(name, called=True)
    left.pop()
    while left[-1] != ")":
        if left[-1] == _END:
            raise ValueError(f"')' is missing: {shortened(name)[1:-1]}( is not closed")
        key = ""
        if left[-2] == "=":
            key, _ = left.pop(), left.pop()
        if key in call.named:
            raise ValueError(f"{key} is given twice")
        argument = _expression(left)
        if key:
            call.named[key] = argument
        else:
            call.arguments.append(argument)
        if left[-1] == ",":
            left.pop()
        elif left[-1] not in (_END, ")"):
            raise ValueError(f"expected ',' before {shortened(left[-1])}")
    left.pop()
    return call


def value(word: str) -> Any:
    """What a word says: a number, a text in quotes, true, false or none, else a name.

    Raises ``ValueError`` where it is none of these.

    Example:
        >>> value("1e-2"), value("'a b'"), value("true"), value("model")
        (0.01, 'a b', True, 'model')
    """
    if word[:1] in _QUOTES:
        return word[1:-1]
    if NUMBER.fullmatch(word):
        if len(word) > _DIGITS:
            raise ValueError(f"a number of {len(word)} digits")
        return int(word) if word.lstrip("+-").isdigit() else float(word)
    if NAME.fullmatch(word):
        return _WORDS.get(word.lower(), word)
    raise ValueError(f"cannot read {shortened(word)}")


def split_text(text: str, mark: str = ",") -> list[str]:
    """The parts between the marks outside of parentheses and quotes.

    Example:
        >>> split_text("sbc, deepreduce(0.1, bloom_p0)")
        ['sbc', 'deepreduce(0.1, bloom_p0)']
    """
    parts, depth = [""], 0
    for letter in _LETTER.findall(text):
        depth += (letter == "(") - (letter == ")")
        if letter == mark and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def shortened(text: str) -> str:
    """A text in an error: its beginning where it is long."""
    return repr(text) if len(text) <= _LONGEST else f"{text[:40]!r}..."


_PACKAGE = __name__.partition(".")[0] + "."
_SHOWN = 200  # characters of a part in an error

OF_SENDER = {"of_sender": True}
"""The metadata of a dataclass's field on which no message depends: what a sender does with its own
optimizer (``ef``'s ``mask``)."""


def text(thing: Any) -> str:
    """The text form of a compressor or of a part of one.

    Raises ``ValueError`` for an object whose class has no name.

    Example:
        >>> from compressors import parse
        >>> text(parse("gradient_dropping(0.1, scope=model)"))
        'ef(flat(topk(0.1) | float32 | golomb))'
    """
    return _text(thing, fields)


def message_text(thing: Any) -> str:
    """The text of what a compressor's messages depend on: ``text`` without what is its sender's.

    Example:
        >>> from compressors import parse
        >>> text(parse("ef(cnat, mask=true)")), message_text(parse("ef(cnat, mask=true)"))
        ('ef(per_tensor(cnat), mask=true)', 'ef(per_tensor(cnat))')
    """
    return _text(thing, _of_messages)


def _text(thing: Any, chosen: Callable[[Any], tuple[Field[Any], ...]]) -> str:
    """The text form with the ``chosen`` fields of each dataclass."""
    inner = partial(_text, chosen=chosen)
    if hasattr(type(thing), "text_parts"):  # a pipeline is written as its parts
        return " | ".join(map(inner, thing.text_parts()))
    name, settings = name_of(thing), _settings(thing, inner, chosen(thing))
    return f"{name}({', '.join(settings)})" if settings else name


def _of_messages(thing: Any) -> tuple[Field[Any], ...]:
    return tuple(one for one in fields(thing) if not OF_SENDER.items() <= one.metadata.items())


def short_text(method: Any) -> str:
    """The text of a whole method as people type it: without ``per_tensor``, which it means anyway.

    Example:
        >>> from compressors import parse
        >>> short_text(parse("ef(topk(0.1) | float32)"))
        'ef(topk(0.1) | float32 | golomb)'
    """
    if is_foreign(method):
        return text(method)
    name = name_of(method)
    if name == "per_tensor":
        return text(method.codec)
    if name not in ("ef", "by_name"):  # these take whole methods
        return text(method)
    return f"{name}({', '.join(_settings(method, short_text, fields(method)))})"


def name_of(thing: Any) -> str:
    """The name of an object's class, which is the name of its row; ``ValueError`` if it has none.

    A class does not inherit its name: a subclass is another method.
    """
    name = vars(type(thing)).get("codec_id")
    if isinstance(name, str):
        return name
    printed = type(thing).__name__ if is_dataclass(thing) else _one_line(thing)
    raise ValueError(f"{printed} is not in the catalogue: add a row for {type(thing).__name__}")


def is_foreign(thing: Any) -> bool:
    """Whether the class itself, apart from its parts, comes from outside this package."""
    return not type(thing).__module__.startswith(_PACKAGE)


def plain_text(text: str) -> str:
    """The text itself where it is of a subclass of ``str``, whose ``repr`` or ``str`` may differ.

    Example:
        >>> from enum import StrEnum
        >>> repr(plain_text(StrEnum("Name", {"W": "w"}).W))
        "'w'"
    """
    return str.__str__(text)


def printable(text: str) -> str:
    """``text`` as a terminal can be sent it: control characters but line breaks as escapes.

    The text of a file, a folder's name or a client may clear a screen, move its cursor or turn the
    direction of what is read.

    Example:
        >>> printable("label \\x1b[2J"), printable("a – b")
        ('label \\\\x1b[2J', 'a – b')
    """
    return "".join(
        c.encode("unicode_escape").decode() if _is_control(c) and c != "\n" else c for c in text
    )


def _is_control(letter: str) -> bool:
    """Whether a letter moves a terminal's cursor, turns its direction, or ends its line."""
    return category(letter)[0] == "C" or category(letter) in ("Zl", "Zp")


def shown(thing: object) -> str:
    """A thing in an error, on one line: a part as people type it, anything else as Python does.

    Example:
        >>> from compressors import TopK
        >>> shown(TopK(0.1)), shown("topk"), shown(None)
        ('topk(0.1)', "'topk'", 'None')
    """
    try:
        printed = _value(thing, text) if isinstance(thing, float) else text(thing)
    except ValueError:
        if isinstance(thing, type):
            printed = thing.__name__
        else:
            printed = type(thing).__name__ if is_dataclass(thing) else _one_line(thing)
    return printed if len(printed) <= _SHOWN else printed[: _SHOWN - 3] + "..."


def to_json(thing: Any) -> Any:
    """Plain JSON values from which ``from_json`` rebuilds an equal object."""
    if isinstance(thing, tuple):
        return [to_json(value) for value in thing]
    if thing is None or isinstance(thing, bool):
        return thing
    if isinstance(thing, str):
        return plain_text(thing)
    if isinstance(thing, int | float):
        return int(thing) if isinstance(thing, int) else float(thing)  # numpy's are floats too
    settings = {field.name: to_json(getattr(thing, field.name)) for field in fields(thing)}
    return {"name": name_of(thing)} | settings


def _one_line(thing: object) -> str:
    return " ".join(repr(thing)[: 2 * _SHOWN].split())


def _settings(thing: Any, inner: Callable[[Any], str], chosen: tuple[Field[Any], ...]) -> list[str]:
    """What differs from the defaults: by place as long as nothing is left out, then by name."""
    printed, by_place = [], True
    for setting in chosen:
        value = getattr(thing, setting.name)
        if value == setting.default:
            by_place = False
        else:
            value = _value(value, inner)
            printed.append(value if by_place else f"{setting.name}={value}")
    return printed


def _value(value: Any, inner: Callable[[Any], str]) -> str:
    if isinstance(value, tuple):
        return ", ".join(_value(part, inner) for part in value)
    if isinstance(value, str):
        value = plain_text(value)
        for quote in "'\"":  # the grammar has no escapes
            if quote not in value:
                return f"{quote}{value}{quote}"
        raise ValueError(f"{value!r} holds both kinds of quotes: it has no text form")
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(int(value) if isinstance(value, int) else float(value))  # not as numpy does
    return inner(value)


def fingerprint(method: Any, template: Mapping[str, Any]) -> int:
    """16 bits of a method's text and of the tensors' names and shapes, which a message begins with.

    The text is that of ``message_text``: both ends of a message need not agree on the rest.

    Args:
        method: a compressor, or a part of one.
        template: anything with a ``shape``, by name.
    """
    tensors = [(plain_text(name), tuple(map(int, x.shape))) for name, x in template.items()]
    return _hash(method, tuple(tensors))


@lru_cache(maxsize=256)
def _hash(method: Hashable, tensors: tuple[tuple[str, tuple[int, ...]], ...]) -> int:
    # as messages have always had it
    layout = f"_Layout(method={message_text(method)!r}, tensors={tensors!r})"
    return int.from_bytes(blake2b(layout.encode(), digest_size=2).digest(), "big")
