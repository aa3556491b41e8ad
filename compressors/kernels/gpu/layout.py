"""Where the segments of a long vector stand, and which program handles which part of them.

A segment is a tensor of an update, or what was chosen of it. A block is up to ``BLOCK`` entries of
one segment and the work of one program, so that a kernel handles all segments in one launch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Layout:
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


@lru_cache(maxsize=64)
def layout_of(sizes: tuple[int, ...], device: torch.device, block: int = BLOCK) -> Layout:
    """The layout of segments of ``sizes`` entries, with its tables on ``device``.

    Example:
        >>> layout_of((3, 0, 5), torch.device("cpu"), block=4).tables[:2]
        (tensor([0, 2, 2]), tensor([0, 0, 4]))
    """
    numbers = np.asarray(sizes, np.int64).reshape(-1)
    starts = _running(numbers)
    per_segment = -(-numbers // block)
    first_block = _running(per_segment)
    segment = np.repeat(np.arange(numbers.size), per_segment)
    first = (np.arange(segment.size) - first_block[segment]) * block
    *tables, firsts = upload(device, segment, first, numbers, starts[:-1], first_block)
    return Layout(sizes, starts, segment.size, tuple(tables), firsts, block)


def _running(numbers: np.ndarray) -> np.ndarray:
    """0 and the sums so far: int64 (n + 1,)."""
    return np.concatenate([[0], np.cumsum(numbers)]).astype(np.int64)


def before(counts: Tensor, layout: Layout) -> Tensor:
    """What the blocks (blocks, ...) before each block of its segment count together."""
    sums = torch.cumsum(counts, 0) - counts
    firsts = layout.first_block[layout.tables[0]]
    return sums - sums[firsts]


def per_segment(counts: Tensor, layout: Layout) -> Tensor:
    """What the blocks (blocks, ...) of each segment count together: (segments, ...)."""
    sums = torch.cat([torch.zeros_like(counts[:1]), torch.cumsum(counts, 0)])
    return sums[layout.first_block[1:]] - sums[layout.first_block[:-1]]


def upload(device: torch.device, *arrays: np.ndarray) -> list[Tensor]:
    """Int64 arrays on ``device``, in one copy that the host does not wait for.

    Each starts at a multiple of 16 bytes: Triton compiles a kernel again for any other address.
    """
    flat = padded([a.astype(np.int64) for a in arrays])
    parts = send(torch.from_numpy(np.concatenate(flat)), device).split([a.size for a in flat])
    return [part[: a.size].view(a.shape) for part, a in zip(parts, arrays, strict=True)]


def padded(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Each array flat, with zeros up to a multiple of 16 bytes.

    Example:
        >>> [a.tolist() for a in padded([np.arange(3), np.zeros(1, np.float32)])]
        [[0, 1, 2, 0], [0.0, 0.0, 0.0, 0.0]]
    """
    flat = [a.reshape(-1) for a in arrays]
    return [np.pad(a, (0, -a.size % (16 // a.itemsize))) for a in flat]


def send(x: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on ``device``; the host does not wait for the copy."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x


def fetch(*tensors: Tensor) -> list[np.ndarray]:
    """The tensors' values on the host: the one place where the host waits for the device."""
    if tensors[0].device.type != "cuda":
        return [x.numpy().copy() for x in tensors]
    copies = [torch.empty(x.shape, dtype=x.dtype, pin_memory=True) for x in tensors]
    for copy, x in zip(copies, tensors, strict=True):
        copy.copy_(x, non_blocking=True)
    torch.cuda.current_stream(tensors[0].device).synchronize()
    return [copy.numpy() for copy in copies]
