"""Runs the search of docs/search.md again, beside the best cells of the committed plane of digits.

    PYTHONPATH=. python docs/make_search.py OUT

writes docs/search-digits.csv, docs/search-trials.csv and docs/search-digits.png, and the table of
docs/search.md. It takes less than half an hour; the same command goes on where it was stopped.
Trials run one after another, so that a second search proposes the same. The plane's cells are those
of experiments/sbc-matrix within the budget; they run on the fresh seeds of the search, with its
clients and iterations, scored on the held-out samples.
Without OUT it draws the figure again, from the two CSV files.
"""

import re
import sys
from dataclasses import replace
from pathlib import Path
from shutil import copyfile

import pandas as pd

from fedsim import Evaluation, RunConfig, Training
from fedsim.ground import units
from fedsim.runs.sweep import run_cells
from fedsim.search.curves import read_curve
from fedsim.search.finals import Finalist, SeedScores
from fedsim.search.goal import Goal
from fedsim.search.methods import OWN_CODER, point_text
from fedsim.search.page import SearchResult
from fedsim.search.picture import draw_trials
from fedsim.search.search import search
from fedsim.settings.grids import Cell
from fedsim.show.plot.paper import save, without_rc

DOCS = Path(__file__).parent
PLANE = DOCS.parent / "experiments" / "sbc-matrix" / "results" / "digits" / "matrix.csv"
BUDGET, TRIALS, SEEDS, CELLS = 20e3, 400, 3, 3
BASE = RunConfig(
    task="digits",
    method="raw",
    temporal=1,
    clients=2,
    iterations=243,
    training=Training(batch_size=32),
)
_ENTRIES = 21386
_SETTING = re.compile(
    r"(?P<method>.+), n = (?P<temporal>\d+)(, p = (?P<gradient>\S+?))?(, coders (?P<coder>.+))?"
    r", lr = (?P<lr>\S+)"
)
_BEGIN, _END = "<!-- search-digits -->", "<!-- end of search-digits -->"


def best_cells() -> pd.DataFrame:
    """The plane's cells of least error, then of fewest bits, within the budget when they end."""
    plane = pd.read_csv(PLANE)
    plane["bits"] = 32 * _ENTRIES * plane["stage"] / plane["ratio_content"]
    affordable = plane[(plane["bits"] <= BUDGET) & (plane["stage"] == BASE.iterations)]
    return affordable.sort_values(["error", "bits"]).head(CELLS)


def plane_cells() -> list[Cell]:
    """The runs of these cells on the fresh seeds."""
    return [
        Cell.of(
            replace(
                BASE,
                method=row["method"],
                temporal=int(row["temporal"]),
                gradient=row["gradient"],
                seed=seed,
                stop_at_bits=BUDGET,
                evaluation=Evaluation(every=1),
            )
        )
        for row in best_cells().to_dict("records")
        for seed in range(1, 1 + SEEDS)
    ]


def rows(result: SearchResult, out: Path) -> pd.DataFrame:
    """A row per setting and seed: the finalists, then the plane's cells, on held-out samples.

    A finalist of which no run had ended when the time was over has no row.
    """
    table = []
    for rank, final in enumerate(result.finalists, start=1):
        if not any(final.held.points):
            continue
        for seed, point in enumerate(final.held.points, start=1):
            what = f"search, rank {rank}{' (tie)' if final.tie else ''}"
            table.append((what, point_text(final.params), seed, *(point or (None, None))))
    goal = Goal(True, "accuracy", budget=BUDGET)
    for cell in plane_cells():
        point = goal.point(read_curve(out / "plane" / "cells" / cell.name))
        config = cell.config
        what = f"{config.method}, n = {config.temporal}, p = {config.gradient:.3g}, lr = 0.02"
        table.append(("plane of sbc-matrix", what, config.seed, *(point or (None, None))))
    return pd.DataFrame(table, columns=["found by", "setting", "seed", "bits", "accuracy"])


def markdown(table: pd.DataFrame) -> str:
    """A row per setting: mean accuracy with its interval, every seed, bits."""
    lines = ["| found by | setting | held-out accuracy | seeds | bits up |"]
    lines += ["| --- | --- | --: | --- | --: |"]
    for (by, setting), own in table.groupby(["found by", "setting"], sort=False):
        points = tuple(zip(own["bits"], own["accuracy"], strict=True))
        lot = SeedScores(points, ())
        mean, seeds = lot.metric(), ", ".join(f"{a:.4f}" for a in own["accuracy"])
        setting = str(setting).replace("|", "\\|")  # coders
        lines.append(
            f"| {by} | {setting} | {mean.value:.4f} ± {mean.half:.4f} | {seeds} "
            f"| {units.bits(lot.bits())} |"
        )
    return "\n".join(lines)


def into_page(text: str) -> None:
    """Puts the table between its marks in docs/search.md."""
    page = DOCS / "search.md"
    before, rest = page.read_text(encoding="utf-8").split(_BEGIN)
    after = rest.split(_END)[1]
    page.write_text(f"{before}{_BEGIN}\n{text}\n{_END}{after}", encoding="utf-8")


def finalists() -> list[Finalist]:
    """The search's rows of search-digits.csv as its finalists, in order of rank."""
    table, found = pd.read_csv(DOCS / "search-digits.csv"), []
    ranked = table[table["found by"].str.startswith("search")]
    for (by, setting), own in ranked.groupby(["found by", "setting"], sort=False):
        told = _SETTING.fullmatch(str(setting))
        assert told is not None, setting
        params = {
            "method": told["method"],
            "coder": told["coder"] or OWN_CODER,
            "temporal": int(told["temporal"]),
            "lr": float(told["lr"]),
            "gradient": None if told["gradient"] is None else float(told["gradient"]),
        }
        held = SeedScores(tuple(zip(own["bits"], own["accuracy"], strict=True)), ())
        found.append(Finalist(-1, params, SeedScores((), ()), held, "tie" in str(by), BASE))
    return found


def picture(out: Path = DOCS / "search-digits.png") -> None:
    """Draws the figure of the page into ``out``, from what is committed of the search."""
    trials, ranked = pd.read_csv(DOCS / "search-trials.csv"), finalists()
    goal = Goal(True, "accuracy", budget=BUDGET)
    with without_rc():
        save(draw_trials(trials, ranked, ranked[0], goal, "digits"), out)
    if out == DOCS / "search-digits.png":
        from make_gallery import small  # which lies beside this file

        small(out, out)


def main(out: Path) -> None:
    """The search, the plane's cells, and the files of the page."""
    result = search(BASE, out, budget=BUDGET, trials=TRIALS, seeds=SEEDS)
    run_cells(plane_cells(), out / "plane", progress=None)
    table = rows(result, out)
    table.to_csv(DOCS / "search-digits.csv", index=False)
    copyfile(out / "trials.csv", DOCS / "search-trials.csv")
    picture()
    print(markdown(table))
    into_page(markdown(table))


if __name__ == "__main__":
    main(Path(sys.argv[1])) if sys.argv[1:] else picture()
