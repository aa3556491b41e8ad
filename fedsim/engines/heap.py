"""Keeps freed memory with the process instead of handing it back after every message.

An update of a few hundred thousand entries is just large enough for glibc to map fresh
pages for it and to unmap them when it is freed. Touching fresh pages then costs more
than the arithmetic: encoding a raw LeNet5 took 2.2 ms with 1231 page faults, and 0.4 ms
without them. Other C libraries are left as they are.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # malloc.h
_LARGEST_KEPT, _MOST_KEPT = 1 << 25, 1 << 28  # bytes; glibc takes no more than the first


def keep() -> None:
    """Raises glibc's thresholds, once is enough; does nothing elsewhere."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT)
        mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
