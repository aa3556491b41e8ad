"""Every client's own test samples: a part of its shard that it does not train on."""

from collections.abc import Sequence
from typing import overload

import numpy as np

_SEED = 1  # the same parts for every seed of a run, so that seeds are scored on the same samples


class Parts(Sequence[np.ndarray]):
    """One part of every client's shard; each is computed when it is accessed.

    A client keeps out the fraction of its samples that comes first in one order of all samples, so
    that clients with equal shards keep out the same. One that has a single sample trains on it; any
    other keeps one out at least, and trains on one at least. A sample that it holds several times
    counts as one, and is on one side.

    Args:
        shards: per client, numbers of training samples.
        samples: how many training samples there are.
        fraction: of a client's samples, in (0, 1).
        scored: whether the parts are those that are kept out; else those that are trained on.

    Example:
        >>> shards = [np.arange(10), np.arange(10, 12), np.array([12])]
        >>> trained, kept = (Parts(shards, 13, 0.3, scored) for scored in (False, True))
        >>> [len(part) for part in kept], [len(part) for part in trained]
        ([3, 1, 0], [7, 1, 1])
    """

    def __init__(
        self, shards: Sequence[np.ndarray], samples: int, fraction: float, scored: bool
    ) -> None:
        self.shards, self.fraction, self.scored = shards, fraction, scored
        self._place = np.random.default_rng([_SEED, samples]).permutation(samples)

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, client: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[np.ndarray]: ...
    def __getitem__(self, client: int | slice) -> np.ndarray | Sequence[np.ndarray]:
        if isinstance(client, slice):
            return [self[one] for one in range(len(self))[client]]
        shard = self.shards[client]
        samples = np.unique(shard)  # a client that draws may hold a sample several times
        count = min(max(1, round(self.fraction * len(samples))), len(samples) - 1)
        held_out = samples[np.argsort(self._place[samples])[: max(0, count)]]
        return np.sort(shard[np.isin(shard, held_out, invert=not self.scored)])
