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
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor, nn

from fedsim.ground.errors import DataError, UsageError, unknown
from fedsim.tasks.base import Data, Task, correct, cross_entropy
from fedsim.tasks.data import samples
from fedsim.tasks.data.samples import MapStyle, Part
from fedsim.tasks.data.tables import Inputs, Table, read_csv, read_tables, standardized
from fedsim.tasks.optional import first_line

if TYPE_CHECKING:  # for frames alone
    import pandas as pd

Augment = Callable[[Tensor, Generator], Tensor]
Groups = str | Sequence[Any] | None


@dataclass(frozen=True, eq=False)
class Reader:
    """A task's `load` that says which files it reads: `fedsim.tasks.loaded` calls it once for them.

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
        found = (found_in(given, start, folder) for given, start in self.files)
        return [path for path in found if path is not None]


def _task(
    name: str, model: Callable[..., nn.Module], read: Callable[..., Data], own: dict[str, Any],
    files: Sequence[tuple[str, Path]] = (),
) -> Task:  # fmt: skip
    """The task `name`; `read` takes the data folder and, by name, whether targets are classes."""
    known = [f.name for f in fields(Task) if f.init and f.name not in ("name", "build", "load")]
    for option in own:
        if option not in known:
            raise UsageError(f"task {name}: {unknown('option', option, known)}")
    if ("loss" in own) != ("metric" in own):
        given, other = ("loss", "metric") if "loss" in own else ("metric", "loss")
        raise UsageError(f"task {name}: {given} is given and {other} is not; give both, or neither")
    usual: dict[str, Any] = {
        "optimizer": partial(torch.optim.Adam, lr=0.001),
        "loss": cross_entropy,
        "metric": correct,
    }
    load = Reader(partial(read, classes="loss" not in own), tuple(files))
    return Task(name=name, build=model, load=load, **(usual | own))


def from_torch(
    train: MapStyle | Callable[[], MapStyle],
    test: MapStyle | Callable[[], MapStyle] | float,
    model: Callable[..., nn.Module],
    *,
    name: str,
    inputs: str | None = None,
    label: str | None = None,
    groups: Groups = None,
    augment: Augment | None = None,
    **fields: Any,
) -> Task:
    """A task from a map-style data set: torchvision's, an `ImageFolder`, any torch `Dataset`.

    Samples are pairs (input, target), or rows with named columns as those of Hugging Face's
    `datasets`. All are read once and stay in memory. Images (PIL, or uint8) stay bytes and are
    normalised by the mean and deviation of each channel over the training images. Targets are
    class numbers from 0, or words, which are numbered in their order.

    Args:
        train: training samples, or a function that makes the data set: then the function alone
            travels to other processes, and not what the data set holds in memory.
        test: held-out samples, likewise; or the fraction of `train` that is held out, drawn
            alike in every run.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        inputs: the column of the inputs, where samples are rows; None: the one that is left.
        label: the column of the labels, likewise; None: "label".
        groups: what partitions go by, where it is not the class: a column, or a number or a word
            per training sample.
        augment: (inputs of a training batch (B, ...), generator) -> those that are trained on.
        fields: other fields of the `Task`: `batch_size`, `iterations`, `optimizer` (default:
            Adam 0.001), `loss` and `metric` (default: cross entropy and accuracy), ...

    Raises:
        UsageError: `train` or `test` is not a data set, or a field is unknown. What is wrong with
            a sample is a `DataError` when the data are read.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> points = TensorDataset(torch.randn(100, 2), torch.arange(100) % 2)
        >>> task = from_torch(points, 0.2, lambda: nn.Linear(2, 2), name="points", iterations=20)
        >>> data = task.load(None, False)
        >>> data.train_x.shape, data.test_x.shape
        (torch.Size([80, 2]), torch.Size([20, 2]))
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    for role, given in (("train", train), *(() if share is not None else (("test", test),))):
        whole = hasattr(given, "__len__") and hasattr(given, "__getitem__")
        if isinstance(given, Tensor) or not (whole or callable(given)):
            either = ", or a fraction of train (0.2)" if role == "test" else ""
            raise UsageError(
                f"task {name}: {role} is of type {type(given).__name__}; it is a map-style data "
                "set (len(it) and it[i]; of tensors: torch.utils.data.TensorDataset(x, y)), or a "
                f"function that makes one{either}"
            )

    # As they are now: what their owner changes later changes no run of this task.
    train, test, groups = _as_now(train), _as_now(test), deepcopy(groups)

    def read(folder: Path | None, classes: bool) -> Data:
        column = groups if isinstance(groups, str) else None
        here = _made(train)
        first = samples.read(name, here, inputs, label, column)
        if groups is not None and not isinstance(groups, str):
            members = samples.numbered(groups, len(first.x), name)
            first = first._replace(groups=members)
        if share is not None:
            first, second = samples.held_out(name, first, share)
        else:
            other = _made(test)
            samples.check_classes(name, here, other)
            second = samples.read(name, other, *first.columns, column)
        return samples.data(name, type(here).__name__, first, second, classes, augment)

    return _task(name, model, read, fields)


