"""Output to terminals: lines end between words, and letters that an encoding lacks have others."""

import codecs
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import IO

_IN_ASCII = str.maketrans({
    "–": "-", "·": "|", "×": "x", "±": "+-", "…": "...", "µ": "u", "→": "->", "≥": ">=", "≤": "<=",
    "∞": "inf", "²": "^2", "√": "sqrt", "−": "-", "█": "#", "━": "-",
})  # fmt: skip


def _replaced(error: UnicodeError) -> tuple[str | bytes, int]:
    """What stands for letters that an encoding lacks: others like them, else their escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end].translate(_IN_ASCII)
    return lacking.encode("ascii", "backslashreplace").decode("ascii"), error.end


codecs.register_error("fedsim", _replaced)


@contextmanager
def every_letter_shown() -> Iterator[None]:
    """Inside, letters that stdout's encoding lacks are written in ASCII; else they are an error."""
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="fedsim")
    try:
        yield
    finally:
        stream.reconfigure(errors="strict")


def wrap_words(text: str, stream: IO[str]) -> str:
    """Lines that end between words if the stream is a terminal, which cuts words; else the text.

    Words that are longer than the terminal is wide stay whole, so that a path can be copied.
    """
    if not stream.isatty():
        return text
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size().columns, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(part for line in text.splitlines() for part in wrapper.wrap(line) or [""])
