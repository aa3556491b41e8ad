"""Arrays where a tensor's values lie: a loop over many tensors is given their addresses.

Whoever passes an address keeps the tensor alive, and has seen that it is contiguous.
"""

import numpy as np
from numba import carray, njit, types
from numba.extending import intrinsic


@intrinsic
def _pointer(context, address):
    """An int64 as a pointer."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.int64), generate


@njit(cache=True, nogil=True)
def floats_at(address, count):
    """The ``count`` float32 numbers at ``address``."""
    return carray(_pointer(address), count, np.float32)


@njit(cache=True, nogil=True)
def words32(address, count):
    """The ``count`` uint32 numbers at ``address``: the bits of ``floats_at``."""
    return carray(_pointer(address), count, np.uint32)
