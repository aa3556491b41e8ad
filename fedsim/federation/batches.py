"""The order of a client's samples: batches of its shard, epoch by epoch; which are scored."""

import numpy as np
import torch
from torch import Tensor

from compressors import derive
from compressors.kernels.gpu.layout import send

_HOST = torch.device("cpu")


def epoch_length(samples: int, size: int) -> int:
    """How many batches an epoch has: whole ones, and the samples that are left over are in none.

    Args:
        samples: of the client.
        size: samples a batch; a client with fewer has one batch of all.

    Example:
        >>> epoch_length(101, 32), epoch_length(378, 32), epoch_length(5, 32)
        (3, 11, 1)
    """
    return samples // min(size, samples)


def evenly_spread(total: int, count: int | None) -> Tensor:
    """``count`` of the numbers below ``total``, evenly spread (None: all of them), int64.

    Held-out samples may be in the order of their classes; the first ones would not do.

    Example:
        >>> evenly_spread(10, 4).tolist(), evenly_spread(3, None).tolist()
        ([0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count or total, total)
    return torch.arange(count) * total // count


class Batches:
    """Batches of one client's shard, a fresh order every epoch.

    Args:
        shard: indices (m,) of the client's training samples.
        size: samples a batch; a shard smaller than that is one batch.
        seed: the order of epoch e follows from (seed, client, e).
        client: the number of the client.
        device: where the indices are wanted; an epoch's go there at once, and nothing waits.

    Example:
        >>> Batches(np.arange(10), 5, seed=0, client=0).at(0).shape
        torch.Size([5])
    """

    def __init__(
        self, shard: np.ndarray, size: int, seed: int, client: int, device: torch.device = _HOST
    ) -> None:
        self.shard = torch.from_numpy(shard)
        self.size = min(size, len(shard))
        self.an_epoch = epoch_length(len(shard), size)
        self.seed, self.client, self.device = seed, client, device
        self._epoch, self._order = -1, self.shard

    def run(self, first: int, count: int) -> Tensor:
        """Sample indices (count, batch) of local iterations from ``first`` on.

        Example:
            >>> batches = Batches(np.arange(10), 5, seed=0, client=0)
            >>> torch.equal(batches.run(1, 3)[2], batches.at(3))
            True
        """
        parts = list[Tensor]()
        while count > 0:
            self.at(first)
            slot = first % self.an_epoch
            rows = self._order[: self.an_epoch * self.size].view(self.an_epoch, self.size)
            parts.append(rows[slot : slot + count])
            first, count = first + len(parts[-1]), count - len(parts[-1])
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def at(self, iteration: int) -> Tensor:
        """Sample indices (batch,) of local iteration ``iteration`` (0, 1, ...)."""
        epoch, slot = divmod(iteration, self.an_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(
                derive(self.seed, "batches", self.client, epoch)
            )
            order = self.shard[torch.randperm(len(self.shard), generator=generator)]
            self._order = send(order, self.device)
            self._epoch = epoch
        return self._order[slot * self.size : (slot + 1) * self.size]
