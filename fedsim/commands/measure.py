"""``fedsim measure``: every method, or every coder, on the user's own gradients, in one table."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fedsim.commands.codec import add_shared, check_place, read_tensors
from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError, writable
from fedsim.measure import POSITIONS_OF, SYMBOLS_OF
from fedsim.settings.declarations import flag

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.measure.coders import CoderPlan
    from fedsim.measure.methods import Progress

_CODED = {"positions_of": POSITIONS_OF, "symbols_of": SYMBOLS_OF}
_ABOUT = (
    "Sends each file as one update through every method and prints bits, error and time. With "
    "several files, bits, errors and times are added up."
)


def add_measure(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "measure", help="compare methods on an update in a file", description=_ABOUT
    )
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help=".npy, .pt, .pth or .safetensors of float32"
    )
    parser.add_argument(
        "--methods",
        metavar="TEXT;...",
        help="methods, such as 'sbc(0.01); topk(0.1) | float32', or all: the examples of "
        "`fedsim list methods` (default: all)",
    )
    parser.add_argument(
        "--density",
        type=float,
        metavar="P",
        help="the fraction that published methods send, and "
        "what {p} stands for (default: as in their examples; 0.01 with --coders)",
    )
    parser.add_argument(
        "--coders",
        metavar="TEXT;...",
        help="measure coders of positions and symbols instead, such as 'golomb; ans', or all",
    )
    parser.add_argument(
        "--positions-of",
        metavar="TEXT",
        help=f"the method whose positions --coders code (default: '{POSITIONS_OF}')",
    )
    parser.add_argument(
        "--symbols-of",
        metavar="TEXT",
        help=f"the method whose symbols --coders code (default: '{SYMBOLS_OF}')",
    )
    parser.add_argument("--repeat", type=int, default=3, help="timed runs (default: 3)")
    parser.add_argument("--seed", type=int, default=0, help="for random methods (default: 0)")
    parser.add_argument("--csv", metavar="FILE", help="write the table there too, with all digits")
    add_shared(parser)
    parser.set_defaults(command=_command, extra="report")


def _command(flags: argparse.Namespace) -> int:
    """Measures and prints the table; 1 if a method or coder could not carry the updates."""
    from fedsim.measure.coders import measure_coders
    from fedsim.measure.methods import measure

    plan = _checked(flags)  # a bad text is refused before files are read
    check_place(flags.csv, "--csv")
    updates = [read_tensors(file, flags).tensors for file in flags.file]
    shared: dict[str, Any] = {"density": flags.density, "repeat": flags.repeat, "seed": flags.seed}
    with _progress(flags.json) as progress:
        if plan is None:
            frame = measure(updates, flags.methods or "all", progress=progress, **shared)
        else:
            coded_of = _coded(flags)
            frame = measure_coders(updates, flags.coders, progress=progress, **coded_of, **shared)
    if flags.csv:
        with writable("--csv", flags.csv):
            from fedsim.ground.files import write_text

            write_text(flags.csv, frame.to_csv(index=False))
    if flags.json:
        entries = sum(x.numel() for update in updates for x in update.values())
        rows = [row | {"error": row["error"] or None} for row in frame.to_dict("records")]
        coded = {} if plan is None else {name: getattr(plan, name) for name in _CODED}
        named = {"methods" if plan is None else "coders": rows}
        print_document({"files": flags.file, "entries": entries} | shared | coded | named)
    else:
        _print(frame, plan)
    return int(bool((frame["error"] != "").any()))


def _checked(flags: argparse.Namespace) -> CoderPlan | None:
    """The coders that are measured; None: whole methods are. ``UsageError`` for a bad text."""
    from fedsim.measure.coders import choose_coders
    from fedsim.measure.inputs import choose

    if flags.coders is None:
        for name in _CODED:
            if getattr(flags, name) is not None:
                raise UsageError(f"{flag(name)} is {getattr(flags, name)!r}: it goes with --coders")
        choose(flags.methods or "all", flags.density)
        return None
    if flags.methods is not None:
        raise UsageError(f"--methods is {flags.methods!r} and --coders {flags.coders!r}: give one")
    return choose_coders(flags.coders, density=flags.density, **_coded(flags))


def _coded(flags: argparse.Namespace) -> dict[str, Any]:
    """The methods whose positions and symbols are coded, as arguments."""
    return {name: getattr(flags, name) or usual for name, usual in _CODED.items()}


@contextmanager
def _progress(quiet: bool) -> Iterator[Progress]:
    """A bar on a terminal's stderr, while methods or coders are measured."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    tell = Console(stderr=True, quiet=quiet)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=tell, transient=True, disable=not tell.is_terminal) as bar:
        task = bar.add_task("")

        def progress(done: int, total: int, name: str) -> None:
            name = name.replace("[", r"\[")
            bar.update(task, completed=done, total=total, description=name)

        yield progress


def _print(frame: pd.DataFrame, plan: CoderPlan | None) -> None:
    from rich.console import Console

    from fedsim.commands.measuretables import advice, coders_tables, measured_table
    from fedsim.show.layout import print_whole

    console = Console()
    if plan is not None:
        print_whole(console, *coders_tables(frame, plan, console.width))
        return
    print_whole(console, measured_table(frame, console.width))
    if words := advice(frame, console.width):
        console.print(f"\n{words}", highlight=False, markup=False, soft_wrap=True)
