"""Sentences of pages, which are written from the CSV files."""

from collections.abc import Iterable
from textwrap import fill


def wrap(text: str, follows: str = "") -> str:
    """Lines of at most 120 characters; ``follows`` begins the second and later ones."""
    return fill(
        text, 120, subsequent_indent=follows, break_long_words=False, break_on_hyphens=False
    )


def quoted(*paragraphs: str) -> str:
    """A block quote."""
    return "\n>\n".join(wrap(f"> {text}", "> ") for text in paragraphs)


def bullets(*texts: str) -> str:
    """A list."""
    return "\n".join(wrap(f"* {text}", "  ") for text in texts)


def listed(names: Iterable[str]) -> str:
    """Names as code, with commas and an `and`; ``none`` where there is none."""
    *some, last = [f"`{name}`" for name in names] or ["none"]
    return f"{', '.join(some)} and {last}" if some else last
