"""Memory for large updates and messages: in huge pages where the system has them, and used again.

A system clears every page of fresh memory before it gives it out. For an update of a hundred
megabytes that takes as long as a copy, and in small pages several times as long.
"""

import ctypes
import mmap
import sys
from collections import deque
from io import BytesIO

import numpy as np

_LARGE = 1 << 22  # bytes: numpy asks for huge pages from here on
_HUGE_PAGES: int | None = getattr(mmap, "MADV_HUGEPAGE", None)
_PAGE = mmap.PAGESIZE

_SPARE: deque[np.ndarray] = deque(maxlen=2)
"""What was given back: of an update that was encoded, and of one that was decoded."""


class _Lent:
    """Memory that goes back to ``_SPARE`` when no array and no tensor looks at it any more."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory, self.__array_interface__ = memory, memory.__array_interface__

    def __del__(self, spare: "deque[np.ndarray]" = _SPARE) -> None:
        spare.append(self._memory)


def empty_floats(count: int) -> np.ndarray:
    """Room for ``count`` float32 numbers of any value.

    Example:
        >>> empty_floats(3).shape
        (3,)
    """
    if 4 * count < _LARGE:
        return np.empty(count, np.float32)
    for _ in range(len(_SPARE)):
        try:
            memory = _SPARE.popleft()
        except IndexError:  # another thread was faster
            break
        if memory.size == count:
            return np.asarray(_Lent(memory))
        _SPARE.append(memory)
    return np.asarray(_Lent(np.empty(count, np.float32)))


def zeros(count: int) -> np.ndarray:
    """``count`` float32 zeros."""
    if 4 * count < _LARGE:
        return np.zeros(count, np.float32)
    room = empty_floats(count)
    room.fill(0)
    return room


class Stream:
    """The memory of a ``bytes`` object while nobody has it yet, as zero words to write to.

    ``BytesIO`` lends it and gives it away in the end: no copy is made.

    Example:
        >>> stream = Stream(64)
        >>> stream.words[0] = int.from_bytes(b"bits" + bytes(4), sys.byteorder)
        >>> stream.close(4)
        b'bits'
    """

    def __init__(self, bits: int) -> None:
        size = 8 * (bits // 64 + 3)  # a block is written with a word to spare
        self._room = BytesIO(bytes(size))
        self._view = self._room.getbuffer()
        self.words = np.frombuffer(self._view, np.uint64)
        if size >= _LARGE and _HUGE_PAGES is not None and sys.platform == "linux":
            start = -(-self.words.ctypes.data // _PAGE) * _PAGE
            length = (size - _PAGE) // _PAGE * _PAGE
            libc = ctypes.CDLL(None)
            libc.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), _HUGE_PAGES)

    def close(self, size: int) -> bytes:
        """The first ``size`` bytes; the words are gone."""
        del self.words
        self._view.release()
        self._room.truncate(size)
        return self._room.getvalue()