def from_datasets(
    folder: str | os.PathLike[str],
    model: Callable[..., nn.Module],
    *,
    name: str,
    test: str | float = "test",
    transform: Callable[[Any], Any] | None = None,
    inputs: str | None = None,
    label: str | None = None,
    groups: str | None = None,
    augment: Augment | None = None,
    **fields: Any,
) -> Task:
    """A task from a folder that Hugging Face's `datasets` wrote (`save_to_disk`).

    Args:
        folder: as `datasets.load_from_disk` takes it, from the current folder, else in `--data`.
        model: a function that makes a new model.
        name: of the task, as a results folder has it.
        test: the split that is held out, beside `train`; or a fraction of `train`, or of a folder
            without splits.
        transform: an input as the row has it -> an image, an array or numbers; None: it is one.
        inputs: columns, as in `from_torch`.
        label: as for `from_torch`.
        groups: as for `from_torch`.
        augment: as in `from_torch`.
        fields: as for `from_torch`.

    Example:
        >>> from_datasets("flowers", lambda: nn.Linear(4, 3), name="flowers").iterations
        1000
    """
    share = None if isinstance(test, str) else check_share(name, test)
    start = Path(folder).resolve()

    def rows(split: Any) -> MapStyle:
        found: MapStyle = split
        if transform is None:
            return found
        column, _ = samples.columns(name, split[0], inputs, label, groups)
        return _Transformed(found, column, transform)

    def read(data_folder: Path | None, classes: bool) -> Data:
        path = _found(name, folder, start, data_folder)
        try:
            whole = import_module("datasets").load_from_disk(os.fspath(path))
        except ImportError as error:
            raise DataError(
                f"task {name}: the package datasets cannot be imported ({first_line(error)}).\n"
                "pip install datasets"
            ) from error
        except (OSError, ValueError) as error:
            raise DataError(
                f"task {name}: {path} is no folder that datasets' save_to_disk wrote "
                f"({first_line(error)})"
            ) from error
        splits = whole if isinstance(whole, dict) else {"train": whole}
        for split in ("train", *(() if share is not None else (str(test),))):
            if split not in splits:
                raise DataError(
                    f"task {name}: the folder has no split {split!r} (splits: "
                    f"{', '.join(splits) if splits is whole else 'none'}); test is the name of "
                    "one, or the fraction of train that is held out (0.2)"
                )
        first = samples.read(name, rows(splits["train"]), inputs, label, groups)
        if share is not None:
            first, second = samples.held_out(name, first, share)
        else:
            second = samples.read(name, rows(splits[str(test)]), *first.columns, groups)
        return samples.data(name, f"datasets, {start.name}", first, second, classes, augment)

    return _task(name, model, read, fields, [(os.fspath(folder), start)])


