"""The data of a run and who holds which part of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import numpy as np
from torch import Tensor

from fedsim.federation.localtests import Parts
from fedsim.federation.validation import check_shapes, split_validation
from fedsim.ground.errors import UsageError
from fedsim.settings import contents
from fedsim.settings.config import RunConfig
from fedsim.tasks import Data, Task
from fedsim.tasks.data import filesplits
from fedsim.tasks.data import partition as partitions
from fedsim.tasks.datacache import load_data

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class ClientData:
    """A data set in memory and the shard (indices of training samples) of every client.

    With ``validation`` the held-out part of ``data`` is that part of the training samples. With
    ``evaluate_clients`` the shards lack what each client keeps out, which is in ``kept_out``.
    """

    data: Data
    shards: Sequence[np.ndarray]
    kept_out: Sequence[np.ndarray] | None = None

    @classmethod
    def of(cls, config: RunConfig) -> "ClientData":
        """The federation of a run, loaded once a process.

        Raises ``DataError`` where the data is missing and ``UsageError`` where it cannot be
        split among so many clients.
        """
        plan, held = config.plan, load_data(config.plan.task, *config.machine.source)
        contents.check_sent(config, held.content)
        return _split(
            plan.task, *config.machine.source, held.content, plan.clients, plan.partition,
            config.seed, config.evaluation.validation, config.evaluation.clients,
        )  # fmt: skip

    def held(self) -> "pd.DataFrame":
        """How many samples of each label a client holds, as `fedsim.plot.partition` draws it.

        Returns:
            (clients, labels) numbers of samples; labels are those that a partition may go by
            (`Data.groups`), ascending. The columns are called "group" where the data has groups of
            its own, such as writers, else "label".

        Raises:
            UsageError: the samples have no labels.

        Example:
            ClientData.of(RunConfig(task="digits")).held().sum(axis=1)  # of each client
        """
        import pandas as pd  # half a second, which a client of a deployment need not wait

        groups = self.data.groups()
        if groups is None:
            raise UsageError("the samples of this task have no labels that clients could hold")
        labels, numbers = np.unique(groups.numpy(), return_inverse=True)
        counts = [np.bincount(numbers[shard], minlength=len(labels)) for shard in self.shards]
        index = pd.RangeIndex(len(counts), name="client")
        kind = "label" if self.data.labels is None else "group"
        return pd.DataFrame(counts, index=index, columns=pd.Index(labels, name=kind))


@lru_cache(maxsize=4)
def _split(
    task: Task, folder: str | None, download: bool, content: str, clients: int, partition: str,
    seed: int, validation: float | None, local: float | None,
) -> ClientData:  # fmt: skip
    data = load_data(task, folder, download).data
    groups = data.groups()
    if groups is None and partitions.goes_by_labels(partition):
        raise UsageError(
            f"--partition is {partition!r}: the samples of task {task.name} have no labels to go "
            "by; it takes iid or contiguous (groups=, or labels of the Data, gives it some)"
        )
    if partition == partitions.NATURAL and data.labels is None:
        raise UsageError(
            f"--partition is {partition!r}: the samples of task {task.name} have no source to go "
            "by, such as a user or a role"
        )
    feature = None  # the mean of each training sample's inputs
    if partitions.goes_by_feature(partition):
        x = data.train_x
        if not isinstance(x, Tensor) or not x.is_floating_point():
            raise UsageError(
                f"--partition is {partition!r}: the inputs of task {task.name} are not numbers in "
                "memory that could be averaged"
            )
        feature = x.reshape(len(x), -1).mean(dim=1).numpy()
    labels = np.zeros(data.train_count, np.int64) if groups is None else groups.numpy()
    shards: Sequence[np.ndarray]
    if partitions.is_given(partition):
        data, shards = _user_shards(task, data, labels, clients, partition, seed, validation)
    elif validation is None:
        shards = partitions.split(labels, clients, partition, seed, feature)
    else:
        data, left = split_validation(task, data, validation)
        feature = None if feature is None else feature[left]
        shards = partitions.split(labels[left], clients, partition, seed, feature)
        shards = Renumbered(shards, left)
    if local is None:
        return ClientData(data, shards)
    check_shapes(task, data, f"--evaluate-clients is {local:g}")
    count = data.train_count
    return ClientData(data, *(Parts(shards, count, local, scored) for scored in (False, True)))


def _user_shards(
    task: Task, data: Data, labels: np.ndarray, clients: int, partition: str, seed: int,
    validation: float | None,
) -> tuple[Data, Sequence[np.ndarray]]:  # fmt: skip
    """The data, and shards that number all training samples, less those of ``validation``."""
    if partition != filesplits.FIXED:
        shards = partitions.split(labels, clients, partition, seed)
    elif data.shards is None:
        raise UsageError(
            f"--partition is {partition!r}: the data of task {task.name} have no shards of their "
            "own; give another partition, such as iid"
        )
    else:
        setting = f"--partition is {partition!r}"
        shards = filesplits.check_shards(data.shards, data.train_count, clients, setting)
    if validation is None:
        return data, shards
    data, left = split_validation(task, data, validation)
    return data, filesplits.restrict(shards, left, f"--validation is {validation:g}")


class Renumbered(Sequence[np.ndarray]):
    """Shards of some samples, as numbers of all samples; each is made when it is asked for.

    Args:
        shards: per client, places in ``numbers``.
        numbers: of the samples that the shards are of, shape (samples,).
    """

    def __init__(self, shards: Sequence[np.ndarray], numbers: np.ndarray) -> None:
        self.shards, self.numbers = shards, numbers

    def __len__(self) -> int:
        return len(self.shards)

    @overload
    def __getitem__(self, client: int) -> np.ndarray: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[np.ndarray]: ...
    def __getitem__(self, client: int | slice) -> np.ndarray | Sequence[np.ndarray]:
        if isinstance(client, slice):
            return Renumbered(self.shards[client], self.numbers)
        return self.numbers[self.shards[client]]
