"""Output to terminals whose encoding lacks letters that fedsim writes, such as ASCII."""

import codecs
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper

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
    """Inside, letters that stdout's encoding lacks are written in ASCII; else they are an error.

    Example:
        >>> from io import BytesIO
        >>> from contextlib import redirect_stdout
        >>> terminal = TextIOWrapper(BytesIO(), encoding="ascii")
        >>> with redirect_stdout(terminal), every_letter_shown():
        ...     print("9 µs – 1 é", flush=True)
        >>> terminal.buffer.getvalue()
        b'9 us - 1 \\\\xe9\\n'
    """
    stream = sys.stdout
    if not isinstance(stream, TextIOWrapper) or stream.errors != "strict":
        yield
        return
    stream.reconfigure(errors="fedsim")
    try:
        yield
    finally:
        stream.reconfigure(errors="strict")
