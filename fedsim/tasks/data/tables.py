"""CSV files with a line of names, and frames, as tensors in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from fedsim.ground.errors import DataError
from fedsim.tasks.data.samples import Part
from fedsim.tasks.optional import first_line

if TYPE_CHECKING:  # for tables alone: a client of another task need not have it
    import pandas as pd


def read_csv(
    task: str, path: Path, inputs: str | Sequence[str] | None, label: str, groups: str | None
) -> Part:
    """The rows of a CSV file, as ``read_frame`` has them; of words, only "" is missing.

    Args:
        task: as for ``read_frame``.
        path: its first line names the columns.
        inputs: as for ``read_frame``.
        label: likewise.
        groups: likewise.

    Raises:
        DataError: the file cannot be read; else as ``read_frame``.
    """
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    try:
        table = pd.read_csv(path)
        for name in [c for c in table.columns if c in (label, groups)]:
            if table[name].isna().any() and not is_numeric_dtype(table[name]):
                # A class may be called None or NA, which pandas takes for no number.
                table[name] = pd.read_csv(
                    path, usecols=[name], keep_default_na=False, na_values=[""]
                )[name]
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors too
        raise DataError(f"task {task}: {path} cannot be read ({first_line(error)})") from error
    return read_frame(task, table, path.name, inputs, label, groups)


def read_frame(
    task: str, table: pd.DataFrame, what: str, inputs: str | Sequence[str] | None, label: str,
    groups: str | None,
) -> Part:  # fmt: skip
    """The rows of a frame, in order: inputs (N, columns), float64.

    Args:
        task: the name that messages begin with.
        table: a row per sample.
        what: the table in messages.
        inputs: the columns that are inputs, one or several; None: all but ``label`` and ``groups``.
        label: the column of the targets.
        groups: the column that a partition may go by; None: none.

    Raises:
        DataError: the table lacks a column, has empty cells, inputs that are not numbers or are
            infinite, or a column without a name among those that nobody chose.
    """
    from pandas.api.types import is_numeric_dtype

    there = list(table.columns)
    chosen = [inputs] if isinstance(inputs, str) else inputs
    chosen = [c for c in there if c not in (label, groups)] if chosen is None else list(chosen)
    named = [("label", label), *(("inputs", name) for name in chosen)]
    for setting, name in named + ([("groups", groups)] if groups is not None else []):
        if name not in there:
            raise DataError(
                f"task {task}: {setting} is {name!r}; the columns of {what} are "
                f"{', '.join(map(str, there))}"
            )
        empty = int(table[name].isna().sum())
        if empty:
            raise DataError(
                f"task {task}: column {name!r} of {what} has {empty} empty cells; fill them, "
                "or leave the rows out"
            )
    left = [c for c in chosen if not str(c).startswith("Unnamed: ")]  # pandas' word for no name
    if inputs is None and len(left) < len(chosen):
        nameless = next(c for c in chosen if c not in left)
        raise DataError(
            f"task {task}: column {nameless!r} of {what} has no name in the first line, as the "
            "index that to_csv writes; leave it out (to_csv(..., index=False)), or name the "
            f"inputs: inputs={left!r}"
        )
    words = [c for c in chosen if not is_numeric_dtype(table[c])]
    if words or not chosen:
        why = f"column {words[0]!r} of {what} is no numbers" if words else "there are none"
        raise DataError(
            f"task {task}: inputs are numbers, and {why}; name those that are: inputs=[...]"
        )
    x = torch.from_numpy(table[chosen].to_numpy(dtype=np.float64, copy=True))
    for name, column in zip(chosen, x.T, strict=True):
        if infinite := int(column.isinf().sum()):
            raise DataError(
                f"task {task}: column {name!r} of {what} has {infinite} infinite cells; give "
                "numbers in their place, or leave the rows out"
            )
    members = None if groups is None else np.array(table[groups].tolist())
    return Part(x, np.array(table[label].tolist()), members)


def standardized(train: Part, test: Part) -> tuple[Part, Part]:
    """Both with every column less its mean over ``train``, divided by its deviation there.

    Example:
        >>> part = Part(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), np.array([0, 1]))
        >>> standardized(part, part)[0].x.tolist()  # a column that never changes is zero
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    constant = (train.x == train.x[0]).all(0)  # whose mean is rounded, and its deviation not 0
    mean = train.x[0].where(constant, train.x.mean(0))
    std = train.x.std(0, correction=0).masked_fill(constant, 1.0)
    return train._replace(x=(train.x - mean) / std), test._replace(x=(test.x - mean) / std)
