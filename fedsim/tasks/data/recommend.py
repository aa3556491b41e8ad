"""Ratings of MovieLens as pairs of user and item: one left out per user, negatives drawn.

The protocol is that of He et al., "Neural collaborative filtering", 2017, section 4.1: see
docs/tasks.md. Every rating of any value is an interaction.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from fedsim.ground.errors import DataError
from fedsim.tasks.base import Data
from fedsim.tasks.data import textfiles

RATING_FILES = ("ml-20m/ratings.csv", "ml-1m/ratings.dat", "ml-latest-small/ratings.csv")
"""The first file present is read: the paper's set, its predecessor's, the small set."""
HELD_OUT_NEGATIVES = 99
NEGATIVES = 4
_TEST_SEED = 0  # fixed: runs of all seeds are judged on the same items
_COLUMNS = ("user", "item", "rating", "time")


@dataclass(frozen=True)
class UserItems:
    """Which user has which item, of `items` in all: sorted keys user * items + item, int64."""

    keys: Tensor
    items: int

    @classmethod
    def of(cls, pairs: Tensor, items: int) -> UserItems:
        """From pairs (N, 2) of user and item."""
        return cls((pairs[:, 0].long() * items + pairs[:, 1]).sort().values, items)

    def has(self, users: Tensor, items: Tensor) -> Tensor:
        """Whether each user has the item, a bool tensor of the shape of `users` and `items`."""
        keys = users.long() * self.items + items
        at = torch.searchsorted(self.keys, keys).clamp_(max=len(self.keys) - 1)
        return self.keys[at] == keys

    def sample_unrated(
        self, users: Tensor, count: int, generator: Generator, distinct: bool
    ) -> Tensor:
        """Items that `users` (B,) do not have, drawn evenly: (B, count), int32."""
        rows = users.repeat_interleave(count)
        drawn = torch.randint(self.items, (len(rows),), dtype=torch.int32, generator=generator)
        while True:
            wrong = self.has(rows, drawn)
            if distinct:
                ordered, place = drawn.view(-1, count).sort(dim=1, stable=True)
                repeated = torch.zeros_like(ordered, dtype=torch.bool)
                repeated[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
                wrong |= torch.empty_like(repeated).scatter_(1, place, repeated).flatten()
            again = wrong.nonzero().flatten()
            if not len(again):
                return drawn.view(-1, count)
            drawn[again] = torch.randint(
                self.items, (len(again),), dtype=torch.int32, generator=generator
            )


@dataclass(frozen=True)
class Draw:
    """Training batches: interactions, and after them four negatives each, drawn anew."""

    pairs: Tensor
    user_items: UserItems

    def __call__(self, index: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Pairs (5 B, 2) and targets (5 B,): 1 for the interactions `index` (B,), then 0."""
        positives = self.pairs[index]
        users = positives[:, 0]
        items = self.user_items.sample_unrated(users, NEGATIVES, generator, distinct=False)
        drawn = torch.stack([users.repeat_interleave(NEGATIVES), items.flatten()], dim=1)
        targets = torch.zeros(len(positives) + len(drawn))
        targets[: len(positives)] = 1.0
        return torch.cat([positives, drawn]), targets


def load_ratings(task: str, folder: Path | None) -> Data:
    """The first of `RATING_FILES` below `folder`, as `interactions` gives it."""
    (path,) = textfiles.first_present(task, folder, [(name,) for name in RATING_FILES])
    content, digest = textfiles.unpack_file(task, path)
    if path.name.startswith("ratings.dat"):
        content = b"userId,movieId,rating,timestamp\n" + content.replace(b"::", b",")
    try:
        import pandas as pd  # for this file alone: a client of another task need not have it

        table = pd.read_csv(io.BytesIO(content)).set_axis(_COLUMNS, axis=1)
        if not len(table) or table.isna().to_numpy().any():
            raise ValueError("rows or columns are missing")
        ratings = table[["user", "item", "time"]].to_numpy(np.int64)
    except ValueError as error:  # pandas' own errors are ValueErrors too
        raise DataError(
            f"task {task}: {path} is not a table of user, item, rating and time ({error}).\nGet "
            "it again."
        ) from error
    return interactions(task, ratings, f"{path.parent.name}, sha256 {digest}")


def interactions(task: str, ratings: NDArray[np.int64], copy: str) -> Data:
    """Ratings (N, 3) of user, item and time as a task's data, users and items numbered from 0.

    Training samples are pairs (·, 2) in the order of users and times, labelled by user; held-out
    samples are 100 pairs per user (·, 100, 2), the item that was left out first. Of equal times the
    later row of the file counts as later. A user with one rating keeps it for training.
    """
    users, items = (np.unique(column, return_inverse=True)[1] for column in ratings.T[:2])
    order = np.lexsort((np.arange(len(ratings)), ratings[:, 2], users))
    pairs = torch.from_numpy(np.stack([users, items], axis=1)[order].astype(np.int32))
    count, each = int(items.max()) + 1, pairs[:, 0].long().bincount()
    if count - int(each.max()) < HELD_OUT_NEGATIVES:
        raise DataError(
            f"task {task}: a user rated {int(each.max())} of {count} items.\nThe "
            f"task takes {HELD_OUT_NEGATIVES} items that this user has not rated, for the ranking."
        )
    last = each.cumsum(0) - 1
    held_out = torch.zeros(len(pairs), dtype=torch.bool)
    held_out[last[each > 1]] = True
    keys = pairs[:, 0].long() * count + pairs[:, 1]
    train, test = pairs[~torch.isin(keys, keys[held_out])], pairs[held_out]  # one rated twice, too
    generator = torch.Generator().manual_seed(_TEST_SEED)
    others = UserItems.of(pairs, count).sample_unrated(
        test[:, 0], HELD_OUT_NEGATIVES, generator, distinct=True
    )
    candidates = torch.cat([test[:, 1:], others], dim=1)
    test_x = torch.stack([test[:, :1].expand_as(candidates), candidates], dim=2)
    test_y = torch.zeros(candidates.shape)
    test_y[:, 0] = 1.0
    source = f"MovieLens {copy}, {len(pairs):,} ratings, {len(each):,} users, {count:,} items"
    draw = Draw(train, UserItems.of(train, count))
    return Data(train, torch.ones(len(train)), test_x, test_y, source, train[:, 0].long(), draw)
