"""Tables for a terminal of any width: names break, columns go below, numbers stay whole."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from compressors.grammar import printable

_NUMBER = r"\d[\d.]*(?:e[-+]?\d+)?"
_LETTERS = re.compile(rf"{_NUMBER}|.")
# `sign(0.003)` with what closes or goes on behind it; or what ends in a mark, a blank or the text.
_PART = re.compile(
    r"[^\s(|,]+\([^()]*\)[^\s|,(]*(?:\s*[|,])?\s*|\(?[^\s(|,]*(?:\s*[|,]\s*|\(|\s+|$)"
)
_NAME = 8  # characters that a name has at least

Kind = Literal["number", "words", "name"]
"""What a column holds: a number never breaks, words break at blanks, a name breaks anywhere but
within a number."""

Row = tuple[Sequence[str], str]
"""The texts of a row, and its style."""


@dataclass(frozen=True)
class Column:
    """A column: its heading, the kind of its values, and whether they are aligned right."""

    heading: str
    kind: Kind = "number"
    right: bool = False

    def least(self, texts: Sequence[str]) -> int:
        """The characters that the column takes at least."""
        full = longest([self.heading, *texts])
        if self.kind == "number":
            return full
        if self.kind == "words":
            return longest(word for text in (self.heading, *texts) for word in text.split())
        return max(min(full, _NAME), longest(x for text in texts for x in _LETTERS.findall(text)))


def terminal_table(
    columns: Sequence[Column],
    rows: Sequence[Row],
    width: int,
    *,
    keys: int = 1,
    gap: int = 1,
    title: str = "",
    caption: str = "",
) -> Group:
    """A table for a terminal of `width` characters, in which no number is cut or broken.

    Where not all columns fit, however narrow their names, some go into further tables below, each
    behind the same first columns. Where not even one column fits next to those, lines are longer
    than the terminal: print with `print_whole`.

    Args:
        columns: C of them.
        rows: of C texts each; a line break within a text stays.
        keys: how many columns identify the rows; every table has them.
        gap: blanks between columns.
        title: the line above.
        caption: the line below.

    Returns:
        The title, the tables and the caption, as rich prints them below each other.
    """
    rows = [([printable(text) for text in row], style) for row, style in rows]
    texts = [[row[k] for row, _ in rows] for k in range(len(columns))]
    least = [column.least(text) for column, text in zip(columns, texts, strict=True)]
    full = [longest([column.heading, *text]) for column, text in zip(columns, texts, strict=True)]
    blocks = [[*range(keys)]]
    for place in range(keys, len(columns)):
        needed = sum(least[k] + gap for k in (*blocks[-1], place)) - gap
        if len(blocks[-1]) > keys and needed > width:
            blocks.append([*range(keys)])
        blocks[-1].append(place)
    above, below = (folded(printable(text), width) for text in (title, caption))
    parts: list[Table | Text] = [Text(above, style="table.title")] if title else []
    for number, block in enumerate(blocks):
        widths = {k: least[k] for k in block}
        left = width - gap * (len(block) - 1) - sum(widths.values())
        while left > 0 and (short := [k for k in block if widths[k] < full[k]]):
            # The remaining width goes, one by one, to the column that lacks most, names first.
            weights = {k: 4 if columns[k].kind == "name" else 1 for k in short}
            widths[max(short, key=lambda k: weights[k] * full[k] / max(1, widths[k]))] += 1
            left -= 1
        table = Table(
            box=box.SIMPLE_HEAD,
            padding=(0, gap - 1, 0, 0),
            pad_edge=False,
            show_edge=False,
            width=sum(widths.values()) + gap * (len(block) - 1),
        )
        for column, k in ((columns[k], k) for k in block):
            right = column.right or column.kind == "number"
            table.add_column(
                column.heading,
                justify="right" if right else "left",
                width=widths[k],
                overflow="fold",
                no_wrap=column.kind != "words",
            )
        for row, style in rows:  # Text, not str: a method's brackets are not markup
            cells = (
                folded(row[k], widths[k]) if columns[k].kind == "name" else row[k] for k in block
            )
            table.add_row(*map(Text, cells), style=style)
        parts += [Text(), table] if number else [table]
    return Group(*parts, *([Text(below, style="table.caption")] if caption else []))


def text_table(
    rows: Sequence[Mapping[str, str]],
    width: int,
    *,
    names: Collection[str] = (),
    words: Collection[str] = (),
    right: Collection[str] = (),
    keys: int = 1,
    gap: int = 1,
    styles: Sequence[str] = (),
    title: str = "",
    caption: str = "",
) -> Group:
    """``terminal_table`` of rows by heading; all but ``names`` and ``words`` are numbers.

    ``right``: words that are aligned right; ``gap``: blanks between columns where nothing breaks
    then, else 1; ``styles``: of the rows.
    """
    kinds: dict[str, Kind] = {**dict.fromkeys(names, "name"), **dict.fromkeys(words, "words")}
    columns = [Column(one, kinds.get(one, "number"), one in right) for one in rows[0]]
    texts = [[*row.values()] for row in rows]
    lines = list(zip(texts, styles or [""] * len(rows), strict=True))
    gap = gap if unbroken_width(rows, gap) <= width else 1
    return terminal_table(columns, lines, width, keys=keys, gap=gap, title=title, caption=caption)


def unbroken_width(rows: Sequence[Mapping[str, str]], gap: int = 1) -> int:
    """The characters that a table of rows by heading takes in which nothing breaks."""
    return sum(longest([one, *(row[one] for row in rows)]) + gap for one in rows[0]) - gap


def print_whole(console: Console, *parts: Group) -> None:
    """Prints tables below each other; a line that is longer than the terminal is not cropped."""
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(part, crop=False)


def longest(texts: Iterable[str]) -> int:
    """The terminal's columns that the longest line of `texts` takes: two per wide letter."""
    return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)


def folded(text: str, width: int) -> str:
    """`text` in lines of at most `width`: broken after `(`, `,`, `|` and blanks, and not within
    `sign(0.003)`; a part that is longer than a line breaks anywhere but within a number.

    Example:
        >>> folded("per_tensor(sign(0.003))", 16).splitlines()
        ['per_tensor(', 'sign(0.003))']
        >>> folded("gradient_dropping(0.01)", 8).splitlines()
        ['gradient', '_droppin', 'g(0.01)']
    """
    lines = []
    for paragraph in text.split("\n"):
        lines.append("")
        for part in filter(None, _PART.findall(paragraph)):
            fits = cell_len(part.rstrip()) <= width
            if not fits and lines[-1]:
                lines.append("")
            for piece in [part] if fits else _LETTERS.findall(part):
                if lines[-1] and cell_len((lines[-1] + piece).rstrip()) > width:
                    lines.append("")
                lines[-1] += piece if lines[-1] else piece.lstrip()
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, width: int) -> str:
    """Sentences for a terminal of ``width`` columns, broken at blanks; control characters shown.

    Example:
        >>> wrapped("a is better than b-1", 12)
        'a is better\\nthan b-1'
    """
    return fill(printable(text), width, break_long_words=False, break_on_hyphens=False)
