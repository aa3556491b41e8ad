"""Partitioners of flwr-datasets, by the names of their classes, over a table in memory.

`ContinuousPartitioner(strictness=0.5)` is the class of that name, called with these arguments;
docs/partitions.md has what the run fills in. The table has these columns:

`label`: the class of a sample, or its group (a writer, a user) where the data have groups.
`feature`: the mean of the sample's inputs, where the inputs are numbers in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from compressors.grammar import Call, value
from fedsim.ground.errors import UsageError, unknown
from fedsim.tasks.optional import optional

if TYPE_CHECKING:
    from flwr_datasets.partitioner import Partitioner

LABEL, FEATURE, SAMPLE = "label", "feature", "sample"
"""The columns of the table; ``sample`` is the number of the sample."""

ROWS = (
    "ContinuousPartitioner", "DirichletPartitioner", "DistributionPartitioner",
    "ExponentialPartitioner", "GroupedNaturalIdPartitioner", "IidPartitioner",
    "InnerDirichletPartitioner", "LinearPartitioner", "NaturalIdPartitioner",
    "PathologicalPartitioner", "ShardPartitioner", "SizePartitioner", "SquarePartitioner",
)  # fmt: skip
"""The partitioners of flwr-datasets that deal rows and whose arguments can be typed."""

_OTHERS = {
    "IdToSizeFncPartitioner": "it takes a function; give FILE.py:FUNCTION, a function of yours",
    "VerticalEvenPartitioner": "it deals columns, and every client here holds whole samples",
    "VerticalSizePartitioner": "it deals columns, and every client here holds whole samples",
}
_BY = {"ContinuousPartitioner": FEATURE}
_COUNT, _COLUMN = "num_partitions", "partition_by"


def flower(spec: str) -> Any:
    """The module `flwr_datasets.partitioner`."""
    who = f"--partition is {spec!r}"
    return optional("flwr_datasets", who, "pip install flwr-datasets").partitioner


def is_class(name: str) -> bool:
    """Whether a name is that of a class of flwr-datasets.

    Example:
        >>> is_class("ShardPartitioner"), is_class("shards")
        (True, False)
    """
    return name.endswith("Partitioner")


def partition_column(call: Call) -> str | None:
    """The column that the partitioner goes by; None: by none.

    Raises ``UsageError`` as ``check_arguments``.
    """
    arguments = check_arguments(str(call), call)
    return arguments.get(_COLUMN)


def check_arguments(spec: str, call: Call) -> dict[str, Any]:
    """The arguments of the class that a text calls, as far as they are known without the data.

    Raises:
        UsageError: flwr-datasets has no such class, or its rows cannot be dealt by it; an argument
            is unknown, missing or cannot be read; or flwr-datasets is not installed.
    """
    prefix = f"--partition is {spec!r}"
    if reason := _OTHERS.get(call.name):
        raise UsageError(f"{prefix}: {reason}; fedsim takes {', '.join(ROWS)}")
    if call.name not in ROWS:
        raise UsageError(f"--partition: {unknown('partitioner', call.name, ROWS)}")
    takes = signature(vars(flower(spec))[call.name]).parameters
    if call.arguments:
        raise UsageError(f"{prefix}: give its arguments by name: {', '.join(takes)}")
    for name in call.named:
        if name not in takes:
            raise UsageError(f"{prefix}: {unknown('argument', name, takes)}")
    try:
        arguments = {name: _argument(one) for name, one in call.named.items()}
    except ValueError as error:
        raise UsageError(
            f"{prefix}: {error}; an argument is a number, a word, true, false, none, or a tuple "
            "such as (10, 20)"
        ) from error
    usual = {"shuffle": False, _COLUMN: _BY.get(call.name, LABEL)}
    arguments = {name: x for name, x in usual.items() if name in takes} | arguments
    if arguments.get(_COLUMN, LABEL) not in (LABEL, FEATURE):
        raise UsageError(
            f"{prefix}: {_COLUMN} is {arguments[_COLUMN]!r}; the columns are {LABEL}, {FEATURE}"
        )
    filled = (_COUNT, "seed", "partition_sizes" if call.name.startswith("Inner") else "")
    lacking = [
        name
        for name, one in takes.items()
        if one.default is one.empty and name not in arguments and name not in filled
    ]
    if lacking:
        raise UsageError(f"{prefix}: it lacks {', '.join(lacking)}")
    return arguments


def _argument(call: Call) -> Any:
    """A word's value, or the list of a tuple's; a tuple of tuples is an array of numbers.

    Example:
        >>> from compressors.grammar import read_call
        >>> _argument(read_call("(10, 20)")), _argument(read_call("((1, 2), (3, 4))")).shape
        ([10, 20], (2, 2))
    """
    if not call.called:
        return value(str(call))
    if call.name or call.named:
        raise ValueError(f"cannot read {str(call)!r}")
    parts = [_argument(one) for one in call.arguments]
    return np.array(parts) if parts and all(isinstance(x, list) for x in parts) else parts


def build_partitioner(spec: str, call: Call, clients: int, samples: int, seed: int) -> Partitioner:
    """The partitioner that a text names, for a run."""
    kind = vars(flower(spec))[call.name]
    takes = signature(kind).parameters
    usual: dict[str, Any] = {_COUNT: clients, "seed": seed}
    if call.name == "InnerDirichletPartitioner":  # of equal sizes unless it says others
        equal = np.diff(np.linspace(0, samples, clients + 1).astype(int))
        usual["partition_sizes"] = equal.tolist()
    arguments = {name: x for name, x in usual.items() if name in takes} | check_arguments(
        spec, call
    )
    try:
        partitioner: Partitioner = kind(**arguments)
    except (TypeError, ValueError) as error:
        raise UsageError(f"--partition is {spec!r}: flwr-datasets says: {error}") from error
    return partitioner


def deal(
    partitioner: Partitioner,
    spec: str,
    columns: Mapping[str, NDArray[Any]],
    order: NDArray[np.int64],
    clients: int,
) -> list[NDArray[np.int64]]:
    """The samples of each client, ascending, as a partitioner deals them.

    Raises:
        UsageError: it makes another number of partitions, cannot deal these samples, or leaves a
            client without samples.
    """
    from datasets import Dataset

    class RowsDataset(Dataset):
        """A table whose columns are arrays; datasets' own hands a column out row by row."""

        def __getitem__(self, key: Any) -> Any:
            return super().__getitem__(key)[:] if isinstance(key, str) else super().__getitem__(key)

    rows = {name: x[order] for name, x in columns.items()} | {SAMPLE: order}
    table = RowsDataset.from_dict(rows).with_format("numpy")
    prefix = f"--partition is {spec!r}"
    try:
        with warnings.catch_warnings():
            # A Dirichlet split is drawn again until it fits, with a warning each time, or ends in
            # an error; pyarrow warns of deprecations inside datasets.
            warnings.simplefilter("ignore")
            partitioner.dataset = table
            count = partitioner.num_partitions
            if count != clients:
                raise UsageError(
                    f"{prefix}: it makes {count} partitions, and --clients is {clients}"
                )
            parts = [partitioner.load_partition(i)[SAMPLE][:] for i in range(clients)]
    except UsageError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        raise UsageError(
            f"{prefix}: it cannot be made for {clients} clients and "
            f"{len(order)} samples; flwr-datasets says: {str(error).split('. ')[0].rstrip('.')}; "
            "give fewer --clients, a milder split, or drawn(SAMPLES, ALPHA)"
        ) from error
    if empty := [i for i, part in enumerate(parts) if len(part) == 0]:
        raise UsageError(
            f"{prefix}: it leaves client {empty[0]} of {clients} without samples; "
            "give fewer clients or a milder split"
        )
    return [np.sort(np.asarray(part, dtype=np.int64)) for part in parts]