def from_csv(
    file: str | os.PathLike[str],
    model: Callable[..., nn.Module],
    *,
    name: str,
    label: str,
    test: str | os.PathLike[str] | float = 0.2,
    inputs: Inputs = None,
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
        test: the fraction of the rows that is held out, drawn alike in every run; or another file
            with the same columns, in any order.
        inputs: the columns that are inputs; None: all but `label` and `groups`.
        groups: the column that partitions go by (a site, a person); None: the class.
        standardize: whether inputs are less their mean over the training rows, and divided by
            their deviation there.
        fields: as in `from_torch`.

    Example:
        >>> from_csv("iris.csv", lambda: nn.Linear(4, 3), name="iris", label="species").name
        'iris'
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    names = [os.fspath(file), *([] if share is not None else [str(test)])]
    files = [(f, Path(f).resolve()) for f in names]
    inputs = deepcopy(inputs)

    def parts(folder: Path | None) -> list[Part]:
        paths = [_found(name, given, start, folder) for given, start in files]
        tables = [read_csv(name, path, label, groups) for path in paths]
        return read_tables(name, tables, inputs, label, groups)

    return _of_rows(name, model, parts, files[0][1].name, share, standardize, fields, files)


def from_frame(
    frame: pd.DataFrame,
    model: Callable[..., nn.Module],
    *,
    name: str,
    label: str,
    test: pd.DataFrame | float = 0.2,
    inputs: Inputs = None,
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
        label: the column of the class, as for `from_csv`.
        test: the fraction of the rows that is held out, drawn alike in every run; or another frame
            with the same columns, in any order.
        inputs: columns, as for `from_csv`.
        groups: likewise.
        standardize: likewise.
        fields: as in `from_torch`.

    Example:
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"x": range(20), "odd": [k % 2 for k in range(20)]})
        >>> task = from_frame(frame, lambda: nn.Linear(1, 2), name="odd", label="odd")
        >>> task.load(None, False).train_x.shape
        torch.Size([16, 1])
    """
    share = check_share(name, test) if isinstance(test, int | float) else None
    tables = [Table("the frame", frame.copy())]  # as it is now, whatever its owner changes later
    if not isinstance(test, int | float):
        tables.append(Table("the frame test", test.copy()))
    inputs = deepcopy(inputs)

    def parts(folder: Path | None) -> list[Part]:
        return read_tables(name, tables, inputs, label, groups)

    return _of_rows(name, model, parts, "a frame", share, standardize, fields)


def _of_rows(
    name: str, model: Callable[..., nn.Module], parts: Callable[[Path | None], list[Part]],
    what: str, share: float | None, standardize: bool, fields: dict[str, Any],
    files: Sequence[tuple[str, Path]] = (),
) -> Task:  # fmt: skip
    """The task of a table of rows, and of another that is held out where no ``share`` is."""

    def read(folder: Path | None, classes: bool) -> Data:
        found = parts(folder)
        first, second = found if share is None else samples.held_out(name, found[0], share)
        if standardize and first.x.shape[1:] == second.x.shape[1:]:
            first, second = standardized(first, second)
        first, second = (part._replace(x=part.x.float()) for part in (first, second))
        return samples.data(name, what, first, second, classes, read=found)

    return _task(name, model, read, fields, files)


def check_share(task: str, test: float) -> float:
    """The fraction that is held out; refused unless it is above 0 and below 1."""
    if not 0 < test < 1:
        raise UsageError(f"task {task}: test is {test!r}; a fraction is above 0 and below 1")
    return test


@dataclass(frozen=True)
class _Transformed:
    """Rows of which the column ``inputs`` is what ``transform`` makes of it."""

    rows: Any
    inputs: str
    transform: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.rows[index]
        return {**row, self.inputs: self.transform(row[self.inputs])}


def _as_now(given: Any) -> Any:
    """A copy of a data set; a function, a fraction, and what cannot be copied are as they were."""
    if not hasattr(given, "__getitem__"):
        return given
    try:
        return deepcopy(given)
    except Exception:  # open files, locks: whatever a class of the user's own raises
        return given


def _made(given: Any) -> MapStyle:
    """The data set itself, where a function makes it."""
    made: MapStyle = given if hasattr(given, "__getitem__") else given()
    return made


def found_in(given: str | os.PathLike[str], start: Path, folder: Path | None) -> Path | None:
    """``start``, where the task was made, or what ``given`` is in the data folder."""
    there = [start, *([] if folder is None else [folder / given])]
    return next((path for path in there if path.exists()), None)


def _found(
    task: str, given: str | os.PathLike[str], start: Path, folder: Path | None
) -> Path:
    """As ``found_in``; ``DataError`` where there is none."""
    if (path := found_in(given, start, folder)) is not None:
        return path
    also = f", nor in {folder}" if folder is not None else " (--data DIR names another folder)"
    raise DataError(f"task {task}: {os.fspath(given)} is not in {start.parent}{also}")
