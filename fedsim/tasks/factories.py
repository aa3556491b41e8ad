"""Tasks of one line, from what people have: a data set of torch, a folder of `datasets`, a table.

Each is a `Task` whose data every process that needs them reads once. Options that are
a task's own fields (`batch_size`, `loss`, ...) go to the `Task`; see docs/own-data.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from fedsim.ground.errors import DataError, UsageError, unknown
from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data import samples
from fedsim.tasks.data.items import Columns, Inputs, MapStyle
from fedsim.tasks.data.lazydata import Augment, Groups, Source, is_data, open_source, read_sources
from fedsim.tasks.data.samples import SampleSet
from fedsim.tasks.data.splits import read_splits
from fedsim.tasks.data.tables import (
    Split,
    Table,
    flat_columns,
    read_csv,
    read_tables,
    split_columns,
    standardized,
)
from fedsim.tasks.optional import first_line, optional

if TYPE_CHECKING:  # for frames alone
    import pandas as pd

TorchData = MapStyle | DataLoader[Any]
"""Samples, all of them in memory or, in a ``DataLoader``, read when a batch needs them."""


@dataclass(frozen=True, eq=False)
class Reader:
    """A task's `load` that says which files it reads: `fedsim.tasks.datacache` calls it once for
    them.

    Attributes:
        read: what is called.
        files: what it reads, as given and from where the task was made; empty: no files.
    """

    read: Callable[[Path | None], Data]
    files: tuple[tuple[str, Path], ...] = ()

    def __call__(self, folder: Path | None, download: bool) -> Data:
        return self.read(folder)

    def paths(self, folder: Path | None) -> list[Path]:
        """Where its files and folders are, as far as they are there."""
        existing = (existing_path(name, start, folder) for name, start in self.files)
        return [path for path in existing if path is not None]


def task_of(
    name: str,
    model: Callable[..., nn.Module],
    read: Callable[..., Data],
    options: dict[str, Any],
    files: Sequence[tuple[str, Path]] = (),
) -> Task:
    """The task `name`; `read` takes the data folder and, by name, whether targets are classes."""
    field_names = [
        f.name for f in fields(Task) if f.init and f.name not in ("name", "build", "load")
    ]
    for option in options:
        if option not in field_names:
            raise UsageError(f"task {name}: {unknown('option', option, field_names)}")
    if ("loss" in options) != ("metric" in options):
        present, other = ("loss", "metric") if "loss" in options else ("metric", "loss")
        raise UsageError(
            f"task {name}: {present} is given and {other} is not; give both, or neither"
        )
    usual: dict[str, Any] = {
        "optimizer": partial(torch.optim.Adam, lr=0.001),
        "loss": cross_entropy,
        "metric": correct,
    }
    load = Reader(partial(read, classes="loss" not in options), tuple(files))
    return Task(name=name, build=model, load=load, **(usual | options))


def from_torch(
    train: TorchData | Callable[[], TorchData],
    test: TorchData | Callable[[], TorchData] | float,
    model: Callable[..., nn.Module],
    *,
    name: str,
    inputs: Inputs = None,
    label: str | None = None,
    groups: Groups = None,
    augment: Augment | None = None,
    lazy: bool = False,
    **fields: Any,
) -> Task:
    """A task from a map-style data set: torchvision's, an `ImageFolder`, any torch `Dataset`.

    Samples are pairs (input, target), tuples (input, ..., input, target), or rows with named
    columns as those of Hugging Face's `datasets`. An input is an image, an array or numbers, or a
    tuple or dict of these. The model is called with one input as `model(x)`, with a tuple as
    `model(*x)`, with a dict as `model(**x)`.

    All samples are read once and stay in memory, unless they are read lazily. Images (PIL, or
    uint8) stay bytes and are normalised by the mean and deviation of each channel over the training
    images; lazily read ones become numbers from 0 to 1. Targets are class numbers from 0, or words,
    which are numbered in their order (not lazily).

    Args:
        train: training samples, or a function that makes the data set: then the function alone
            travels to other processes, and not what the data set holds in memory. A `DataLoader` is
            read lazily, through its `collate_fn`; which samples a batch has follows from the run.
        test: held-out samples, in the same forms; or the fraction of `train` that is held out,
            the same samples in every run.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        inputs: where samples are rows: the column of the input, or the names of several, which make
            a dict; None: the one that is left, or a dict of all that are left.
        label: the column of the targets; None: "label", else "labels".
        groups: what partitions go by, where it is not the class: a column (not lazily), a number
            or a word per training sample, or a function of the training data set that gives these.
        augment: (inputs of a training batch (B, ...), generator) -> those that are trained on.
        lazy: whether a sample is read when a batch needs it, and not kept.
        fields: other fields of the `Task`: `batch_size`, `iterations`, `optimizer` (default:
            Adam 0.001), `loss` and `metric` (default: cross entropy and accuracy), ...

    Raises:
        UsageError: `train` or `test` is not a data set, or a field is unknown. A bad sample is a
            `DataError` when the data are read.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> points = TensorDataset(torch.randn(100, 2), torch.arange(100) % 2)
        >>> task = from_torch(points, 0.2, lambda: nn.Linear(2, 2), name="points", iterations=20)
        >>> data = task.load(None, False)
        >>> data.train_x.shape, data.test_x.shape
        (torch.Size([80, 2]), torch.Size([20, 2]))
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    for role, dataset in (("train", train), *(() if share is not None else (("test", test),))):
        sized = is_data(dataset) and (
            hasattr(dataset, "__len__") or isinstance(dataset, DataLoader)
        )
        if isinstance(dataset, Tensor) or not (sized or callable(dataset)):
            either = ", or a fraction of train (0.2)" if role == "test" else ""
            raise UsageError(
                f"task {name}: {role} is of type {type(dataset).__name__}; it is a map-style data "
                "set (len(it) and it[i]; of tensors: torch.utils.data.TensorDataset(x, y)), a "
                f"DataLoader, or a function that makes one{either}"
            )
        if isinstance(dataset, DataLoader):
            open_source(name, role, dataset)

    # As they are now: what their owner changes later changes no run of this task.
    train, test, groups = _snapshot(train), _snapshot(test), deepcopy(groups)
    named = Columns(inputs, label)

    def read(folder: Path | None, classes: bool) -> Data:
        train_source = open_source(name, "train", train)
        test_source = share if share is not None else open_source(name, "test", test)
        if isinstance(test_source, Source):
            samples.check_classes(name, train_source.dataset, test_source.dataset)
        what = type(train_source.dataset).__name__
        return read_sources(
            name, train_source, test_source, what, classes, named, groups, augment, lazy
        )

    return task_of(name, model, read, fields)


