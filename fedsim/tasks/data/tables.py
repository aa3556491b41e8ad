"""CSV files with a line of names, and frames, as tensors in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from fedsim.ground.errors import DataError
from fedsim.tasks.data.items import Inputs
from fedsim.tasks.data.samples import SampleSet
from fedsim.tasks.optional import first_line
from fedsim.tasks.pytrees import Tree

if TYPE_CHECKING:  # for tables alone: a client of another task need not have it
    import pandas as pd


Split = Inputs | Mapping[str, str | Sequence[str]]
"""The columns that are inputs; or several inputs by name, each of one or several columns."""


class Table(NamedTuple):
    """A frame, and what messages call it."""

    what: str
    frame: pd.DataFrame


def flat_columns(inputs: Split) -> Inputs:
    """The columns of all inputs, in order.

    Example:
        >>> flat_columns({"size": ["length", "width"], "place": "town"})
        ['length', 'width', 'town']
    """
    if not isinstance(inputs, Mapping):
        return inputs
    return [
        name
        for columns in inputs.values()
        for name in ([columns] if isinstance(columns, str) else columns)
    ]


def split_columns(x: Tensor, inputs: Split) -> Tree:
    """The columns (N, all) as they are, or by the name of each input (N, columns).

    Example:
        >>> x = torch.tensor([[1.0, 2.0, 3.0]])
        >>> split_columns(x, {"size": ["length", "width"], "place": "town"})
        {'size': tensor([[1., 2.]]), 'place': tensor([[3.]])}
    """
    if not isinstance(inputs, Mapping):
        return x
    widths = [1 if isinstance(columns, str) else len(columns) for columns in inputs.values()]
    return dict(zip(inputs, x.split(widths, dim=1), strict=True))


def read_csv(task: str, path: Path, label: str, groups: str | None) -> Table:
    """The rows of a CSV file under the names of its first line; of words, only "" is missing.

    Raises:
        DataError: the file cannot be read, a name is there twice, or rows have more fields than
            there are names.
    """
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    try:
        table = pd.read_csv(path)
        # As they are written: pandas calls the second of two columns "a" another name, "a.1".
        first = pd.read_csv(path, header=None, nrows=1, dtype=str, keep_default_na=False)
        _check_names(task, path.name, [name for name in first.iloc[0] if name])
        if not isinstance(table.index, pd.RangeIndex):  # and moves all names by a column
            raise DataError(
                f"task {task}: rows of {path.name} have more fields than its first line has names "
                f"({', '.join(table.columns)}); name every column"
            )
        for name in [c for c in table.columns if c in (label, groups)]:
            if table[name].isna().any() and not is_numeric_dtype(table[name]):
                # A class may be called None or NA, which pandas takes for no number.
                table[name] = pd.read_csv(
                    path, usecols=[name], keep_default_na=False, na_values=[""]
                )[name]
    except DataError:
        raise
    except (OSError, ValueError) as error:  # pandas' own errors are ValueErrors too
        raise DataError(f"task {task}: {path} cannot be read ({first_line(error)})") from error
    return Table(path.name, table)


def read_tables(
    task: str, tables: Sequence[Table], inputs: Inputs, label: str, groups: str | None
) -> list[SampleSet]:
    """The rows of tables with the same columns, in order: inputs (N, columns), float64.

    Columns are joined by their names: the inputs of all are in the order that the first has.

    Raises:
        DataError: a table lacks a column, has two of one name, empty cells, inputs that are not
            numbers or are infinite, or a column without a name among those that nobody chose; or
            tables have other inputs than the first, where nobody chose them.
    """
    others = (label, groups)
    if inputs is None:
        chosen, *other_inputs = ([c for c in t.frame.columns if c not in others] for t in tables)
        for table, names in zip(tables[1:], other_inputs, strict=True):
            if {*names} != {*chosen}:
                lacks, more = (
                    ", ".join(str(c) for c in one if c not in two) or "none"
                    for one, two in ((chosen, names), (names, chosen))
                )
                raise DataError(
                    f"task {task}: {table.what} has other columns than {tables[0].what} (it lacks: "
                    f"{lacks}; it alone has: {more}); name the inputs: inputs=[...]"
                )
    else:
        chosen = [inputs] if isinstance(inputs, str) else list(inputs)
        _check_names(task, "inputs", chosen)
    return [_read(task, t, chosen, label, groups, inputs is None) for t in tables]


def _read(
    task: str,
    named_table: Table,
    chosen: list[str],
    label: str,
    groups: str | None,
    all_columns: bool,
) -> SampleSet:
    """The rows of one table; ``all_columns``: whether nobody chose the inputs."""
    from pandas.api.types import is_numeric_dtype

    what, table = named_table
    columns = list(table.columns)
    named = [("label", label), *(("inputs", name) for name in chosen)]
    named += [("groups", groups)] if groups is not None else []
    _check_names(task, what, [c for c in columns if c in {name for _, name in named}])
    for setting, name in named:
        if name not in columns:
            raise DataError(
                f"task {task}: {setting} is {name!r}; the columns of {what} are "
                f"{', '.join(map(str, columns))}"
            )
        empty = int(table[name].isna().sum())
        if empty:
            raise DataError(
                f"task {task}: column {name!r} of {what} has {empty} empty cells; fill them, "
                "or leave the rows out"
            )
    left = [c for c in chosen if not str(c).startswith("Unnamed: ")]  # pandas' word for no name
    numbers = [c for c in left if is_numeric_dtype(table[c])]
    if all_columns and len(left) < len(chosen):
        nameless = next(c for c in chosen if c not in left)
        raise DataError(
            f"task {task}: column {nameless!r} of {what} has no name in the first line, as the "
            "index that to_csv writes; leave it out (to_csv(..., index=False)), or name the "
            f"inputs: inputs={numbers!r}"
        )
    words = [c for c in chosen if not is_numeric_dtype(table[c])]
    if words or not chosen:
        cause = f"column {words[0]!r} of {what} holds no numbers" if words else "there are none"
        raise DataError(
            f"task {task}: inputs are numbers, and {cause}; name those that are: "
            f"inputs={numbers!r}, or make numbers of words with pandas.get_dummies"
        )
    x = torch.from_numpy(table[chosen].to_numpy(dtype=np.float64, copy=True))
    for name, column in zip(chosen, x.T, strict=True):
        if infinite := int(column.isinf().sum()):
            raise DataError(
                f"task {task}: column {name!r} of {what} has {infinite} infinite cells; give "
                "numbers in their place, or leave the rows out"
            )
    members = None if groups is None else np.array(table[groups].tolist())
    return SampleSet(x, np.array(table[label].tolist()), members)


def _check_names(task: str, what: str, names: Sequence[str]) -> None:
    """Refuses two columns of one name, of which nobody knows which is meant."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise DataError(f"task {task}: {what} has two columns {name!r}; each has its own name")


def standardized(train: SampleSet, test: SampleSet) -> tuple[SampleSet, SampleSet]:
    """Both with every column less its mean over ``train``, divided by its deviation there.

    Example:
        >>> part = SampleSet(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), np.array([0, 1]))
        >>> standardized(part, part)[0].x.tolist()  # a column that never changes is zero
        [[-1.0, 0.0], [1.0, 0.0]]
    """
    constant = (train.x == train.x[0]).all(0)  # whose mean is rounded, and its deviation not 0
    mean = train.x[0].where(constant, train.x.mean(0))
    std = train.x.std(0, correction=0).masked_fill(constant, 1.0)
    return train._replace(x=(train.x - mean) / std), test._replace(x=(test.x - mean) / std)
