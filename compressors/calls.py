"""The one grammar of texts that name something and its settings: methods, controllers, networks.

    expression := part ("|" part)*
    part       := [ WORD ] [ "(" [ argument ("," argument)* [ "," ] ] ")" ]
    argument   := [ WORD "=" ] expression

A word is what stands between the marks: a name, a number, a number with its unit, a text in quotes.
Whoever reads a call says what its words mean.
"""

import re
from dataclasses import dataclass, field
from typing import Any

NAME = re.compile(r"[A-Za-z_]\w*")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_TOKEN = re.compile(r"[|(),=]|'[^']*'|\"[^\"]*\"|[^|(),='\"]+|.+", re.DOTALL)
_LETTER = re.compile(r"'[^']*'|\"[^\"]*\"|.", re.DOTALL)  # what is in quotes is one
_END, _QUOTES = "", ("'", '"')
_MARKS = (_END, *"|(),=")
_WORDS = {"true": True, "false": False, "none": None}
_DIGITS, _SHOWN = 400, 500  # of a number; characters of a text in an error


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
    return repr(text) if len(text) <= _SHOWN else f"{text[:40]!r}..."
