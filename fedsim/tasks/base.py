"""The task: a model, its data and the settings it is trained with.

Everything that a task needs is a field of one frozen value, `Task`; the table of tasks is
`fedsim.tasks.TASKS`. The shared pieces (cross entropy, the accuracy sum) are functions here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import torch
import torch.nn.functional as F
from numpy import ndarray
from torch import Generator, Tensor, nn
from torch.optim import Optimizer

from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks.data.lazy import Lazy
from fedsim.tasks.pytrees import Tree, count_samples, named_leaves, take
from fedsim.tasks.roles import ROLES, check_role

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class Samples(Protocol):
    """Inputs that are indexed like a tensor: a tensor, or an object that makes tensors on demand.

    ``x[index]``, with an int64 tensor (B,) or a slice, is a tensor (B, ...) of those inputs;
    ``len(x)`` is their number. For data that do not fit into memory as float32: image files, or
    images kept as bytes.
    """

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Tensor: ...


@dataclass(frozen=True)
class Data:
    """A whole data set, which all clients of a process share and nobody changes.

    Inputs and targets are pytrees: a tensor (N, ...), or tuples and dicts of tensors (N, ...). A
    batch has the same structure. A model is called with a tensor as `model(x)`, with a tuple as
    `model(*x)`, with a dict as `model(**x)`. A leaf of the inputs may be `Samples`.

    Attributes:
        train_x: training inputs (N, ...): normalised float32 (images are NCHW), or int64 numbers
            of symbols, users, items. `Lazy` samples are inputs and targets.
        train_y: training targets (N, ...); int64 class numbers (N,) in most tasks. None where
            `train_x` is `Lazy`.
        test_x: held-out inputs, as the model takes them, (M, ...); or `Lazy`.
        test_y: held-out targets (M, ...), or None.
        source: which copy of the data this is, in words, without paths of this machine.
        labels: what a partition may go by, integers (N,): the class, the user, the author of a
            sample. None: `train_y`, where it holds one number per sample.
        draw: (numbers of samples (B,), generator) -> inputs and targets of a training batch, on
            the CPU, where a batch is more than a look into `train_x` and `train_y`: augmentation,
            drawn negatives. The generator follows from (seed, client, iteration). An `Augmentation`
            makes its batches where the images lie.
        content: the digest of what was read, where `load` is one of fedsim's that knows it.
        shards: sample numbers of each client, where the data come divided (`--partition fixed`).
        base: the digest of frozen weights that every process has, where the task knows it.
    """

    train_x: Tree
    train_y: Tree
    test_x: Tree
    test_y: Tree
    source: str
    labels: Tensor | None = None
    draw: Callable[[Tensor, Generator], tuple[Tree, Tree]] | None = None
    content: str = ""
    shards: Sequence[Any] | None = None
    base: str = ""

    @property
    def train_count(self) -> int:
        """How many training samples there are."""
        return count_samples(self.train_x)

    @property
    def test_count(self) -> int:
        """How many held-out samples there are."""
        return count_samples(self.test_x)

    def batch(self, index: Tensor, generator: Generator) -> tuple[Tree, Tree]:
        """Inputs and targets of a training batch of the samples `index` (B,)."""
        if self.draw is not None:
            return self.draw(index, generator)
        return read_pair(self.train_x, self.train_y, index, generator.initial_seed())

    def read_train(self, index: Tensor) -> tuple[Tree, Tree]:
        """Inputs and targets of the training samples `index` (B,), as they are scored."""
        return read_pair(self.train_x, self.train_y, index)

    def read_test(self, index: Tensor) -> tuple[Tree, Tree]:
        """Inputs and targets of the held-out samples `index` (B,)."""
        return read_pair(self.test_x, self.test_y, index)

    def groups(self) -> Tensor | None:
        """One integer per training sample for partitions to go by; None where there are none."""
        if self.labels is not None:
            return self.labels
        y = self.train_y
        return y if isinstance(y, Tensor) and y.dim() == 1 else None


def read_pair(x: Tree, y: Tree, index: Tensor, seed: int = 0) -> tuple[Tree, Tree]:
    """Inputs and targets of the samples `index` (B,).

    Args:
        x: inputs, or `Lazy` samples, of which each is read once.
        y: targets; None where `x` is `Lazy`.
        index: int64 numbers of samples.
        seed: of what `Lazy` samples draw.

    Example:
        >>> import torch
        >>> read_pair((torch.arange(3), torch.ones(3, 2)), torch.arange(3), torch.tensor([2]))
        ((tensor([2]), tensor([[1., 1.]])), tensor([2]))
    """
    if isinstance(x, Lazy):
        return x.batch(index, seed)
    return take(x, index), take(y, index)


@dataclass(frozen=True, eq=False)
class Task:
    """A model, its data, and how it is trained and scored.

    Two tasks are equal if they are the same object, or copies of the same object that went through
    other processes.

    Attributes:
        name: what users type; letters, digits, `_`, `.` and `-`.
        build: a new model; weights are drawn from torch's global generator, which the caller
            forks and seeds. Called without arguments, or with the `Data` (`from_data`).
        load: (data folder or None, may download?) -> `Data`; raises `DataError` where the data
            is missing or damaged.
        optimizer: parameters -> optimizer with the task's settings.
        loss: (outputs, targets) -> mean loss over the samples, a scalar. Outputs are what the
            model returned: a tensor, or an object such as Hugging Face's `ModelOutput`.
        metric: (outputs, targets) -> sum of the score over the samples, a scalar, so that it can
            be accumulated over batches of any size. Several scores are a mapping of names to sums,
            which may then be of any shape (a count per class); the first reported is the headline.
        metric_name: the name of the reported number; of several, the headline's.
        reported: mean score over the samples -> the number reported: `math.exp` makes a
            perplexity of a loss, and infinity where that overflows. Of several scores: the mapping
            of means -> a mapping of names to the numbers reported.
        higher_is_better: which way the reported number improves.
        from_data: whether `build` takes the `Data`, whose alphabet or number of users decides the
            size of the model.
        title: a line for lists.
        source: where the settings come from: paper and section.
        batch_size: samples per client and local iteration.
        iterations: local iterations of a run (its budget).
        lr_steps: pairs (first iteration, factor on the base learning rate from there on), in order.
            The same for every client, however many rounds it took part in.
        partition: the default partition, see `fedsim.tasks.data.partition`.
        evaluation_batch: held-out samples that go through the model at once.
        channels_last: whether models and batches are best laid out NHWC in memory; a model of
            Conv3d is not.
        clients: default number of clients.
        place: `FILE.py:NAME`, where a user's own task was found by it; else empty.
        content: the digest of that file and of the modules in its folder that it imports; else "".
    """

    name: str
    build: Callable[..., nn.Module]
    load: Callable[[Path | None, bool], Data]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    loss: Callable[[Any, Any], Tensor]
    metric: Callable[[Any, Any], Any]
    metric_name: str = "accuracy"
    reported: Callable[[Any], Any] = float
    higher_is_better: bool = True
    from_data: bool = False
    title: str = ""
    source: str = ""
    batch_size: int = 32
    iterations: int = 1000
    lr_steps: tuple[tuple[int, float], ...] = ()
    partition: str = "iid"
    evaluation_batch: int = 500
    channels_last: bool = True
    clients: int = 4
    place: str = field(default="", init=False, repr=False)
    content: str = field(default="", init=False, repr=False)
    # Functions cannot be compared by value, and a notebook's are made anew in every process.
    _unique_id: str = field(default_factory=lambda: uuid4().hex, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"task: name is {self.name!r}; it names folders too: letters, digits, '_', '.', '-'"
            )
        for role in ROLES:
            check_role(self.name, role, getattr(self, role), self.from_data)
        for role in ("batch_size", "iterations", "evaluation_batch", "clients"):
            value = getattr(self, role)
            if not isinstance(value, int) or value < 1:
                raise UsageError(f"task {self.name}: {role} is {value!r}; give a number above 0")
        steps: Any = self.lr_steps
        pairs = isinstance(steps, tuple | list) and all(
            isinstance(step, tuple | list) and [isinstance(x, Real) for x in step] == [True, True]
            for step in steps
        )
        rises = pairs and [start for start, _ in steps] == sorted({start for start, _ in steps})
        if not rises or not all(factor >= 0 for _, factor in steps):
            raise UsageError(
                f"task {self.name}: lr_steps is {steps!r}; give pairs (first iteration, factor) in "
                "the order of their iterations: ((500, 0.1), (750, 0.01))"
            )
        object.__setattr__(self, "lr_steps", tuple((start, factor) for start, factor in steps))

    @property
    def written(self) -> str:
        """The task in flags and files of settings: its place, else its name."""
        return self.place or self.name

    def model(self, data: Data | None) -> nn.Module:
        """A new model for `data`, its weights from torch's global generator."""
        model: nn.Module = self.build(data) if self.from_data else self.build()
        return model

    def sums(self, outputs: Any, targets: Any) -> dict[str, Any]:
        """The scores of a batch by name: numbers, and tensors of float64 on the CPU.

        A single score has no name.
        """
        return fetch_sums(self.sums_on_device(outputs, targets))

    def sums_on_device(
        self, outputs: Any, targets: Any, others: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """``sums`` for which no host waits: tensors of float64 stay where they are.

        ``others``: more numbers of the batch by name, which become float64 with the scores: sums of
        them have the bits of Python's.
        """
        score = self.metric(outputs, targets)
        scores = score if isinstance(score, Mapping) else {"": score}
        sums = dict[str, Any]()
        for name, x in {**scores, **(others or {})}.items():
            if isinstance(x, Tensor):  # mps has no float64
                sums[name] = (x.detach().cpu() if x.device.type == "mps" else x.detach()).double()
            else:
                sums[name] = float(x)
        return sums

    def scores(self, sums: Mapping[str, Any], count: int) -> dict[str, float]:
        """The numbers reported by name, the headline first, of the sums over `count` samples.

        Raises:
            UsageError: `reported` returned no mapping of names, words of letters and digits, to
                numbers, where `metric` did.
        """
        means = {name: x / count for name, x in sums.items()}
        if "" in means:
            try:
                return {"": float(self.reported(means[""]))}
            except OverflowError:  # larger than a float can be
                return {"": math.inf}
        results = means if self.reported is float else self.reported(means)
        named = isinstance(results, Mapping) and all(
            re.fullmatch(r"\w+", str(name)) for name in results
        )
        if not named or not results:
            raise UsageError(
                f"task {self.name}: reported returned {results!r}; where metric returns a mapping, "
                "it takes that of the means and returns one of names, such as top5, to numbers"
            )
        return {name: float(x) for name, x in results.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Task) and self._unique_id == other._unique_id

    def __hash__(self) -> int:
        return hash(self._unique_id)


def check_data(name: str, data: object) -> None:
    """Refuses what a task's `load` may have returned by mistake.

    Raises:
        DataError: `data` is not a `Data`, a part is not a tensor, or inputs and targets do not
            pair.
    """
    if not isinstance(data, Data):
        raise DataError(
            f"task {name}: load returned {_kind(data)}; it returns "
            "fedsim.Data(train_x, train_y, test_x, test_y, source)"
        )
    parts = ("train_x", "train_y", "test_x", "test_y")
    for part in parts if data.labels is None else (*parts, "labels"):
        value = getattr(data, part)
        if part.endswith("_y") and isinstance(getattr(data, f"{part[:-2]}_x"), Lazy):
            if value is not None:
                raise DataError(
                    f"task {name}: {part} is a {_kind(value)}, and {part[:-2]}_x is Lazy, which "
                    "reads the targets too; give None"
                )
            continue
        tree = part != "labels" and isinstance(value, tuple | Mapping)
        entries = named_leaves(value) if tree else [("", value)]
        if not entries:
            raise DataError(f"task {name}: {part} is a {_kind(value)} without tensors")
        for path, leaf in entries:
            _check_leaf(name, f"{part}{path}", leaf, part.endswith("_x"))
        for path, leaf in entries[1:]:
            if len(leaf) != len(entries[0][1]):
                raise DataError(
                    f"task {name}: {part}{entries[0][0]} has {len(entries[0][1])} samples and "
                    f"{part}{path} {len(leaf)}"
                )
    if data.shards is not None and not isinstance(data.shards, Sequence):
        raise DataError(
            f"task {name}: shards is a {_kind(data.shards)}; give a list of the sample numbers of "
            "each client"
        )
    pairs = [("train_x", "train_y"), ("test_x", "test_y")]
    for left, right in pairs + ([("train_x", "labels")] if data.labels is not None else []):
        if getattr(data, right) is None:  # and the inputs are Lazy
            continue
        left_count, right_count = (count_samples(getattr(data, part)) for part in (left, right))
        if left_count != right_count:
            raise DataError(
                f"task {name}: {left} has {left_count} samples and {right} {right_count}"
            )


def _check_leaf(name: str, part: str, value: object, is_input: bool) -> None:
    """Refuses what is neither a tensor nor, of inputs, ``Samples``."""
    # A list, an array or a table may not be `Samples`.
    is_container = isinstance(value, Sequence | Mapping | ndarray) or hasattr(value, "to_numpy")
    samples = is_input and hasattr(value, "__getitem__") and not is_container
    samples = samples or (isinstance(value, Lazy) and part in ("train_x", "test_x"))
    if not isinstance(value, Tensor) and not samples:
        maker = " (torch.tensor)" if isinstance(value, Sequence) else ""
        if isinstance(value, ndarray):
            maker = " (torch.from_numpy)"
        elif hasattr(value, "to_numpy"):  # pandas
            maker = " (torch.from_numpy of its .to_numpy())"
        raise DataError(f"task {name}: {part} is a {_kind(value)}; give a torch tensor{maker}")
    if isinstance(value, Tensor) and value.dim() == 0:
        raise DataError(f"task {name}: {part} is a single number; its rows are the samples")
    if not len(value):  # type: ignore[arg-type]
        raise DataError(f"task {name}: {part} has no samples; it has one or more")


def _kind(value: object) -> str:
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")


def logits_of(outputs: Any) -> Any:
    """A model's outputs themselves, or of a mapping what it has as `logits`.

    Hugging Face's models return such a mapping (`ModelOutput`).

    Example:
        >>> logits_of({"logits": 1, "hidden_states": 2})
        1
    """
    return outputs["logits"] if isinstance(outputs, Mapping) else outputs


def cross_entropy(outputs: Any, targets: Tensor) -> Tensor:
    """Mean cross entropy in nats against class numbers (B,), a scalar."""
    logits = outputs["logits"] if isinstance(outputs, Mapping) else outputs
    return F.cross_entropy(logits, targets)


def correct(outputs: Any, targets: Tensor) -> Tensor:
    """How many rows of logits have their maximum at the target, an int64 scalar.

    Example:
        >>> import torch
        >>> correct(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
        tensor(1)
    """
    logits: Tensor = logits_of(outputs)
    return (logits.argmax(dim=1) == targets).sum()


def fetch_sums(sums: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers, and tensors (...) of several numbers on the CPU, of sums that may be on a device.

    The host waits for the device once.

    Example:
        >>> import torch
        >>> fetch_sums({"top1": torch.tensor(3.0), "by_class": torch.tensor([1.0, 2.0]), "n": 4.0})
        {'top1': 3.0, 'by_class': tensor([1., 2.]), 'n': 4.0}
    """
    tensors = {name: x for name, x in sums.items() if isinstance(x, Tensor)}
    away = {name: x for name, x in tensors.items() if x.device.type != "cpu"}
    if away:
        flat = torch.cat([x.reshape(-1) for x in away.values()]).cpu()
        parts = flat.split([x.numel() for x in away.values()])
        tensors |= {n: y.view(x.shape) for (n, x), y in zip(away.items(), parts, strict=True)}
    numbers = {name: float(x) for name, x in tensors.items() if x.numel() == 1}
    return {**sums, **tensors, **numbers}
