"""Data that come by user: LEAF's JSON files, and the HDF5 files of TensorFlow Federated."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data import samples
from fedsim.tasks.data.samples import SampleSet
from fedsim.tasks.optional import first_line, optional

Encoded = tuple[NDArray[Any], NDArray[Any]]
"""Inputs (N, ...) and targets (N, ...) of a user."""


@dataclass(frozen=True)
class User:
    """A user's samples.

    Attributes:
        name: of the user.
        x: inputs (N, ...).
        y: targets (N, ...).
    """

    name: str
    x: NDArray[Any]
    y: NDArray[Any]


def read_leaf(
    task: str, folder: Path, encode: Callable[[Sequence[Any], Sequence[Any]], Encoded]
) -> Iterator[User]:
    """The users of a folder of LEAF's JSON files, in the order of the files' names.

    A file has `users`, `num_samples` and `user_data`, with lists `x` and `y` of each user. Users
    without samples are left out.

    Raises:
        DataError: there is no such file, or one is not a file of LEAF's; the message names the
            user.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DataError(f"task {task}: {folder} has no file *.json, as LEAF's preprocess.sh makes")
    names = set[str]()
    for file in files:
        for name, x, y in _users(task, file):
            if name in names:
                raise DataError(f"task {task}: {file} has user {name!r}, whom another file has too")
            names.add(name)
            if not len(x):
                continue
            try:
                yield User(name, *encode(x, y))
            except (ValueError, TypeError) as error:
                raise DataError(
                    f"task {task}: {file}, user {name!r}: {first_line(error)}"
                ) from error


def _users(task: str, file: Path) -> Iterator[tuple[str, list[Any], list[Any]]]:
    try:
        held = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"task {task}: {file} cannot be read ({first_line(error)})") from error
    keys = ("users", "num_samples", "user_data")
    if not isinstance(held, dict) or not all(key in held for key in keys):
        raise DataError(f"task {task}: {file} is no file of LEAF's; it has {', '.join(keys)}")
    if len(held["users"]) != len(held["num_samples"]):
        raise DataError(
            f"task {task}: {file} has {len(held['users'])} users and "
            f"{len(held['num_samples'])} num_samples"
        )
    for name, count in zip(held["users"], held["num_samples"], strict=True):
        lists = held["user_data"].get(name)
        if not isinstance(lists, dict) or not {"x", "y"} <= lists.keys():
            raise DataError(f"task {task}: {file}: user_data has no x and y of user {name!r}")
        if not len(lists["x"]) == len(lists["y"]) == count:
            raise DataError(
                f"task {task}: {file}: user {name!r} has {len(lists['x'])} x, {len(lists['y'])} y "
                f"and num_samples {count}"
            )
        yield name, lists["x"], lists["y"]


def read_sentences(task: str, file: Path, users: int | None) -> Iterator[tuple[str, list[str]]]:
    """The sentences of each user in an HDF5 file of TensorFlow Federated's Stack Overflow.

    It has `examples/USER/tokens`, sentences whose words are split by spaces.

    Args:
        task: the name that messages begin with.
        file: `stackoverflow_train.h5`, or one of the same kind.
        users: how many are read, in the order of their names; None: all.

    Raises:
        DataError: h5py is not installed, or the file is another one.
    """
    h5py = optional("h5py", f"task {task}: {file}", "pip install 'fedsim-lab[hdf5]'")
    try:
        with h5py.File(file) as held:
            for name in islice(sorted(held["examples"]), users):
                yield name, [text.decode() for text in held["examples"][name]["tokens"][:]]
    except (OSError, KeyError, ValueError) as error:
        raise DataError(
            f"task {task}: {file} has no examples/USER/tokens ({first_line(error)})"
        ) from error


def by_user(
    task: str, what: str, train: Sequence[User], test: Sequence[User], classes: bool
) -> Data:
    """The ``Data`` of users: what a partition goes by is the user, and shard i is user i's."""
    for role, users in (("train", train), ("test", test)):
        if not users:
            raise DataError(f"task {task}: the files of {role} have no user with samples")
    first, second = (
        SampleSet(
            torch.from_numpy(np.concatenate([user.x for user in users])),
            np.concatenate([user.y for user in users]),
            np.repeat(np.arange(len(users)), [len(user.x) for user in users]),
        )
        for users in (train, test)
    )
    data = samples.data(task, f"{what}, {len(train):,} users", first, second, classes)
    ends = np.cumsum([len(user.x) for user in train])[:-1]
    return replace(data, shards=np.split(np.arange(data.train_count), ends))
