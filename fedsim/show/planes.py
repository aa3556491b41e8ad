"""The sparsity plane: runs by communication delay n and gradient sparsity p, seeds averaged."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from fedsim.ground.errors import UsageError
from fedsim.results.labels import (
    delay_symbol,
    ends_dense,
    methods_of,
    of_method,
    reference,
    several,
)
from fedsim.show.inputs import check_repeated, check_task
from fedsim.show.style import shared_reference

_NAMED = 4
"""Titles name as many methods; legends and tables name all."""


@dataclass(frozen=True)
class Plane:
    """One value of every cell of the plane.

    Attributes:
        temporals: communication delays n, ascending: the R rows.
        gradients: gradient sparsities p, descending: the C columns.
        values: (R, C) means over the seeds that are done; NaN where none is.
        spread: (R, C) their sample standard deviations; NaN of fewer than two.
        done: (R, C) seeds that are done.
        failed: (R, C) seeds that failed.
        dense: the value of the dense reference (n = 1, p = 1), where it lies off the grid.
        symbol: what the delay is called: n, E of local epochs, or T of local seconds.
    """

    temporals: tuple[int, ...]
    gradients: tuple[float, ...]
    values: np.ndarray
    spread: np.ndarray
    done: np.ndarray
    failed: np.ndarray
    dense: float | None = None
    symbol: str = "n"

    def sparsity(self, row: int, column: int) -> float:
        """Total sparsity p / n of a cell; of local epochs p / E, to which it is proportional."""
        return self.gradients[column] / self.temporals[row]

    def absence(self, at: tuple[int, int]) -> str:
        """Why the cell (row, column) has no value: "failed", "no value" or "no run"."""
        if self.failed[at]:
            return "failed"
        return "no value" if self.done[at] else "no run"

    def diagonals(self) -> list[list[tuple[int, int]]]:
        """Cells (row, column) of equal total sparsity, three or more together, top row first.

        Two alone, at a corner of the grid, make no line to follow.
        """
        groups: dict[str, list[tuple[int, int]]] = {}
        for row, column in np.ndindex(self.values.shape):
            # 0.3 / 3 and 0.1 / 1 differ in the last bit.
            groups.setdefault(f"{self.sparsity(row, column):.6e}", []).append((row, column))
        return [sorted(cells) for cells in groups.values() if len(cells) > 2]


def plane(runs: pd.DataFrame, value: str = "metric") -> Plane:
    """`runs` of one task and method laid out on the sparsity plane.

    The dense reference is a cell of the grid where the method is raw sending at p = 1, unless its
    row or column would be nearly empty (a sweep of n = 10, p = 0.01 would become a square with two
    holes). Else it is `Plane.dense`: a method without p never has it on its grid.

    Raises:
        UsageError: no such column, no runs, runs of several tasks or methods, or two runs of one
            cell and seed: the plane has one value per cell.
    """
    if value not in runs.columns or not pd.api.types.is_numeric_dtype(runs[value]):
        raise UsageError(f"value is {value!r}: it must be a numeric column of the runs.")
    if not len(runs):
        raise UsageError("there are no runs to lay out on the sparsity plane.")
    check_task(runs)
    if several(runs):
        names = ", ".join(methods_of(runs))
        raise UsageError(f"the runs are of several methods ({names}): name one, method=...")
    unshared = runs[~shared_reference(runs)]
    check_repeated(unshared, ["temporal", "gradient", "seed"])
    compared = reference(runs)
    others = runs[~compared]
    single = not len(others) or not compared.any()
    on_grid = single or (ends_dense(others) and _holes(runs) <= _holes(others))
    shown = runs if on_grid else others
    dense = runs.loc[compared & (runs["status"] == "done"), value].mean()
    rows = tuple(sorted(int(n) for n in shown["temporal"].unique()))
    columns = tuple(sorted((float(p) for p in shown["gradient"].unique()), reverse=True))
    done = shown[shown["status"] == "done"]
    return Plane(
        rows,
        columns,
        _pivot(done, value, "mean", rows, columns),
        _pivot(done, value, "std", rows, columns),
        _pivot(done, "seed", "size", rows, columns),
        _pivot(shown[shown["status"] != "done"], "seed", "size", rows, columns),
        None if on_grid or np.isnan(dense) else float(dense),
        delay_symbol(runs),
    )


def planes(
    runs: pd.DataFrame, value: str = "metric", method: str | None = None
) -> dict[str, Plane]:
    """The plane of every method by its label, or of one.

    Planes of a single cell are left out if another plane has more: they show no difference.

    Raises:
        UsageError: no such method; else as `plane`.
    """
    names = methods_of(runs)
    if method is not None and method not in set(runs["label"]):
        raise UsageError(f"method is {method!r}: the runs are of {', '.join(names) or 'none'}.")
    if method is None and not several(runs):
        return {"".join(names): plane(runs, value)}
    if method is None:
        check_task(runs)
    chosen = names if method is None else [method]
    grids = {name: plane(of_method(runs, name), value) for name in chosen}
    return {name: grid for name, grid in grids.items() if grid.values.size > 1} or grids


def one_celled(runs: pd.DataFrame) -> bool:
    """Whether every method has but one cell of the plane: nothing to lay out."""
    return all(grid.values.size == 1 for grid in planes(runs).values())


def method_text(runs: pd.DataFrame) -> str:
    """The method of a sweep's cells as titles have it: its label, as in curves and tables.

    The dense cells (p = 1), which send float32 with every method, count only where there are no
    others. The labels of several methods are joined by commas; of more than four, only the number
    is returned.
    """
    if several(runs):
        names = methods_of(runs)
        return ", ".join(names) if len(names) <= _NAMED else f"{len(names)} methods"
    sparse = runs[runs["gradient"] != 1]
    rows = sparse if len(sparse) else runs[~shared_reference(runs)]
    return ", ".join(dict.fromkeys(rows["label"]))


def _holes(runs: pd.DataFrame) -> int:
    cells = runs[["temporal", "gradient"]].drop_duplicates()
    return int(cells["temporal"].nunique() * cells["gradient"].nunique()) - len(cells)


def _pivot(
    runs: pd.DataFrame, value: str, how: str, rows: tuple[int, ...], columns: tuple[float, ...]
) -> np.ndarray:
    grid = runs.groupby(["temporal", "gradient"])[value].agg(how).unstack()
    numbers = grid.reindex(index=rows, columns=columns).to_numpy(float)
    return np.nan_to_num(numbers).astype(int) if how == "size" else numbers
