"""``fedsim measure``: every method, or every coder, on the user's own gradients, in one table."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsim.commands.codec import add_shared, check_place, read_tensors
from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError, writable
from fedsim.measure import POSITIONS_OF, SYMBOLS_OF
from fedsim.settings.declarations import flag

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group

    from compressors import Tensors
    from fedsim.measure.methods import Progress

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


class _Job(NamedTuple):
    measure: Callable[[Sequence[Tensors], Progress], pd.DataFrame]
    settings: dict[str, Any]  # for ``--json``
    rows: str  # the key of the rows in ``--json``
    table: Callable[[pd.DataFrame, int], list[Group]]


def _command(flags: argparse.Namespace) -> int:
    """Measures and prints the table; 1 if a method or coder could not carry the updates."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    from fedsim.commands.measuretables import advice
    from fedsim.show.layout import print_whole

    job = _methods(flags) if flags.coders is None else _coders(flags)
    check_place(flags.csv, "--csv")
    updates = [read_tensors(file, flags).tensors for file in flags.file]
    tell = Console(stderr=True, quiet=flags.json)
    columns = (BarColumn(bar_width=24), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=tell, transient=True, disable=not tell.is_terminal) as bar:
        task = bar.add_task("")
        frame = job.measure(
            updates,
            lambda done, total, name: bar.update(
                task, completed=done, total=total, description=name.replace("[", r"\[")
            ),
        )
    if flags.csv:
        with writable("--csv", flags.csv):
            from fedsim.ground.files import write_text

            write_text(flags.csv, frame.to_csv(index=False))
    if flags.json:
        entries = sum(x.numel() for update in updates for x in update.values())
        print_document(
            {
                "files": flags.file,
                "entries": entries,
                "repeat": flags.repeat,
                "seed": flags.seed,
                "density": flags.density,
                **job.settings,
                job.rows: [
                    row | {"error": row["error"] or None} for row in frame.to_dict("records")
                ],
            }
        )
    else:
        console = Console()
        print_whole(console, *job.table(frame, console.width))
        if job.rows == "methods" and (words := advice(frame, console.width)):
            console.print(f"\n{words}", highlight=False, markup=False, soft_wrap=True)
    return int(bool((frame["error"] != "").any()))


def _methods(flags: argparse.Namespace) -> _Job:
    """Whole methods; a bad text is refused before files are read."""
    from fedsim.commands.measuretables import measured_table
    from fedsim.measure.inputs import choose
    from fedsim.measure.methods import measure

    for name in ("positions_of", "symbols_of"):
        if getattr(flags, name) is not None:
            raise UsageError(f"{flag(name)} is {getattr(flags, name)!r}: it goes with --coders")
    methods = flags.methods or "all"
    choose(methods, flags.density)
    return _Job(
        lambda updates, progress: measure(
            updates, methods, flags.density, flags.repeat, flags.seed, progress
        ),
        {},
        "methods",
        lambda frame, width: [measured_table(frame, width)],
    )


def _coders(flags: argparse.Namespace) -> _Job:
    """Coders; bad texts are refused before files are read."""
    from fedsim.commands.measuretables import coders_tables
    from fedsim.measure.coders import choose_coders, measure_coders

    if flags.methods is not None:
        raise UsageError(f"--methods is {flags.methods!r} and --coders {flags.coders!r}: give one")
    settings = {
        "positions_of": flags.positions_of or POSITIONS_OF,
        "symbols_of": flags.symbols_of or SYMBOLS_OF,
    }
    plan = choose_coders(flags.coders, density=flags.density, **settings)
    return _Job(
        lambda updates, progress: measure_coders(
            updates,
            flags.coders,
            density=flags.density,
            repeat=flags.repeat,
            seed=flags.seed,
            progress=progress,
            **settings,
        ),
        {"positions_of": plan.positions_of, "symbols_of": plan.symbols_of},
        "coders",
        lambda frame, width: coders_tables(frame, plan, width),
    )
