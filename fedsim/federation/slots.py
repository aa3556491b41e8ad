"""Clients' memories in one file of slots; none that a checkpoint names is written over.

A memory that changes goes to another slot. The slot before becomes free only when no kept
checkpoint names it (copy on write). A checkpoint therefore holds the slots' places and checksums,
and later writes do not change their content.
"""

import json
import os
import tempfile
from bisect import bisect
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import torch
from torch import Tensor

from compressors import State
from fedsim.ground.files import CHANGED, DamagedFile, bytes_of

NAME = "clients.slots"
"""The file in a run's folder."""

_ALIGNED = 64  # bytes: where a slot and each of its tensors begin
_AT_ONCE = 2**24  # bytes that are read where a slot is only looked at


class Slot(NamedTuple):
    """The place of a memory: first byte, length, checksum, and the mark after which it came."""

    offset: int
    length: int
    checksum: int
    born: int = -1


class SlotFile:
    """A file of slots, which is made when the first is written.

    A ``mark`` is a moment: slots in use at it are not written over, until two later marks were
    ``kept`` (a run keeps two checkpoints), or another mark has followed one that was not.

    A file without a ``path`` lies in ``folder``, and is gone when the process ends.

    Example:
        >>> file = SlotFile(None)
        >>> slot = file.write({"w": torch.ones(2)})
        >>> file.read(slot)
        {'w': tensor([1., 1.])}
    """

    def __init__(self, path: Path | None, folder: Path | None = None) -> None:
        self.path, self.folder, self._handle, self._flags = path, folder, -1, os.O_RDONLY
        self._free: list[tuple[int, int]] = []  # ascending: first byte, end
        self._end = 0
        self._now, self._checkpointed = 0, [0]  # marks: the last, and those of checkpoints
        self._retired: list[tuple[int, Slot]] = []  # with the last mark that may name it

    @property
    def handle(self) -> int:
        """The open file's descriptor."""
        if self._handle < 0 and self.path is None:
            with tempfile.TemporaryFile(prefix="fedsim-", dir=self.folder) as file:
                self._handle = os.dup(file.fileno())
        elif self._handle < 0:
            assert self.path is not None
            self._handle = os.open(self.path, self._flags, 0o666)
        return self._handle

    def __del__(self) -> None:
        if self._handle >= 0:
            os.close(self._handle)

    def begin(self, used: Iterable[Slot] = (), before: Iterable[Slot] = ()) -> None:
        """Takes what the file holds as a run left it, to be written; all else in it is free.

        ``before``: slots that an older checkpoint names.
        """
        used, before, self._flags = {*used}, {*before}, os.O_RDWR | os.O_CREAT
        self._retired = [(0, slot) for slot in before - used]
        places = sorted((x.offset, x.offset + _padded(x.length)) for x in used | before)
        starts, ends = [start for start, _ in places], [end for _, end in places]
        self._end = max(ends, default=0)
        pairs = zip([0, *ends], [*starts, self._end], strict=True)
        self._free = [(end, start) for end, start in pairs if end < start]
        if self.path is not None and (self.path.exists() or self._end):
            os.truncate(self.handle, self._end)

    def write(self, state: State, mark: int | None = None) -> Slot:
        """Writes a memory into a free slot.

        ``mark``: the last one before which it does not count as written; None: the last.

        Raises ``OSError`` where the disk is full, and then no slot is taken.
        """
        kinds = [(n, str(x.dtype).removeprefix("torch."), [*x.shape]) for n, x in state.items()]
        header = json.dumps(kinds).encode()
        parts: list[bytes | memoryview] = [len(header).to_bytes(8, "little") + header]
        for x in state.values():
            parts.append(bytes(-len(parts[-1]) % _ALIGNED))
            parts.append(bytes_of(x))
        checksum = 0
        for part in parts:
            checksum = crc32(part, checksum)
        length = sum(map(len, parts))
        offset = self._take(_padded(length))
        place = offset
        try:
            for part in parts:
                left = memoryview(part)
                while left:  # a write may stop short
                    done = os.pwrite(self.handle, left, place)
                    left, place = left[done:], place + done
        except OSError:
            self._release(offset, offset + _padded(length))
            raise
        return Slot(offset, length, checksum, self._now if mark is None else mark)

    def read(self, slot: Slot) -> State:
        """The memory in a slot; ``DamagedFile`` where that is not what was written."""
        content = bytearray(slot.length)
        left, offset = memoryview(content), slot.offset
        while left and (done := os.preadv(self.handle, [left], offset)):  # it may stop short
            left, offset = left[done:], offset + done
        if crc32(content) != slot.checksum:
            raise DamagedFile(self.path or Path(NAME), CHANGED)
        start = 8 + int.from_bytes(content[:8], "little")
        state: dict[str, Tensor] = {}
        for name, kind, shape in json.loads(content[8:start]):
            start += -start % _ALIGNED
            dtype = getattr(torch, kind)
            count = torch.Size(shape).numel()
            state[name] = (
                torch.frombuffer(content, dtype=dtype, count=count, offset=start).view(shape)
                if count
                else torch.empty(shape, dtype=dtype)
            )
            start += count * dtype.itemsize
        return state

    def check(self, slots: Iterable[Slot]) -> None:
        """Raises ``DamagedFile`` where one of the slots does not hold what was written."""
        for slot in sorted(slots):
            checksum = 0
            for place in range(0, slot.length, _AT_ONCE):
                count = min(_AT_ONCE, slot.length - place)
                checksum = crc32(os.pread(self.handle, count, slot.offset + place), checksum)
            if checksum != slot.checksum:
                raise DamagedFile(self.path or Path(NAME), CHANGED)

    def release(self, slot: Slot) -> None:
        """The memory in a slot is not needed any more, unless a mark since it was written does."""
        if any(slot.born < mark for mark in self._marks()):
            self._retired.append((self._now, slot))
        else:
            self._release(slot.offset, slot.offset + _padded(slot.length))

    def mark(self) -> int:
        """Keeps the present content of slots from now on; returns the moment's number."""
        self._now += 1
        self._sweep()
        return self._now

    def keep(self, mark: int) -> None:
        """A checkpoint of that moment is complete, and of those before it one stays."""
        self._checkpointed = [*self._checkpointed, mark][-2:]
        self._sweep()

    def sync(self) -> None:
        """Brings what was written to disk."""
        os.fsync(self.handle)

    def _marks(self) -> set[int]:
        return {*self._checkpointed, self._now}

    def _sweep(self) -> None:
        """Frees what no mark names any more."""
        marks, waiting = self._marks(), self._retired
        self._retired = []
        for last, slot in waiting:
            if any(slot.born < mark <= last for mark in marks):
                self._retired.append((last, slot))
            else:
                self._release(slot.offset, slot.offset + _padded(slot.length))

    def _take(self, size: int) -> int:
        """The first byte of so many free ones: the first place that is large enough, or the end."""
        for i, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[i : i + 1] = [(start + size, end)] if end - start > size else []
                return start
        self._end += size
        return self._end - size

    def _release(self, start: int, end: int) -> None:
        """Frees bytes, and joins them with free bytes before and after them."""
        i = bisect(self._free, (start, end))
        if i < len(self._free) and self._free[i][0] == end:
            end = self._free.pop(i)[1]
        if i and self._free[i - 1][1] == start:
            start = self._free.pop(i - 1)[0]
            i -= 1
        self._free.insert(i, (start, end))


def _padded(length: int) -> int:
    """Bytes of the file that so many take."""
    return length + -length % _ALIGNED
