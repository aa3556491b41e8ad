"""Splits of Hugging Face's `datasets` as the ``Data`` of a task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data.items import Columns, MapStyle, find_columns
from fedsim.tasks.data.lazydata import Augment, Groups, Source, members_of, read_sources

Transform = Callable[[Any], Any]
"""The input as the row has it -> an image, an array or numbers, or a tuple or dict of these."""


def read_splits(
    task: str,
    splits: Mapping[str, Any],
    what: str,
    classes: bool,
    *,
    train: str = "train",
    test: str | float,
    named: Columns,
    groups: Groups,
    transform: Transform | None,
    augment: Augment | None,
    lazy: bool,
) -> Data:
    """The ``Data`` of the split ``train`` and of another, or of a fraction ``test`` of it."""
    if test == train:
        raise DataError(
            f"task {task}: test is {test!r}, the split that is trained on; give another one of "
            f"{', '.join(splits)}, or the fraction of {train} that is held out (0.2)"
        )
    for split in (train, *([test] if isinstance(test, str) else [])):
        if split not in splits:
            raise DataError(
                f"task {task}: there is no split {split!r} (splits: {', '.join(splits)}); test is "
                f"the name of one, or the fraction of {train} that is held out (0.2)"
            )
    column = groups if isinstance(groups, str) else None

    def rows(split: Any) -> tuple[MapStyle, Columns]:
        if transform is None:
            return split, named
        columns = find_columns(task, split[0], named, column)
        place = columns.inputs if isinstance(columns.inputs, str) else "inputs"
        return _Transformed(split, columns, place, transform), Columns(place, columns.label)

    first, columns = rows(splits[train])
    second = Source(rows(splits[test])[0]) if isinstance(test, str) else test
    members = column or members_of(task, splits[train], groups)
    return read_sources(task, Source(first), second, what, classes, columns, members, augment, lazy)


@dataclass(frozen=True)
class _Transformed:
    """Rows whose ``place`` holds what ``transform`` makes of the inputs."""

    rows: Any
    columns: Columns
    place: str
    transform: Transform

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row, names = self.rows[index], self.columns.inputs
        x = row[names] if isinstance(names, str) else {name: row[name] for name in names or ()}
        return {**row, self.place: self.transform(x)}
