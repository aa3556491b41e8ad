"""A task from a data set of Hugging Face's hub, as `flwr_datasets.FederatedDataset` loads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from compressors.usercode import typed
from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks.base import Data, Task
from fedsim.tasks.data import samples
from fedsim.tasks.data.filesplits import FIXED
from fedsim.tasks.data.flowersplits import SAMPLE
from fedsim.tasks.data.items import Columns, Inputs
from fedsim.tasks.data.lazydata import Augment, Groups
from fedsim.tasks.data.partition import check_partition
from fedsim.tasks.data.splits import read_splits
from fedsim.tasks.factories import check_share, existing_path, task_of
from fedsim.tasks.optional import first_line, optional

if TYPE_CHECKING:
    from flwr_datasets.partitioner import Partitioner


def from_hub(
    dataset: str,
    model: Callable[..., nn.Module],
    *,
    name: str,
    partitioner: str | Partitioner | Callable[[Any], Sequence[Any]] | None = None,
    subset: str | None = None,
    train: str = "train",
    test: str | float = "test",
    preprocessor: Callable[[Any], Any] | None = None,
    shuffle: bool = True,
    seed: int | None = 42,
    load: Mapping[str, Any] | None = None,
    transform: Callable[[Any], Any] | None = None,
    inputs: Inputs = None,
    label: str | None = None,
    groups: Groups = None,
    augment: Augment | None = None,
    lazy: bool = False,
    **fields: Any,
) -> Task:
    """A task from a data set that `flwr_datasets.FederatedDataset` loads.

    With a partitioner, client i holds the rows of `FederatedDataset(...).load_partition(i)`, and
    `--partition fixed` is the task's default. `datasets` downloads what is not in its cache, unless
    `HF_HUB_OFFLINE=1` is set.

    Args:
        dataset: a name on the hub, such as "ylecun/mnist"; or a folder of CSV, JSON or Parquet
            files or images, from the current folder, else in `--data`.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        partitioner: a partitioner of flwr-datasets, which goes by the columns of the data set; a
            function of the training split (a `datasets.Dataset`), which returns the row numbers of
            each client; a text as `--partition` takes it, such as "dirichlet(0.3)" or "split.csv";
            None: the task's default partition is "iid".
        subset: as `FederatedDataset` takes it.
        train: the split that clients hold.
        test: the split that is held out; or a fraction of `train`, the same rows in every run. No
            client has held-out rows.
        preprocessor: from the `DatasetDict` to another, as `FederatedDataset` takes it.
        shuffle: whether the rows of each split are shuffled first, as `FederatedDataset` does.
        seed: of that shuffle.
        load: further arguments of `datasets.load_dataset`, such as `{"revision": "..."}`.
        transform: the input as the row has it (of several columns a dict) -> an image, an array or
            numbers, or a tuple or dict of these; None: it is one.
        inputs: as for `from_torch`.
        label: as for `from_torch`.
        groups: as for `from_torch`.
        augment: as for `from_torch`.
        lazy: as for `from_torch`.
        fields: as for `from_torch`; `clients` is the number of the partitioner's partitions.

    Raises:
        UsageError: an argument is unknown or out of range, or the partition is given twice. Errors
            of the data set are a `DataError` when the data are read.

    Example:
        >>> task = from_hub("ylecun/mnist", lambda: nn.Linear(784, 10), name="hub-mnist",
        ...     partitioner="dirichlet(0.3)", clients=10)
        >>> task.partition, task.clients
        ('dirichlet(0.3)', 10)
    """
    if not isinstance(test, str):
        check_share(name, test)
    if partitioner is not None and "partition" in fields:
        raise UsageError(
            f"task {name}: partitioner and partition are both given ({partitioner!r}, "
            f"{fields['partition']!r}); give one of them"
        )
    if isinstance(partitioner, str):
        check_partition(partitioner)
        fields["partition"] = partitioner
    elif partitioner is not None:
        fields["partition"] = FIXED
        _check_kind(name, partitioner)
    start = Path(dataset).resolve()
    parts: dict[str, Any] = {"train": train, "test": test, "named": Columns(inputs, label)}
    parts |= {"groups": groups, "transform": transform, "augment": augment, "lazy": lazy}
    deal = None if isinstance(partitioner, str) else deepcopy(partitioner)
    options = dict(load or {})

    def read(folder: Path | None, classes: bool) -> Data:
        hub_splits: dict[str, Any] = {}

        def prepared(splits: Any) -> Any:
            splits = splits if preprocessor is None else preprocessor(splits)
            hub_splits.update(splits)
            return splits

        place = existing_path(dataset, start, folder)
        flower = optional("flwr_datasets", f"task {name}", "pip install flwr-datasets")
        try:
            source = flower.FederatedDataset(
                dataset=dataset if place is None else os.fspath(place),
                subset=subset,
                preprocessor=prepared,
                partitioners={train: 1},
                shuffle=shuffle,
                seed=seed,
                **options,
            )
            rows = source.load_split(train)
        except (OSError, ValueError) as error:
            raise DataError(
                f"task {name}: data set {dataset!r}, split {train!r}, cannot be loaded "
                f"({first_line(error)})"
            ) from error
        splits = hub_splits | {train: rows}
        data = read_splits(name, splits, f"data set {Path(dataset).name}", classes, **parts)
        if deal is None:
            return data
        dealt = _parts(name, deepcopy(deal), rows)
        if not isinstance(test, str):
            left = samples.held_out_numbers(name, len(rows), test)[0]
            dealt = [_renumbered(name, part, left, len(rows)) for part in dealt]
        return replace(data, shards=dealt)

    return task_of(name, model, read, fields, [(dataset, start)])


def _check_kind(task: str, partitioner: object) -> None:
    """Refuses all except partitioners of flwr-datasets and functions."""
    if callable(partitioner):
        return
    from flwr_datasets.partitioner import Partitioner

    if not isinstance(partitioner, Partitioner):
        raise UsageError(
            f"task {task}: partitioner is of type {type(partitioner).__name__}; give a partitioner "
            "of flwr-datasets, a function of the training split, or a text as --partition takes it"
        )


def _parts(task: str, deal: Any, rows: Any) -> list[Any]:
    """The row numbers of each client."""
    from datasets import ClassLabel, Value

    try:
        if callable(deal):
            return list(deal(rows))
        # Numbering the rows copies them: without images.
        plain = [c for c, kind in rows.features.items() if isinstance(kind, Value | ClassLabel)]
        deal.dataset = rows.select_columns(plain).add_column(SAMPLE, np.arange(len(rows)))
        count = deal.num_partitions
        return [np.asarray(deal.load_partition(i)[SAMPLE][:]) for i in range(count)]
    except Exception as error:  # a user's own function may raise any
        raise DataError(
            f"task {task}: the partitioner cannot deal {len(rows)} rows with the columns "
            f"{', '.join(rows.column_names)}: {typed(error)}"
        ) from error


def _renumbered(task: str, part: Any, left: np.ndarray, total: int) -> np.ndarray:
    """The rows of a client that are not held out, by their numbers among these."""
    numbers = np.asarray(part)
    if len(odd := numbers[(numbers < 0) | (numbers >= total)]):
        raise DataError(
            f"task {task}: the partitioner gives the row {odd[0]}; rows are 0 to {total - 1}"
        )
    positions = np.searchsorted(left, numbers[np.isin(numbers, left)])
    return positions.astype(np.int64)
