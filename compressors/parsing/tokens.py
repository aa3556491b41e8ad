"""A method's text as tokens: names, numbers, quoted texts and marks."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from compressors.catalogue import CATALOGUE
from compressors.errors import MethodError

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<text>'[^']*'|\"[^\"]*\")|(?P<name>[A-Za-z_]\w*)|(?P<mark>[|(),=])"
    r"|(?P<fraction>\{p\}))"
)
_SHOWN = 500  # characters of a text in an error


class Tokens:
    """Goes through a text token by token: ``kind`` and ``value`` are those of the present one.

    ``kind`` is ``number``, ``text`` (with its quotes), ``name``, ``mark``, ``fraction`` (``{p}``,
    whose value is ``p``) or ``end``.
    """

    def __init__(self, source: str, p: float | None = None) -> None:
        self.source, self.p, self._at = source, p, 0
        self.kind, self.value = "end", ""
        self.advance()

    def advance(self) -> str:
        """Moves to the next token and returns the value of the one left behind."""
        left = self.value
        rest = self.source[self._at :]
        if not rest.strip():
            self.kind, self.value = "end", ""
            return left
        token = _TOKEN.match(rest)
        if not token or token.lastgroup is None:
            raise self.error(f"cannot read {start(rest.strip())}")
        self._at += token.end()
        self.kind, self.value = token.lastgroup, token[token.lastgroup]
        return left

    def expect(self, mark: str) -> None:
        """Moves on from ``mark``; ``MethodError`` where another token stands."""
        if self.value != mark:
            raise self.error(f"expected {mark!r} before {self.value or 'the end'!r}")
        self.advance()

    def is_key(self) -> bool:
        """Whether the present token is the name of a setting, in front of its value."""
        return self.kind == "name" and self.source[self._at :].lstrip().startswith("=")

    def error(self, reason: str) -> MethodError:
        """The error that says what is wrong with this text."""
        return MethodError(f"method {start(self.source)}: {reason}")

    @contextmanager
    def named(self) -> Iterator[None]:
        """Errors of what is made meanwhile start with this text."""
        try:
            yield
        except MethodError:
            raise
        except ValueError as error:
            raise self.error(str(error)) from error

    def unknown(self, name: str) -> MethodError:
        """The error for a name that no row has."""
        near = get_close_matches(name.lower(), CATALOGUE, n=1)
        some = "known are sbc, gradient_dropping, raw, ...: "
        guess = f"did you mean {near[0]!r}? " if near else some
        return self.error(f"unknown name {name!r}: {guess}`fedsim list methods` prints them all")


def start(source: str) -> str:
    """A text in an error: its beginning where it is long."""
    return repr(source) if len(source) <= _SHOWN else f"{source[:40]!r}..."
