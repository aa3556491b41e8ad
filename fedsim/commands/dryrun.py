"""``--dry-run``: what runs will take, before anything is written."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fedsim.commands.document import print_document
from fedsim.settings.config import RunConfig

NOTE = (
    "Estimates, from a few local iterations and one message of each kind on this machine. Bits are "
    "of the payloads of a client of every round. Links, controllers and a stop at bits or time are "
    "not in them."
)


def add_dry_run(parser: Any) -> None:
    """Adds the flag."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what the runs will take (rounds, bits, time), and run nothing",
    )


def print_estimates(runs: Mapping[str, RunConfig], jobs: int | None, json: bool) -> int:
    """Prints the estimates of runs by name; ``jobs``: at the same time, None: one per core."""
    from fedsim.ground.files import cores
    from fedsim.runs.estimates import Trials

    trials = Trials()
    estimates = {name: trials.of(config) for name, config in runs.items()}
    at_once = min(len(estimates), jobs or cores())
    seconds = sum(one.seconds for one in estimates.values()) / at_once
    if json:
        listed = [{"name": name} | asdict(one) for name, one in estimates.items()]
        print_document({"seconds": seconds, "runs": listed})
        return 0
    from rich.console import Console

    from fedsim.ground.units import bits, duration
    from fedsim.show.layout import Column, Row, print_whole, terminal_table

    rows: list[Row] = [
        ((name, str(one.rounds), bits(one.up_bits), bits(one.down_bits), duration(one.seconds)), "")
        for name, one in estimates.items()
    ]
    headings = ("rounds", "bits up", "bits down", "time")
    columns = (Column("run", "name"), *(Column(name, right=True) for name in headings))
    console = Console()
    print_whole(console, terminal_table(columns, rows, console.width, gap=2, caption=NOTE))
    several = f"{len(estimates)} runs, {at_once} at a time" if len(estimates) > 1 else "1 run"
    print(f"{several}: about {duration(seconds)}")
    return 0
