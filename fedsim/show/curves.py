"""The numbers behind learning curves and the front of metric over bits, seeds averaged."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from fedsim.ground.columns import receivers
from fedsim.ground.errors import NothingToDraw, UsageError
from fedsim.results.labels import EPOCHS, FACTS, LOCAL_SECONDS, VARIANT, delay_symbol, several
from fedsim.results.schema import KEYS
from fedsim.show.inputs import check_repeated, check_task
from fedsim.show.style import CellKey, shared_reference


@dataclass(frozen=True)
class Series:
    """The curve of one cell.

    Attributes:
        cell: delay n and fraction of entries sent p; of several methods, the label too.
        x, y: (N,) means over the cell's seeds.
        low, high: (N,) the least and the greatest y of a seed.
    """

    cell: CellKey
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray


_TOLD = (*KEYS, *FACTS, VARIANT, EPOCHS, LOCAL_SECONDS, "downlink", "run", "round", "iteration")
"""The columns that tell whose a row is."""

TIME = "sim_end_seconds"
"""The clock at the end of a round, of runs that had a network."""

ALONG = ("iteration", "up_bits", TIME)
"""What curves may go along."""

Bits = Literal["wire", "content"]
"""The counted bits: whole payloads; or positions, values and side information, as in papers."""


def bits_column(bits: str) -> str:
    """The column of the upstream bits that are counted."""
    if bits not in ("wire", "content"):
        raise UsageError(f"bits is {bits!r}: it must be 'wire' or 'content'.")
    return f"up_{bits}_bits"


def bits_so_far(rounds: pd.DataFrame, column: str) -> pd.Series:
    """What a client of every round has sent by each round, in bits: the cohort's mean, added up."""
    of_each = rounds[column] / rounds["clients"].clip(lower=1)
    return of_each.groupby(rounds["run"]).cumsum()


def spent_so_far(rounds: pd.DataFrame, bits: str, budget_of: str) -> pd.Series:
    """The bits of a client of every round by each round: upstream, and of "total" both ways."""
    up = bits_so_far(rounds, bits_column(bits))
    if not both_ways(budget_of):
        return up
    return up + bits_so_far(rounds.assign(clients=receivers(rounds)), f"down_{bits}_bits")


def both_ways(budget_of: str) -> bool:
    """Whether a budget counts both ways."""
    if budget_of not in ("up", "total"):
        raise UsageError(f"budget_of is {budget_of!r}: it must be 'up' or 'total'.")
    return budget_of == "total"


def curve_lines(rounds: pd.DataFrame, x: str, y: str, bits: Bits = "wire") -> list[Series]:
    """Learning curves, one per cell, by method, n upwards and p downwards.

    A point is the mean over the cell's seeds after one round. Where seeds were evaluated in unlike
    rounds (a controller's, or `--stop-at-bits`), each is read along `x` between its evaluations,
    and the mean goes from where all have one to where the first seed ends; a cell whose seeds have
    no such part is left out.

    Args:
        rounds: the frame of `fedsim.load(...).rounds`, or some of its rows.
        x: "iteration", "sim_end_seconds" (the simulated time, of runs on a network), or
            "up_bits": bits that a client of every round has sent so far, the sum
            over rounds of the cohort's bits over the clients that replied.
        y: a column of `rounds`.
        bits: which bits: "wire", whole payloads, or "content", as papers count them.

    Raises:
        UsageError: an unknown `x`, `y` or `bits`, several tasks, two runs of a seed, or nothing to
            draw.
    """
    if x not in ALONG or x == TIME and TIME not in rounds.columns:
        raise UsageError(
            f"x is {x!r}: it must be 'iteration', 'up_bits' or, of runs on a network, {TIME!r}."
        )
    if y not in rounds.columns:
        raise UsageError(f"y is {y!r}: it must be a column of the rounds.")
    lines = _series(_scored(rounds, x, y, bits), x, y)
    if not lines:
        raise NothingToDraw(f"there is no {x} at which all seeds of a cell have a {y} to draw.")
    return lines


def evaluated(
    rounds: pd.DataFrame, x: str, bits: Bits, budget_of: str = "up"
) -> tuple[pd.DataFrame, list[CellKey]]:
    """The rounds that were evaluated, with `x` and with a column `_cell`, and the cells."""
    keyed, cells = by_cell(_scored(rounds, x, "metric", bits, budget_of))
    check_task(keyed)
    check_repeated(keyed, ["_cell", "seed", "round"])
    return keyed, cells


def _scored(
    rounds: pd.DataFrame, x: str, y: str, bits: Bits, budget_of: str = "up"
) -> pd.DataFrame:
    """The rounds that have a `y`, by run and round, with `x`."""
    table = rounds.sort_values(["run", "round"])
    if x == "up_bits":
        table = table.assign(up_bits=spent_so_far(table, bits, budget_of))
    table = table.loc[table[y].notna(), [c for c in table.columns if c in {*_TOLD, x, y}]]
    if not len(table):
        raise NothingToDraw(f"there are no rounds with a {y} to draw.")
    return table