def from_datasets(
    folder: str | os.PathLike[str],
    model: Callable[..., nn.Module],
    *,
    name: str,
    test: str | float = "test",
    transform: Callable[[Any], Any] | None = None,
    inputs: Inputs = None,
    label: str | None = None,
    groups: Groups = None,
    augment: Augment | None = None,
    lazy: bool = False,
    **fields: Any,
) -> Task:
    """A task from a folder that Hugging Face's `datasets` wrote (`save_to_disk`).

    Args:
        folder: as `datasets.load_from_disk` takes it, from the current folder, else in `--data`.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        test: the split that is held out, while `train` is trained on; or a fraction of `train`, or
            of a folder without splits.
        transform: the input as the row has it (of several columns a dict) -> an image, an array or
            numbers, or a tuple or dict of these, as a tokenizer makes it; None: it is one.
        inputs: as for `from_torch`.
        label: as for `from_torch`.
        groups: as for `from_torch`.
        augment: as for `from_torch`.
        lazy: as for `from_torch`.
        fields: as for `from_torch`.

    Example:
        >>> from_datasets("flowers", lambda: nn.Linear(4, 3), name="flowers").iterations
        1000
    """
    if not isinstance(test, str):
        check_share(name, test)
    start = Path(folder).resolve()

    parts: dict[str, Any] = {"test": test, "named": Columns(inputs, label), "groups": groups}
    parts |= {"transform": transform, "augment": augment, "lazy": lazy}

    def read(data_folder: Path | None, classes: bool) -> Data:
        path = path_of(name, folder, start, data_folder)
        datasets = optional("datasets", f"task {name}", "pip install datasets")
        try:
            dataset = datasets.load_from_disk(os.fspath(path))
        except (OSError, ValueError) as error:
            raise DataError(
                f"task {name}: {path} is no folder that datasets' save_to_disk wrote "
                f"({first_line(error)})"
            ) from error
        splits = dataset if isinstance(dataset, dict) else {"train": dataset}
        return read_splits(name, splits, f"datasets, {start.name}", classes, **parts)

    return task_of(name, model, read, fields, [(os.fspath(folder), start)])


