"""The data of a run, who holds which part of it, and the parts that are kept for validation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedsim.ground.errors import UsageError
from fedsim.ground.sequences import Computed
from fedsim.settings import contents
from fedsim.settings.config import RunConfig
from fedsim.tasks import Data, Task
from fedsim.tasks.base import Samples
from fedsim.tasks.data import filesplits
from fedsim.tasks.data import partition as partitions
from fedsim.tasks.data.items import drawn_alike
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.datacache import load_data
from fedsim.tasks.pytrees import Tree, map_leaves, named_leaves, take

_TEST_SEED = 1  # the same parts for every seed of a run: seeds are scored on the same samples


class Parts(Computed[np.ndarray]):
    """One part of every client's shard; each is computed when it is accessed.

    A client keeps out the fraction of its samples that comes first in one order of all samples, so
    that clients with equal shards keep out the same. One that has a single sample trains on it; any
    other keeps one out at least, and trains on one at least. A sample that it holds several times
    counts as one, and is on one side.

    ``samples``: how many training samples there are; ``fraction``: of a client's, in (0, 1);
    ``scored``: whether the parts are those that are kept out; else those that are trained on.

    Example:
        >>> shards = [np.arange(10), np.arange(10, 12), np.array([12])]
        >>> trained, kept = (Parts(shards, 13, 0.3, scored) for scored in (False, True))
        >>> [len(part) for part in kept], [len(part) for part in trained]
        ([3, 1, 0], [7, 1, 1])
    """

    def __init__(
        self, shards: Sequence[np.ndarray], samples: int, fraction: float, scored: bool
    ) -> None:
        super().__init__(len(shards), self.part)
        self.shards, self.fraction, self.scored = shards, fraction, scored
        self._place = np.random.default_rng([_TEST_SEED, samples]).permutation(samples)

    def part(self, client: int) -> np.ndarray:
        """The numbers of a client's samples that are in its part."""
        shard = self.shards[client]
        samples = np.unique(shard)  # a client that draws may hold a sample several times
        count = min(max(1, round(self.fraction * len(samples))), len(samples) - 1)
        held_out = samples[np.argsort(self._place[samples])[: max(0, count)]]
        return np.sort(shard[np.isin(shard, held_out, invert=not self.scored)])


_SEED = 0  # the same part for every seed of a run, so that seeds are scored on the same samples


class Chosen:
    """Some of the samples of inputs that may not fit into memory: ``Samples`` by their numbers."""

    def __init__(self, inputs: Samples, numbers: Tensor) -> None:
        self.inputs, self.numbers = inputs, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, index: Any, /) -> Tensor:
        return self.inputs[self.numbers[index]]


def check_shapes(task: Task, data: Data, setting: str) -> None:
    """Refuses a task that scores other samples than it trains on: they cannot be scored instead."""
    first = torch.zeros(1, dtype=torch.int64)
    lazy = data.train_x
    padded = isinstance(lazy, Lazy) and lazy.collate is not None  # each batch to its own length
    with drawn_alike():
        trained, scored = (
            tuple(_shapes(part, padded) for part in read(first))
            for read in (data.read_train, data.read_test)
        )
    if trained != scored:
        raise UsageError(
            f"{setting}: task {task.name} scores samples of another shape ({scored[0]}) than it "
            f"trains on ({trained[0]}), so training samples cannot be scored instead"
        )


def split_validation(task: Task, data: Data, fraction: float) -> tuple[Data, np.ndarray]:
    """The data with a validation part in place of the held-out part, and who may be trained on.

    The part follows from the number of training samples and ``fraction`` alone. The second value
    has the numbers of the training samples that are left, int64, ascending.

    Raises ``UsageError`` where no sample is left on one side, or training and held-out samples have
    different shapes, so that the task cannot score the former.
    """
    check_shapes(task, data, f"--validation is {fraction:g}")
    total = data.train_count
    count = round(fraction * total)
    if not 0 < count < total:
        raise UsageError(
            f"--validation is {fraction:g}: it takes {count} of {total} training samples; "
            "both parts need at least one"
        )
    order = np.random.default_rng([_SEED, total]).permutation(total)
    held_out, left = np.sort(order[:count]), np.sort(order[count:])
    numbers = torch.from_numpy(held_out)
    if isinstance(data.train_x, Lazy):
        return replace(data, test_x=data.train_x.part(numbers), test_y=None), left
    part = map_leaves(lambda x: Chosen(x, numbers), data.train_x)
    return replace(data, test_x=part, test_y=take(data.train_y, numbers)), left


def _shapes(tree: Tree, padded: bool) -> Any:
    """The shapes of a batch of one sample, a tuple each; of padded ones the number of axes."""
    shapes = {path: tuple(x.shape) for path, x in named_leaves(tree) if isinstance(x, Tensor)}
    if padded:
        return {path: len(shape) for path, shape in shapes.items()}
    return shapes[""] if [*shapes] == [""] else shapes


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
            plan.task,
            *config.machine.source,
            held.content,
            plan.clients,
            plan.partition,
            config.seed,
            config.evaluation.validation,
            config.evaluation.clients,
        )

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
    task: Task,
    folder: str | None,
    download: bool,
    content: str,
    clients: int,
    partition: str,
    seed: int,
    validation: float | None,
    local: float | None,
) -> ClientData:
    data = load_data(task, folder, download).data
    groups = data.groups()
    if groups is None and partitions.goes_by(partition) == "label":
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
    if partitions.goes_by(partition) == "feature":
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
        shards = _renumbered(shards, left)
    if local is None:
        return ClientData(data, shards)
    check_shapes(task, data, f"--evaluate-clients is {local:g}")
    count = data.train_count
    return ClientData(data, *(Parts(shards, count, local, scored) for scored in (False, True)))


def _user_shards(
    task: Task,
    data: Data,
    labels: np.ndarray,
    clients: int,
    partition: str,
    seed: int,
    validation: float | None,
) -> tuple[Data, Sequence[np.ndarray]]:
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


def _renumbered(shards: Sequence[np.ndarray], numbers: np.ndarray) -> Sequence[np.ndarray]:
    """Shards that are places in ``numbers``, as these numbers."""
    return Computed(len(shards), lambda client: numbers[shards[client]])