def pareto_points(runs: pd.DataFrame, bits: Bits = "wire", budget_of: str = "up") -> pd.DataFrame:
    """Final metric over the bits of a client of every round: one point per cell.

    Returns:
        A row per cell: `cell`, a `CellKey`; `x` and `y`, the means of bits and metric over its
        seeds; `deviation`, the sample standard deviation of the metric, NaN of one; `seeds`.

    Raises:
        UsageError: no run is done, several tasks, or two runs of a seed; or unknown `bits`.
    """
    column = bits_column(bits)
    if both_ways(budget_of):
        runs = runs.assign(**{column: runs[column] + runs[f"down_{bits}_bits"]})
    done = runs[(runs["status"] == "done") & runs["metric"].notna() & runs[column].notna()]
    keyed, cells = by_cell(done)
    check_task(keyed)
    check_repeated(keyed, ["_cell", "seed"])
    ends = keyed.assign(x=keyed[column], y=keyed["metric"]).groupby("_cell")
    points = ends[["x", "y"]].mean().assign(deviation=ends["y"].std(), seeds=ends.size())
    points = points.assign(cell=pd.Series(cells, points.index, dtype=object))
    points = points[points["x"] > 0]  # a logarithmic axis has no zero
    if not len(points):
        raise NothingToDraw("there is no run that is done and has sent bits.")
    return points


def front(points: pd.DataFrame, higher: bool) -> pd.DataFrame:
    """The rows that no other beats in both bits `x` and metric `y`, by bits upwards.

    Example:
        >>> points = pd.DataFrame({"x": [3, 1, 2], "y": [0.9, 0.5, 0.4]})
        >>> front(points, higher=True)["y"].tolist()
        [0.5, 0.9]
    """
    rows = points.sort_values(["x", "y"], ascending=[True, not higher])
    losses = -rows["y"] if higher else rows["y"]
    return rows[losses < losses.cummin().shift(fill_value=np.inf)]


def by_cell(table: pd.DataFrame) -> tuple[pd.DataFrame, list[CellKey]]:
    """`table` with a column `_cell`, each row's index into the list of cells; and that list."""
    many = several(table)
    columns = [
        table["temporal"],
        table["gradient"],
        [False] * len(table) if many else shared_reference(table),
        table["label"] if many else [""] * len(table),
        table["dense"],
    ]
    symbol = delay_symbol(table)
    keys = [
        (
            CellKey(int(n), float(p), bool(reference), str(name), bool(dense) and many, symbol),
            bool(dense),
        )
        for n, p, reference, name, dense in zip(*columns, strict=True)
    ]
    order = sorted(
        dict.fromkeys(keys),
        key=lambda key: (
            not key[0].dense,
            key[0].method,
            key[0].temporal,
            -key[0].gradient,
            not key[0].reference,
        ),
    )
    places = {key: place for place, key in enumerate(order)}
    return table.assign(_cell=[places[key] for key in keys]), [cell for cell, _ in order]


def _series(table: pd.DataFrame, x: str, y: str) -> list[Series]:
    """The curve of each cell that has points: one per round.

    A point at 0 bits is left out: a logarithmic axis has no zero. All cells are
    grouped at once: pandas takes a millisecond per group, however few its rows.
    """
    keyed, cells = by_cell(table)
    check_task(keyed)
    check_repeated(keyed, ["_cell", "seed", "round"])
    by_point = keyed.groupby(["_cell", "round"])
    xs, over = by_point[x].mean(), by_point[y]
    of_cell = xs.index.get_level_values("_cell")
    seeds = keyed.groupby("_cell")["seed"].nunique()
    complete = by_point.size().to_numpy() == seeds.loc[of_cell].to_numpy()
    parts = (over.mean(), over.min(), over.max())
    numbers = [xs.to_numpy(), *(rows.to_numpy(float) for rows in parts)]
    lines = []
    for place, cell in enumerate(cells):
        rows = of_cell == place
        points = [values[rows] for values in numbers]
        if not complete[rows].all():
            points = _between(keyed[keyed["_cell"] == place], x, y)
        positive = points[0] > (0 if x.endswith("_bits") else -np.inf)
        if positive.any():
            lines.append(Series(cell, *(values[positive] for values in points)))
    return lines


def _between(table: pd.DataFrame, x: str, y: str) -> list[np.ndarray]:
    """(N,) x, and mean, least and greatest y of seeds evaluated in unlike rounds."""
    seeds = [
        (group[x].to_numpy(float), group[y].to_numpy(float)) for _, group in table.groupby("seed")
    ]
    first, last = max(at[0] for at, _ in seeds), min(at[-1] for at, _ in seeds)
    places = np.unique(table[x].to_numpy(float))
    places = places[(places >= first) & (places <= last)]
    ys = np.stack([np.interp(places, *seed) for seed in seeds])
    return [places, ys.mean(axis=0), ys.min(axis=0), ys.max(axis=0)]