def from_csv(
    file: str | os.PathLike[str],
    model: Callable[..., nn.Module],
    *,
    name: str,
    label: str,
    test: str | os.PathLike[str] | float = 0.2,
    inputs: Split = None,
    groups: str | None = None,
    standardize: bool = True,
    **fields: Any,
) -> Task:
    """A task from a CSV file whose first line names its columns.

    Args:
        file: from the current folder, else in `--data`; packed (`.csv.gz`) too.
        model: a function that makes a new model; its inputs are float32 (B, columns).
        name: of the task, as a results folder has it.
        label: the column of the class: whole numbers from 0, or words, which are numbered in
            their order; with `loss` and `metric` given, any number.
        test: the fraction of the rows that is held out, the same rows in every run; or another file
            with the same columns, in any order.
        inputs: the columns that are inputs; None: all but `label` and `groups`. A mapping of names
            to columns, `{"size": ["length", "width"], "place": "town"}`, makes a dict of inputs
            (B, columns), with which the model is called by name.
        groups: the column that partitions go by (a site, a person); None: the class.
        standardize: whether inputs are standardized with the training rows' mean and deviation.
        fields: as in `from_torch`.

    Example:
        >>> from_csv("iris.csv", lambda: nn.Linear(4, 3), name="iris", label="species").name
        'iris'
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    names = [os.fspath(file), *([] if share is not None else [str(test)])]
    files = [(f, Path(f).resolve()) for f in names]
    inputs = deepcopy(inputs)

    def parts(folder: Path | None) -> list[SampleSet]:
        paths = [path_of(name, csv_file, start, folder) for csv_file, start in files]
        tables = [read_csv(name, path, label, groups) for path in paths]
        return read_tables(name, tables, flat_columns(inputs), label, groups)

    what = files[0][1].name
    return _of_rows(name, model, parts, what, share, standardize, inputs, fields, files)


def from_frame(
    frame: pd.DataFrame,
    model: Callable[..., nn.Module],
    *,
    name: str,
    label: str,
    test: pd.DataFrame | float = 0.2,
    inputs: Split = None,
    groups: str | None = None,
    standardize: bool = True,
    **fields: Any,
) -> Task:
    """A task from a pandas frame, as `from_csv` makes it from a file.

    The frames are copied: later changes to them change no run of the task.

    Args:
        frame: a row per sample.
        model: a function that makes a new model; its inputs are float32 (B, columns).
        name: of the task, as a results folder has it.
        test: the fraction of the rows that is held out, the same rows in every run; or another
            frame with the same columns, in any order.
        label: as for `from_csv`.
        inputs: as for `from_csv`.
        groups: as for `from_csv`.
        standardize: as for `from_csv`.
        fields: as for `from_csv`.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": range(20), "odd": [k % 2 for k in range(20)]})
        >>> task = from_frame(frame, lambda: nn.Linear(1, 2), name="odd", label="odd")
        >>> task.load(None, False).train_x.shape
        torch.Size([16, 1])
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    tables = [Table("the frame", frame.copy())]  # as it is now: its owner may change it later
    if not isinstance(test, int | float):
        tables.append(Table("the frame test", test.copy()))
    inputs = deepcopy(inputs)

    def parts(folder: Path | None) -> list[SampleSet]:
        return read_tables(name, tables, flat_columns(inputs), label, groups)

    return _of_rows(name, model, parts, "a frame", share, standardize, inputs, fields)


def _of_rows(
    name: str,
    model: Callable[..., nn.Module],
    parts: Callable[[Path | None], list[SampleSet]],
    what: str,
    share: float | None,
    standardize: bool,
    inputs: Split,
    fields: dict[str, Any],
    files: Sequence[tuple[str, Path]] = (),
) -> Task:
    """The task of a table of rows, and of another that is held out where no ``share`` is."""

    def read(folder: Path | None, classes: bool) -> Data:
        parts_read = parts(folder)
        first, second = (
            parts_read if share is None else samples.held_out(name, parts_read[0], share)
        )
        if standardize and first.x.shape[1:] == second.x.shape[1:]:
            first, second = standardized(first, second)
        first, second = (
            part._replace(x=split_columns(part.x.float(), inputs)) for part in (first, second)
        )
        return samples.data(name, what, first, second, classes, read=parts_read)

    return task_of(name, model, read, fields, files)


def check_share(task: str, test: float) -> float:
    """The fraction that is held out; refused unless it is above 0 and below 1."""
    if not 0 < test < 1:
        raise UsageError(f"task {task}: test is {test!r}; a fraction is above 0 and below 1")
    return test


def _snapshot(dataset: Any) -> Any:
    """A copy of a data set; a function, a fraction, and what cannot be copied are as they were."""
    if not is_data(dataset):
        return dataset
    try:
        return deepcopy(dataset)
    except Exception:  # open files, locks: a user's own class may raise any
        return dataset


def existing_path(file: str | os.PathLike[str], start: Path, folder: Path | None) -> Path | None:
    """``start``, where the task was made, or what ``file`` is in the data folder."""
    candidates = [start, *([] if folder is None else [folder / file])]
    return next((path for path in candidates if path.exists()), None)


def path_of(task: str, file: str | os.PathLike[str], start: Path, folder: Path | None) -> Path:
    """As ``existing_path``; ``DataError`` where there is none."""
    if (path := existing_path(file, start, folder)) is not None:
        return path
    also = f", nor in {folder}" if folder is not None else " (--data DIR names another folder)"
    raise DataError(f"task {task}: {os.fspath(file)} is not in {start.parent}{also}")
