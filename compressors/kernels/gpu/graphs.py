"""Work of a GPU that is recorded once and repeated by one call: a CUDA graph.

Recorded work reads and writes the tensors that it was recorded with. So what it is given lies in
tensors that are filled anew, and what it returns is good until it is repeated.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from compressors.kernels.gpu.language import WATCHERS

T = TypeVar("T")
Work = Callable[[], T]


class Recording(NamedTuple):
    """Recorded work.

    Args:
        repeat: carries it out.
        result: what the work returned; its tensors have values after a repeat.
        held: what the work reads, so that it stays where it is.
    """

    repeat: Callable[[], None]
    result: Any
    held: Any


@contextmanager
def holding() -> Iterator[list[Any]]:
    """Inside, the tensors that kernels take are listed."""
    held: list[Any] = []

    def watch(start: Callable[[], None], arguments: tuple[Any, ...]) -> None:
        held.append(arguments)
        start()

    WATCHERS.append(watch)
    try:
        yield held
    finally:
        WATCHERS.remove(watch)


def record_graph(work: Work[Any]) -> Recording:
    """``work`` as a CUDA graph. It has been carried out before, so that its kernels are compiled.

    It is recorded and not carried out.
    """
    graph = torch.cuda.CUDAGraph()
    capture = torch.cuda.graph(
        graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"
    )  # other threads, such as the server's, allocate meanwhile
    with holding() as held, capture:
        result = work()
    return Recording(graph.replay, result, held)


RECORDERS: dict[str, Callable[[Work[Any]], Recording]] = {"cuda": record_graph}
"""By kind of device what records there. Elsewhere work is carried out each time."""


def repeated(work: Work[T], device: torch.device) -> Work[T]:
    """``work``, recorded after a first time; itself on a device that records nothing.

    Example:
        >>> repeated(lambda: 3, torch.device("cpu"))()
        3
    """
    record = RECORDERS.get(device.type)
    if record is None:
        return work
    work()  # compiles its kernels
    recording = record(work)

    def again() -> T:
        recording.repeat()
        return recording.result

    return again


@dataclass
class Repeated:
    """Work that is repeated, with the tensors that it reads.

    Args:
        inputs: what is filled anew before it is repeated; None before it is recorded.
        tensors: by name what the work reads, entries of it as views of ``inputs``.
        recording: the work; None before it is recorded, and where it cannot be.
        size: bytes that it takes, about.
        trials: how often it was recorded in vain.
        refused: whether it is not to be recorded.
    """

    inputs: Tensor | None = None
    tensors: dict[str, Tensor] = field(default_factory=dict)
    recording: Recording | None = None
    size: int = 0
    trials: int = 0
    refused: bool = False


class Recordings:
    """Recorded work, or work that is to be recorded, by a key: the latest, up to so many bytes.

    Whoever takes one has it alone until it is put back, so that two messages of one key that are
    made at the same time do not share tensors.

    Example:
        >>> some = Recordings()
        >>> some.take("key") is None
        True
        >>> some.put("key", Repeated())
        >>> some.take("key"), some.take("key")
        (Repeated(inputs=None, tensors={}, recording=None, size=0, trials=0, refused=False), None)
    """

    def __init__(self, most_bytes: int = 1 << 32, entries: int = 64) -> None:
        self._most_bytes, self._entries = most_bytes, entries
        self._all: OrderedDict[Hashable, Repeated] = OrderedDict()

    def takes(self, size: int, device: torch.device) -> bool:
        """Whether work of so many bytes may be recorded: up to an eighth of what is free."""
        free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else 8 * size
        return size <= min(self._most_bytes, free // 8)

    def take(self, key: Hashable) -> Repeated | None:
        """The work of the key; None if it is new, or if somebody else has it."""
        return self._all.pop(key, None)

    def put(self, key: Hashable, one: Repeated) -> None:
        """Keeps it as the latest, and forgets the oldest for it."""
        self._all[key] = one
        while len(self._all) > self._entries or (
            sum(other.size for other in self._all.values()) > self._most_bytes
        ):
            self._all.popitem(last=False)

    def forget(self) -> None:
        """Frees all of them."""
        self._all.clear()
