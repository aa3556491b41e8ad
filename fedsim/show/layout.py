"""Tables for a terminal of any width: names break, columns go below, numbers stay whole."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from compressors.printing import printable

_NUMBER = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")
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

    def least(self, texts: Iterable[str]) -> int:
        """The characters that the column takes at least."""
        if self.kind == "number":
            return longest([self.heading, *texts])
        if self.kind == "words":
            return longest(w for text in (self.heading, *texts) for w in text.split())
        digits = (number for text in texts for number in _NUMBER.findall(text))
        return max(min(longest([self.heading, *texts]), _NAME), longest(digits))


@dataclass(frozen=True)
class TerminalTable:
    """A table, or several below each other, that print as wide as they must be.

    Attributes:
        tables: each with the characters that it takes.
        title, caption: lines above and below.
    """

    tables: Sequence[tuple[Table, int]]
    title: str = ""
    caption: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        if self.title:
            yield Text(folded(self.title, width), style="table.title")
        for number, (table, needed) in enumerate(self.tables):
            if number:
                yield Text()
            yield from console.render(table, options.update(width=max(width, needed)))
        if self.caption:
            lines = (folded(line, width) for line in self.caption.split("\n"))
            yield Text("\n".join(lines), style="table.caption")


def terminal_table(
    columns: Sequence[Column], rows: Sequence[Row], width: int, *,
    keys: int = 1, gap: int = 1, title: str = "", caption: str = "",
) -> TerminalTable:  # fmt: skip
    """A table for a terminal of `width` characters, in which no number is cut or broken.

    Where not all columns fit, however narrow their names, some go into further tables below, each
    behind the same first columns. Where not even one column fits next to those, lines are longer
    than the terminal: print with `print_whole`.

    Args:
        columns: C of them.
        rows: of C texts each; a line break within a text stays.
        keys: how many columns identify the rows; every table has them.
        gap: blanks between columns.
        title, caption: lines above and below.
    """
    rows = [([printable(text) for text in row], style) for row, style in rows]
    texts = [[row[k] for row, _ in rows] for k in range(len(columns))]
    least = [column.least(text) for column, text in zip(columns, texts, strict=True)]
    blocks = [[*range(keys)]]
    for place in range(keys, len(columns)):
        block_columns = [*blocks[-1], place]
        if len(blocks[-1]) > keys and _sum((least[k] for k in block_columns), gap) > width:
            blocks.append([*range(keys)])
        blocks[-1].append(place)
    tables = []
    for block in blocks:
        full = {k: longest([columns[k].heading, *texts[k]]) for k in block}
        names = {k for k in block if columns[k].kind == "name"}
        left = width - gap * (len(block) - 1)
        widths = {k: least[k] for k in block}
        for _ in range(max(0, left - sum(widths.values()))):
            short = [k for k in widths if widths[k] < full[k]]
            if not short:
                break
            # The remaining width goes, one by one, to the column that lacks most, names first.
            k = max(short, key=lambda k: (4 if k in names else 1) * full[k] / max(1, widths[k]))
            widths[k] += 1
        table = Table(
            box=box.SIMPLE_HEAD, padding=(0, gap - 1, 0, 0), pad_edge=False, show_edge=False
        )
        for k, column_width in widths.items():
            column = columns[k]
            right = column.right or column.kind == "number"
            table.add_column(
                column.heading, justify="right" if right else "left", width=column_width,
                overflow="fold", no_wrap=column.kind != "words",
            )  # fmt: skip
        for row, style in rows:  # Text, not str: a method's brackets are not markup
            cells = (
                folded(row[k], column_width) if k in names else row[k]
                for k, column_width in widths.items()
            )
            table.add_row(*map(Text, cells), style=style)
        tables.append((table, _sum(widths.values(), gap)))
    return TerminalTable(tables, printable(title), printable(caption))


def unbroken_width(columns: Sequence[Column], rows: Sequence[Row], gap: int = 1) -> int:
    """The characters that a table takes in which nothing breaks."""
    texts = ([column.heading, *(row[k] for row, _ in rows)] for k, column in enumerate(columns))
    return _sum(map(longest, texts), gap)


def print_whole(console: Console, *parts: TerminalTable) -> None:
    """Prints tables below each other; a line that is longer than the terminal is not cropped."""
    for number, part in enumerate(parts):
        if number:
            console.print()
        console.print(part, crop=False)


def longest(texts: Iterable[str]) -> int:
    """The length of the longest line of `texts`."""
    return max((len(line) for text in texts for line in text.split("\n")), default=0)


def folded(text: str, width: int) -> str:
    """`text` in lines of at most `width`: broken between parts (`broken`), else anywhere but within
    a number.

    Example:
        >>> folded("gradient_dropping(0.01)", 8).splitlines()
        ['gradient', '_droppin', 'g(0.01)']
    """
    lines = []
    for line in (
        line for paragraph in text.split("\n") for line in broken(paragraph, width).split("\n")
    ):
        start = 0
        while len(line) - start > width:
            end = start + width
            numbers = (m for m in _NUMBER.finditer(line, start) if m.start() < end < m.end())
            end = next((m.start() for m in numbers if m.start() > start), end)
            lines.append(line[start:end])
            start = end
        lines.append(line[start:])
    return "\n".join(lines)


def broken(method: str, width: int) -> str:
    """A method's text in lines of at most `width`: broken after `(`, `,`, `|` and blanks, and not
    within `sign(0.003)`; a part that is longer stays as it is.

    Example:
        >>> print(broken("per_tensor(sign(0.003))", 16))
        per_tensor(
        sign(0.003))
    """
    lines = [""]
    for part in filter(None, _PART.findall(method)):
        if len((lines[-1] + part).rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.rstrip() for line in lines)


def wrapped(text: str, width: int) -> str:
    """Sentences for a terminal of ``width`` columns, broken at blanks; control characters shown.

    Example:
        >>> wrapped("a is better than b-1", 12)
        'a is better\\nthan b-1'
    """
    return fill(printable(text), width, break_long_words=False, break_on_hyphens=False)


def _sum(widths: Iterable[int], gap: int) -> int:
    sizes = list(widths)
    return sum(sizes) + gap * (len(sizes) - 1)
