"""What several commands print: a JSON document, the page in a browser, estimates of runs."""

import json
import math
import sys
import webbrowser
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compressors.grammar import printable
from fedsim.ground.terminal import wrap_words
from fedsim.settings.config import RunConfig

if TYPE_CHECKING:
    import pandas as pd

NOTE = (
    "Estimates, from a few local iterations and one message of each kind on this machine. Bits are "
    "of the payloads of a client of every round. Links, controllers and a stop at bits or time are "
    "not in them."
)


def print_document(document: Any) -> None:
    """Prints one JSON document; NaN and infinities are null, as JSON has neither."""
    print(json.dumps(_plain(document)))


def records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table as JSON has them: None where there is no number."""
    return list(table.astype(object).where(table.notna(), None).to_dict("records"))


def say_on(console: Any, line: str) -> None:
    """Prints a line of progress on a console of rich, wrapped to it, as it is."""
    words = wrap_words(printable(line), console.file)
    console.print(words, highlight=False, markup=False, soft_wrap=True)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def add_open(parser: Any) -> None:
    """Adds the flag."""
    parser.add_argument("--open", action="store_true", help="open report.html in a browser")


def open_page(page: Path) -> bool:
    """Whether a browser opens the page; a line on stderr has the reason where none does."""
    if not page.is_file():
        cause = f"{page} does not exist"
    elif webbrowser.open(page.resolve().as_uri()):
        return True
    else:
        cause = f"no browser on this machine; the page is {page}"
    print(printable(f"--open: {cause}"), file=sys.stderr)
    return False


def add_dry_run(parser: Any) -> None:
    """Adds the flag."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="print what the runs will take (rounds, bits, time), and run nothing",
    )


def print_estimates(runs: Mapping[str, RunConfig], jobs: int | None, as_json: bool) -> int:
    """Prints the estimates of runs by name; ``jobs``: at the same time, None: one per core."""
    from fedsim.ground.files import cores
    from fedsim.runs.estimates import Trials

    trials = Trials()
    estimates = {name: trials.of(config) for name, config in runs.items()}
    at_once = min(len(estimates), jobs or cores())
    seconds = sum(one.seconds for one in estimates.values()) / at_once
    if as_json:
        listed = [{"name": name} | asdict(one) for name, one in estimates.items()]
        print_document({"seconds": seconds, "runs": listed})
        return 0
    from rich.console import Console

    from fedsim.ground.units import bits, duration
    from fedsim.show.layout import print_whole, text_table

    texts = [
        {
            "run": name,
            "rounds": str(one.rounds),
            "bits up": bits(one.up_bits),
            "bits down": bits(one.down_bits),
            "time": duration(one.seconds),
        }
        for name, one in estimates.items()
    ]
    console = Console()
    print_whole(console, text_table(texts, console.width, names=["run"], gap=2, caption=NOTE))
    several = f"{len(estimates)} runs, {at_once} at a time" if len(estimates) > 1 else "1 run"
    print(f"{several}: about {duration(seconds)}")
    return 0
