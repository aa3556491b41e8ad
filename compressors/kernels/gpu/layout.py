"""Where the segments of a long vector stand, and which program handles which part of them.

A segment is a tensor of an update, or what was chosen of it. A block is up to ``PROGRAM_BLOCK``
entries of one segment and the work of one program: a kernel handles all segments in one
launch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays

PROGRAM_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Programs:
    """Segments one after the other, cut into blocks; tensors lie on the device of the vector.

    Args:
        sizes: entries per segment.
        starts: the first entry of each segment, and the end of the last: int64 (segments + 1,).
        blocks: how many blocks there are.
        tables: of each block its segment and its first entry in the segment, of each segment its
            size and its start: four int64 tensors, the first arguments of most kernels.
        first_block: the first block of each segment, and their number: int64 (segments + 1,).
        block: entries per block.
    """

    sizes: tuple[int, ...]
    starts: np.ndarray
    blocks: int
    tables: tuple[Tensor, ...]
    first_block: Tensor
    block: int

    @property
    def total(self) -> int:
        """Entries in all segments."""
        return int(self.starts[-1])


@keeps_arrays
def programs_of(
    sizes: tuple[int, ...], device: torch.device, block: int = PROGRAM_BLOCK
) -> Programs:
    """The layout of segments of ``sizes`` entries, with its tables on ``device``.

    Example:
        >>> programs_of((3, 0, 5), torch.device("cpu"), block=4).tables[:2]
        (tensor([0, 2, 2]), tensor([0, 0, 4]))
    """
    numbers = np.asarray(sizes, np.int64).reshape(-1)
    starts = _running(numbers)
    per_segment = -(-numbers // block)
    first_block = _running(per_segment)
    segment = np.repeat(np.arange(numbers.size), per_segment)
    first = (np.arange(segment.size) - first_block[segment]) * block
    *tables, firsts = upload(device, segment, first, numbers, starts[:-1], first_block)
    return Programs(sizes, starts, segment.size, tuple(tables), firsts, block)


def _running(numbers: np.ndarray) -> np.ndarray:
    """0 and the sums so far: int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)


def upload(device: torch.device, *arrays: np.ndarray) -> list[Tensor]:
    """Arrays on ``device``, in one copy that the host does not wait for.

    Float32 arrays become vectors with up to three zeros behind them, others are int64 and of the
    shape that they have.

    Example:
        >>> upload(torch.device("cpu"), np.arange(3), np.ones(1, np.float32))
        [tensor([0, 1, 2]), tensor([1., 0., 0., 0.])]
    """
    return unpacked(send(torch.from_numpy(packed(*arrays)), device), *arrays)


def packed(*arrays: np.ndarray) -> np.ndarray:
    """Arrays one behind the other, int64, as ``unpacked`` finds them."""
    numbers, at = np.zeros(sum(size for a in arrays for size in _sizes(a)), np.int64), 0
    for a in arrays:
        kind = np.float32 if a.dtype == np.float32 else np.int64
        numbers[at:].view(kind)[: a.size] = a.reshape(-1)
        at += sum(_sizes(a))
    return numbers


def unpacked(numbers: Tensor, *arrays: np.ndarray) -> list[Tensor]:
    """The tensors of ``arrays`` that were ``packed``, as views.

    Each starts at a multiple of 16 bytes: Triton compiles a kernel again for any other address.
    """
    parts = numbers.split([size for a in arrays for size in _sizes(a)])[::2]
    return [
        part.view(torch.float32)
        if a.dtype == np.float32
        else part
        if a.ndim == 1
        else part.view(a.shape)
        for part, a in zip(parts, arrays, strict=True)
    ]


def _sizes(array: np.ndarray) -> tuple[int, int]:
    if array.dtype == np.float32:
        return -(-array.size // 4) * 2, 0
    return array.size, array.size % 2


def cut(flat: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[Tensor]:
    """The tensors of these shapes that a vector holds one after the other, as views of it.

    Example:
        >>> cut(torch.arange(5), [(2,), (1, 3)])
        [tensor([0, 1]), tensor([[2, 3, 4]])]
    """
    parts = flat.split([prod(shape) for shape in shapes])
    both = zip(parts, shapes, strict=True)
    return [part if len(shape) == 1 else part.view(shape) for part, shape in both]


def pieces(x: Tensor, starts: Sequence[int], counts: Sequence[int]) -> list[Tensor]:
    """The ``counts`` entries from each of ``starts`` on, which do not overlap, as views of ``x``.

    All of them are one call of torch's.

    Example:
        >>> pieces(torch.arange(9), [5, 1], [2, 3])
        [tensor([5, 6]), tensor([1, 2, 3])]
    """
    cuts, end = list[int](), 0
    order = sorted(range(len(starts)), key=lambda j: (starts[j], counts[j]))
    for j in order:
        cuts += [starts[j] - end, counts[j]]
        end = starts[j] + counts[j]
    parts = dict(zip(order, x.split([*cuts, len(x) - end])[1::2], strict=True))
    return [parts[j] for j in range(len(starts))]


@contextmanager
def on(device: torch.device) -> Iterator[None]:
    """Kernels start on torch's current device: this one is, inside."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


def send(x: Tensor, device: torch.device) -> Tensor:
    """A tensor on ``device``; the host does not wait for a copy from its own memory."""
    if x.device == device:
        return x
    if device.type == "cuda" and x.device.type == "cpu":
        return x.pin_memory().to(device, non_blocking=True)
    return x.to(device)


def refill(x: Tensor, values: Tensor) -> None:
    """Puts ``values`` on the host into ``x``; the host does not wait."""
    x.copy_(values.pin_memory() if x.is_cuda else values, non_blocking=True)


def fetch(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors' values on the host: the one place where the host waits for the device."""
    if tensors[0].device.type != "cuda":
        return [x.to("cpu", copy=True).numpy() for x in tensors]
    copies = [torch.empty(x.shape, dtype=x.dtype, device="cpu", pin_memory=True) for x in tensors]
    for copy, x in zip(copies, tensors, strict=True):
        copy.copy_(x, non_blocking=True)
    torch.cuda.current_stream(tensors[0].device).synchronize()
    return [copy.numpy() for copy in copies]
