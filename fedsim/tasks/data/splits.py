"""Splits of Hugging Face's `datasets` as the ``Data`` of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data import items, lazydata, samples
from fedsim.tasks.data.items import Columns, MapStyle
from fedsim.tasks.data.lazydata import Augment, Groups, Source, read_lazily


@dataclass(frozen=True)
class SplitReader:
    """How the rows of splits become samples.

    Attributes:
        task: the name that messages begin with.
        test: the split that is held out in addition to `train`, or a fraction of `train`.
        named: the columns of a row, as far as they are known.
        groups: what a partition may go by.
        transform: the input as the row has it -> an image, an array or numbers, or a tuple or dict
            of these; None: it is one.
        augment: (inputs of a training batch, generator) -> those that are trained on.
        lazy: whether a sample is read when a batch needs it, and not kept.
    """

    task: str
    test: str | float = "test"
    named: Columns = Columns()
    groups: Groups = None
    transform: Callable[[Any], Any] | None = None
    augment: Augment | None = None
    lazy: bool = False

    @property
    def column(self) -> str | None:
        """The column that a partition goes by."""
        return self.groups if isinstance(self.groups, str) else None

    def rows(self, split: Any) -> tuple[MapStyle, Columns]:
        """The samples of a split, and which of their columns are what."""
        if self.transform is None:
            return split, self.named
        columns = items.find_columns(self.task, split[0], self.named, self.column)
        place = columns.inputs if isinstance(columns.inputs, str) else "inputs"
        return _Transformed(split, columns, place, self.transform), Columns(place, columns.label)

    def data(
        self, splits: Mapping[str, Any] | None, dataset: Any, what: str, classes: bool
    ) -> Data:
        """The ``Data`` of splits.

        Raises:
            DataError: a split is not there, or as ``samples.read_samples`` and ``samples.data``.
        """
        task, test = self.task, self.test
        by_name = {"train": dataset} if splits is None else splits
        for split in ("train", *([test] if isinstance(test, str) else [])):
            if split not in by_name:
                raise DataError(
                    f"task {task}: the folder has no split {split!r} (splits: "
                    f"{'none' if splits is None else ', '.join(splits)}); test is the name of "
                    "one, or the fraction of train that is held out (0.2)"
                )
        train_rows, columns = self.rows(by_name["train"])
        members = lazydata.members_of(task, by_name["train"], self.groups)
        if self.lazy:
            test_source = test if not isinstance(test, str) else Source(self.rows(by_name[test])[0])
            lazy_groups = self.column if self.column is not None else members
            return read_lazily(
                task, Source(train_rows), test_source, what, columns, lazy_groups, self.augment
            )
        first = samples.read_samples(task, train_rows, columns, self.column)
        if members is not None:
            first = first._replace(groups=members)
        if isinstance(test, str):
            second = samples.read_samples(
                task, self.rows(by_name[test])[0], first.columns, self.column
            )
        else:
            first, second = samples.held_out(task, first, test)
        return samples.data(task, what, first, second, classes, self.augment)


@dataclass(frozen=True)
class _Transformed:
    """Rows whose ``place`` holds what ``transform`` makes of the inputs."""

    rows: Any
    columns: Columns
    place: str
    transform: Callable[[Any], Any]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row, names = self.rows[index], self.columns.inputs
        x = row[names] if isinstance(names, str) else {name: row[name] for name in names or ()}
        return {**row, self.place: self.transform(x)}
