"""Some methods' runs at some places, put among the results, whose other runs stay.

Run: ``python -m experiments.crossing.again sbc_unmasked --only digits_iid,2000 --data DIR``
"""

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import pandas as pd

from experiments.common.staged import put_cells
from experiments.common.tables import write_csv
from fedsim import Cell

from . import law as laws
from .answer import AGAIN
from .rows import DENSE, ROWS, SCALES, SETTINGS
from .run import FRAMES, read, tables
from .stages import Stages

RESULTS = Path(__file__).parent / "results"


def merged(before: pd.DataFrame, now: pd.DataFrame) -> pd.DataFrame:
    """The lines of ``before`` with those of ``now`` in the place of their methods'.

    They are by seed where there are seeds, then in the order of ``ROWS`` and budgets, as a run of
    all writes them.
    """
    methods = {*now["method"]}
    every = pd.concat([before[~before["method"].isin(methods)], now], ignore_index=True)
    place = {name: at for at, name in enumerate(ROWS)}
    by = pd.DataFrame({"method": every["method"].map(place), "budget": -every["budget"].fillna(1)})
    if "seed" in every.columns:
        by.insert(0, "seed", every["seed"])
    return every.loc[by.sort_values([*by.columns], kind="stable").index].reset_index(drop=True)


def ordered(cells: Sequence[Cell]) -> list[Cell]:
    """Finals in the order of ``merged``."""
    lines = [
        {
            "method": cell.config.label,
            "budget": None if cell.config.label == DENSE else _budget(cell.name),
            "seed": cell.config.seed,
            "cell": cell,
        }
        for cell in cells
    ]
    return [*merged(pd.DataFrame(columns=[*lines[0]]), pd.DataFrame(lines))["cell"]]


def _budget(name: str) -> float:
    return float(name.partition("-b")[2].partition("-n")[0])


def merge(part: Stages, results: Path) -> None:
    """Runs a part of the methods, and puts its frames and cells into the setting's results."""
    for name, now in zip(FRAMES, part.frames(), strict=True):
        path = results / part.name / f"{name}-{part.iterations}.csv"
        write_csv(path, merged(pd.read_csv(path), now))
    cells = part.finals(part.tune()).values()  # which have run
    put_cells(results / part.name / f"runs-{part.iterations}.toml", cells, ordered)


def summed_up(results: Path) -> None:
    """Writes the tables of all settings again, and the means of each."""
    trials, finals = read(results)
    for name, frame in tables(trials, finals).items():
        write_csv(results / f"{name}.csv", frame)
    for setting, mine in finals.groupby("setting"):
        write_csv(results / str(setting) / "means.csv", laws.means(mine))


def main(words: Sequence[str] | None = None) -> None:
    """Runs the places that are asked for, the shortest first; merges each when it has run."""
    parser = argparse.ArgumentParser("experiments.crossing.again", description=__doc__)
    parser.add_argument("methods", help="names of rows, with commas between them")
    parser.add_argument("--only", default="", help="settings and lengths; default: all that ran")
    parser.add_argument("--arm", default="sbc", help="the name of their hours in again.csv")
    parser.add_argument("--data", help="the folder with data sets")
    parser.add_argument("--out", default="fedsim-results/crossing-again", help="of the runs")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time")
    asked = parser.parse_args(words)
    only, methods = {*filter(None, asked.only.split(","))}, asked.methods.split(",")
    known = [*SETTINGS, *map(str, SCALES["short"].lengths)]
    for name, values, allowed in (("methods", methods, [*ROWS]), ("--only", only, known)):
        if unknown := sorted({*values} - {*allowed}):
            parser.error(f"{name} is {', '.join(unknown)}: known are {', '.join(allowed)}")
    settings = only & {*SETTINGS} or {*SETTINGS}
    lengths = only - {*SETTINGS}
    for path in sorted(RESULTS.glob("*/finals-*.csv"), key=lambda path: int(path.stem[7:])):
        name, iterations = path.parent.name, path.stem[7:]
        if name not in settings or (lengths and iterations not in lengths):
            continue
        out = Path(asked.out) / name
        part = Stages(name, SCALES["short"], int(iterations), out, asked.jobs, asked.data, methods)
        began, before = time.monotonic(), _processor_seconds()
        merge(part, RESULTS)
        spent = {
            "arm": asked.arm,
            "setting": name,
            "iterations": int(iterations),
            "core_seconds": round(_processor_seconds() - before),
            "wall_seconds": round(time.monotonic() - began),
        }
        hours = pd.concat([pd.read_csv(RESULTS / AGAIN), pd.DataFrame([spent])])
        write_csv(RESULTS / AGAIN, hours)
        summed_up(RESULTS)
        print(spent, flush=True)


def _processor_seconds() -> float:
    return sum(x.ru_utime + x.ru_stime for x in map(getrusage, (RUSAGE_SELF, RUSAGE_CHILDREN)))


if __name__ == "__main__":
    main()
