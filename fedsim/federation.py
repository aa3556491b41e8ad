"""The data of a run and who holds which part of it."""

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fedsim.config import RunConfig
from fedsim.tasks import Data, get_task
from fedsim.tasks import partition as partitions


@dataclass(frozen=True)
class Federation:
    """A data set in memory and the shard (indices of training samples) of every client."""

    data: Data
    shards: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, config: RunConfig) -> "Federation":
        """The federation of a run, loaded once a process.

        Raises ``DataError`` where the data is missing and ``UsageError`` where it cannot be
        split among so many clients.
        """
        folder = config.data or os.environ.get("FEDSIM_DATA")
        clients = config.plan.clients
        return _load(
            config.task, folder, config.download, clients, config.partition, config.seed
        )


@lru_cache(maxsize=4)
def _load(
    task: str, folder: str | None, download: bool, clients: int, partition: str, seed: int
) -> Federation:
    data = get_task(task).load(Path(folder) if folder else None, download)
    shards = partitions.split(data.train_y.numpy(), clients, partition, seed)
    return Federation(data, tuple(shards))
