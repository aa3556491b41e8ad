"""``fedsim measure``: every method on one's own gradients, in one table."""

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from fedsim import units
from fedsim.commands.codec import add_shared, check_place, read, unwritten
from fedsim.commands.document import print_document
from fedsim.files import write_text
from fedsim.measure import Progress, choose, measure

CAPTION = (
    "Wire: whole messages, 1 kbit = 1000 bit. Ratio: 32 bits an entry over wire bits. Error: "
    "||C(x)-x|| / ||x|| of what was decoded. Times: median of the repeats, one thread, after a run "
    "that is not counted; ms, and ns an entry. Memories start empty."
)
_ABOUT = (
    "Sends each file as one update through every method and tells bits, error and time. Several "
    "files are several updates: bits, errors and times are added up."
)


def add(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "measure", help="compare methods on an update in a file", description=_ABOUT
    )
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help=".npy, .pt, .pth or .safetensors of float32"
    )
    parser.add_argument(
        "--methods", default="all", metavar="TEXT;...",
        help="methods, such as 'sbc(0.01); topk(0.1) | float32', or all: the examples of "
        "`fedsim list methods` (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--density", type=float, metavar="P", help="the fraction that published methods send, and "
        "what {p} stands for (default: as in their examples)",
    )  # fmt: skip
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="for random methods (default: 0)")
    parser.add_argument("--csv", metavar="FILE", help="write the table here too, all digits")
    add_shared(parser)
    parser.set_defaults(command=command)


def command(flags: argparse.Namespace) -> int:
    """Measures and prints the table; 1 if a method could not carry the updates."""
    choose(flags.methods, flags.density)  # a bad text is refused before files are read
    check_place(flags.csv, "--csv")
    updates = [read(file, flags).tensors for file in flags.file]
    with _bar(quiet=flags.json) as progress:
        frame = measure(
            updates, flags.methods, flags.density, flags.repeat, flags.seed, progress
        )
    if flags.csv:
        try:
            write_text(flags.csv, frame.to_csv(index=False))
        except OSError as error:
            raise unwritten("--csv", flags.csv, error) from error
    if flags.json:
        rows = frame.to_dict("records")
        print_document({
            "files": flags.file, "entries": rows[0]["entries"], "repeat": flags.repeat,
            "seed": flags.seed, "density": flags.density,
            "methods": [row | {"error": row["error"] or None} for row in rows],
        })  # fmt: skip
    else:
        console = Console()
        console.print(table(frame, console.width))
    return int(bool((frame["error"] != "").any()))


def table(frame: pd.DataFrame, width: int) -> Table:
    """The frame of ``measure`` for the terminal; narrow, a time takes two lines."""
    wide = _table(frame, stacked=False)
    return wide if Console(width=1000).measure(wide).maximum <= width else _table(frame, True)


def _three(value: float) -> str:
    """Three significant digits: `0.440`, `12.3`, `4120`."""
    if math.isnan(value):
        return ""
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def _score(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}" if value < 9.99995 else f"{value:.4g}"


def _table(frame: pd.DataFrame, stacked: bool) -> Table:
    between = "\n" if stacked else " "
    shown = Table(box=box.SIMPLE_HEAD, padding=0 if stacked else (0, 1), show_edge=False,
                  caption=Text(CAPTION), caption_justify="left",
                  title=f"{frame['entries'].iloc[0]} entries", title_justify="left")  # fmt: skip
    shown.add_column("method", overflow="fold")
    for heading in ("wire", "bits an\nentry", "ratio", "error", "cosine"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for heading in ("compress", "decompress"):
        shown.add_column(f"{heading}\nms{between}ns/entry", justify="right", no_wrap=True)
    for _, row in frame.iterrows():
        times = [
            between.join((_three(row[f"{way}_ms"]), _three(row[f"{way}_ns_per_entry"])))
            for way in ("compress", "decompress")
        ]
        name = f"{row['method']}\n{row['error']}" if row["error"] else row["method"]
        cells = (
            name, units.bits(row["wire_bits"]), _three(row["bits_per_entry"]),
            units.ratio(row["ratio"]), _score(row["relative_error"]), _score(row["cosine"]), *times,
        )  # fmt: skip
        # Text, not str: a method's brackets are no markup.
        shown.add_row(*map(Text, cells), style="red" if row["error"] else "")
    return shown


@contextmanager
def _bar(quiet: bool) -> Iterator[Progress]:
    """A bar over the methods on stderr while it lasts, where that is a terminal."""
    console = Console(stderr=True, quiet=quiet)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")
        yield lambda done, total, name: bar.update(
            task, completed=done, total=total, description=name.replace("[", r"\[")
        )
