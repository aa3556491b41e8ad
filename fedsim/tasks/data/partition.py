"""Partitions: the training samples of each client, in the forms of docs/partitions.md.

A client's draw follows from the seed and, of ``drawn``, the client's number; it is computed on
access. Splits by label and of unlike sizes are made by the partitioners of flwr-datasets, over an
in-memory table of labels and sample numbers. `iid` deals as the IidPartitioner of flwr-datasets
does, without the two seconds that importing it takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from compressors import derive
from compressors.grammar import Call, read_call
from fedsim.ground.errors import UsageError, comma, parse_call, unknown
from fedsim.tasks.data import filesplits, flowersplits
from fedsim.tasks.tasklist import PARTITIONS as FORMS

_BY_CLASS = {
    "dirichlet": "DirichletPartitioner(alpha={}, min_partition_size=1)",
    "shards": "ShardPartitioner(num_shards_per_partition={})",
    "pathological": "PathologicalPartitioner(num_classes_per_partition={}, "
    "class_assignment_mode=deterministic)",
}
"""The partitioners of flwr-datasets that take one setting here."""
_SIZES = {
    "linear": "LinearPartitioner()",
    "square": "SquarePartitioner()",
    "exponential": "ExponentialPartitioner()",
}
_PLAIN = ("iid", "contiguous", "whole", "feature", *_SIZES)
NATURAL, FEATURE, DRAWN = "natural", "feature", "drawn"
FROM_FILE = "file"
_UNDRAWN = (FROM_FILE, filesplits.FIXED)


@dataclass(frozen=True)
class _Spec:
    kind: str
    value: float = 0.0
    alpha: float | None = None
    call: Call | None = None


class Drawn(Sequence[NDArray[np.int64]]):
    """The samples of each of many clients, drawn when they are asked for.

    Args:
        labels: class of each sample, integers, shape (N,).
        clients: how many clients there are.
        size: samples per client.
        alpha: of the Dirichlet distribution of a client's shares of the classes; None: every
            sample is as likely as any other.
        seed: from 0.

    Example:
        >>> shards = Drawn(np.arange(100) % 10, 1_000_000, 5, None, seed=0)
        >>> len(shards), shards[999_999].tolist()
        (1000000, [1, 33, 49, 66, 83])
    """

    def __init__(
        self, labels: NDArray[Any], clients: int, size: int, alpha: float | None, seed: int
    ) -> None:
        self.clients, self.size, self.alpha, self.seed = clients, size, alpha, seed
        self.samples = len(labels)
        classes = np.unique(labels) if alpha is not None else ()
        self.members = [np.flatnonzero(labels == label) for label in classes]

    def __len__(self) -> int:
        return self.clients

    @overload
    def __getitem__(self, client: int) -> NDArray[np.int64]: ...
    @overload
    def __getitem__(self, client: slice) -> list[NDArray[np.int64]]: ...
    def __getitem__(self, client: int | slice) -> Any:
        if isinstance(client, slice):
            return [self[i] for i in range(self.clients)[client]]
        key = derive(self.seed, "drawn", range(self.clients)[client])
        generator: Any = np.random.default_rng(key)
        if self.alpha is None:
            drawn = generator.choice(self.samples, self.size, replace=False)
            return np.sort(drawn).astype(np.int64)
        shares = generator.dirichlet(np.full(len(self.members), self.alpha))
        counts = generator.multinomial(self.size, shares)
        parts = [
            generator.choice(members, int(count), replace=bool(count > len(members)))
            for members, count in zip(self.members, counts, strict=True)
        ]
        return np.sort(np.concatenate(parts)).astype(np.int64)


def check_partition(spec: str) -> None:
    """Refuse a partition text that `split` would refuse for any data.

    Raises:
        UsageError: an unknown form, ALPHA not above 0, or a NUMBER or CLASSES that is not a
            whole number from 1.

    Example:
        >>> check_partition("dirichlet(0.3)")
    """
    _parse(spec)


def goes_by(spec: str) -> str | None:
    """What a split needs to know of each sample: its `label`, the `feature` (the mean of its
    inputs), or nothing.

    Example:
        >>> goes_by("dirichlet(0.3)"), goes_by("feature"), goes_by("contiguous")
        ('label', 'feature', None)
    """
    parsed = _parse(spec)
    if parsed.call is not None:
        return flowersplits.partition_column(parsed.call)
    if parsed.kind == FEATURE:
        return flowersplits.FEATURE
    labels = parsed.alpha is not None or parsed.kind not in (*_PLAIN, *_UNDRAWN, DRAWN)
    return flowersplits.LABEL if labels else None


def is_given(spec: str) -> bool:
    """Whether a split numbers the samples itself: a user's file, or shards of the data.

    Example:
        >>> is_given("split.csv"), is_given("fixed"), is_given("iid")
        (True, True, False)
    """
    return spec == filesplits.FIXED or filesplits.is_file(spec)


def split(
    labels: NDArray[np.integer[Any]],
    clients: int,
    spec: str,
    seed: int,
    feature: NDArray[np.floating[Any]] | None = None,
) -> Sequence[NDArray[np.int64]]:
    """Deal the samples to the clients.

    Args:
        labels: class of each sample, integers, shape (N,).
        clients: number of clients, 1 to N; of `drawn` and `whole`, any.
        spec: a form of docs/partitions.md, as `--partition` takes it.
        seed: from 0; it alone decides, and no global random generator is read or changed.
        feature: one number per sample, shape (N,), by which `feature` sorts them.

    Returns:
        One sorted int64 array of sample numbers per client. Unless they are `whole` or `drawn`, no
        sample is in two of them, and except for the remainder of `shards` each sample is in one.

    Raises:
        UsageError: as `check_partition`; or more clients than samples; or the split would leave a
            client without samples or a class without a client; or the split is by label and
            flwr-datasets is not installed.

    Example:
        >>> [len(part) for part in split(np.arange(10) % 2, 4, "iid", seed=0)]
        [3, 3, 2, 2]
    """
    parsed = _parse(spec)
    labels = np.asarray(labels)
    if parsed.kind == FROM_FILE:
        return filesplits.shards(spec, labels, clients, seed)
    if parsed.kind == filesplits.FIXED:
        raise UsageError(f"--partition is {spec!r}: these data have no shards of their own")
    _check_against(parsed, spec, labels, clients)
    if parsed.kind == DRAWN:
        return Drawn(labels, clients, int(parsed.value), parsed.alpha, seed)
    if parsed.kind == "whole":
        return [np.arange(len(labels))] * clients
    if parsed.kind in ("contiguous", FEATURE):
        key = np.arange(len(labels)) if feature is None else feature
        rising = np.argsort(key, kind="stable").astype(np.int64)
        return [np.sort(part) for part in np.array_split(rising, clients)]
    if parsed.kind == NATURAL:
        sources = np.unique(labels)
        if clients > len(sources):
            raise UsageError(
                f"--clients is {clients}: give at most {len(sources)}, for --partition natural "
                "deals whole sources"
            )
        dealt = np.array_split(np.random.default_rng(seed).permutation(sources), clients)
        return [
            np.flatnonzero(np.isin(labels, client_classes)).astype(np.int64)
            for client_classes in dealt
        ]
    # The partitioners keep the order, so that it is drawn here.
    order = np.random.default_rng(seed).permutation(len(labels))
    if parsed.kind == "iid":
        return [np.sort(part) for part in np.array_split(order, clients)]
    value = parsed.value if parsed.kind == "dirichlet" else int(parsed.value)
    call = parsed.call or read_call({**_BY_CLASS, **_SIZES}[parsed.kind].format(value))
    flower = flowersplits.build_partitioner(spec, call, clients, len(labels), seed)
    columns = {"label": labels} | ({} if feature is None else {"feature": feature})
    return flowersplits.deal(flower, spec, columns, order, clients)


def _parse(spec: str) -> _Spec:
    if filesplits.is_file(spec):
        return _Spec(FROM_FILE)
    call = parse_call(spec, "--partition", ", ".join(FORMS))
    if flowersplits.is_class(call.name):
        flowersplits.check_arguments(spec, call)
        return _Spec("partitioner", call=call)
    if call.name == DRAWN:
        return _drawn(spec, call.arguments if not call.named else ())
    kind, has_one = call.name, len(call.arguments) == 1 and not call.named
    argument = str(call.arguments[0]) if has_one else ""
    if kind in (*_PLAIN, NATURAL, filesplits.FIXED) and not call.called:
        return _Spec(kind)
    if kind not in _BY_CLASS or not call.called:
        raise UsageError(f"--partition: {unknown('split', spec, FORMS)}")
    try:
        value = float(argument) if kind == "dirichlet" else float(int(argument))
    except ValueError:
        value = math.nan
    if kind == "dirichlet" and not (value > 0 and math.isfinite(value)):
        raise UsageError(
            f"--partition is {spec!r}: give dirichlet a number above 0, such as "
            f"dirichlet(0.3){comma(spec)}"
        )
    if kind != "dirichlet" and not value >= 1:
        raise UsageError(
            f"--partition is {spec!r}: give {kind} a whole number from 1, such as {kind}(2)"
        )
    return _Spec(kind, value)


def _drawn(spec: str, arguments: Sequence[object]) -> _Spec:
    size, alpha = (*map(str, arguments), "0", "nan")[:2] if len(arguments) < 3 else ("0", "nan")
    try:
        parsed = _Spec(DRAWN, int(size), float(alpha) if len(arguments) == 2 else None)
        fits = parsed.value >= 1 and (parsed.alpha is None or 0 < parsed.alpha < math.inf)
    except ValueError:
        fits = False
    if not fits:
        raise UsageError(
            f"--partition is {spec!r}: give drawn(SAMPLES) or drawn(SAMPLES, ALPHA), SAMPLES a "
            "whole number from 1, ALPHA a number above 0"
        )
    return parsed


def _check_against(parsed: _Spec, spec: str, labels: NDArray[Any], clients: int) -> None:
    if labels.ndim != 1:
        raise UsageError(f"labels has the shape {labels.shape}: give one label per sample, (N,)")
    if parsed.kind == "pathological" or parsed.alpha is not None or parsed.kind == "dirichlet":
        fractions = labels[labels % 1 != 0]
        if len(fractions):
            raise UsageError(
                f"--partition is {spec!r}: it goes by classes, and a label is {fractions[0]:g}; "
                "such labels take iid, contiguous or shards(NUMBER)"
            )
    if parsed.kind == DRAWN and parsed.value > len(labels) and parsed.alpha is None:
        raise UsageError(
            f"--partition is {spec!r}: it draws {parsed.value:.0f} samples per client, more than "
            f"the {len(labels)} samples"
        )
    if parsed.kind not in ("whole", DRAWN) and not 1 <= clients <= len(labels):
        raise UsageError(
            f"--clients is {clients}: give a number from 1 to {len(labels)}, the samples that "
            "there are to deal"
        )
    if parsed.kind == "shards" and clients * parsed.value > len(labels):
        raise UsageError(
            f"--partition is {spec!r}: it cuts {clients} x {parsed.value:.0f} shards, more than the"
            f" {len(labels)} samples"
        )
    if parsed.kind != "pathological":
        return
    classes = len(np.unique(labels))
    if parsed.value > classes:
        raise UsageError(
            f"--partition is {spec!r}: give pathological a number from 1 to {classes}, the "
            "classes in the data"
        )
    # Training would silently never see the classes that nobody holds.
    if clients + parsed.value - 1 < classes:
        raise UsageError(
            f"--partition is {spec!r}: with {clients} clients it leaves"
            f" {classes - clients - parsed.value + 1:.0f} of {classes} classes to nobody; give at"
            f" least pathological({classes - clients + 1}), or shards(NUMBER)"
        )
