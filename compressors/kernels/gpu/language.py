"""Triton where it is installed, and the one place where a kernel is started.

The modules beside this one can be imported without it. A product and a sum are never fused: the
compiled loops round each by itself.
"""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

try:
    import triton
    import triton.language as tl
except ImportError:  # the machine has no kernels for a GPU, and the CPU does the work
    triton = tl = None

__all__ = ["WATCHERS", "constexpr", "interpreted", "jit", "launch", "present", "tl"]

_ONE = Lock()  # two threads neither compile one kernel nor share the interpreter
constexpr: Any = None if tl is None else tl.constexpr

WATCHERS: list[Callable[[Callable[[], None], tuple[Any, ...]], None]] = []
"""While kernels are recorded: what starts them, the last of these, with the tensors they take."""


def present() -> bool:
    """Whether triton is installed; see ``tried`` for whether its kernels run somewhere."""
    return triton is not None


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter: ``TRITON_INTERPRET`` as it was at the import."""
    return type(_probe).__name__ == "InterpretedFunction"


def jit(function: Any) -> Any:
    """``function`` as a kernel, or as it is where triton is missing."""
    return function if triton is None else triton.jit(function)


@jit
def _probe():
    pass


def constant(value: int) -> Any:
    """A module's number as its kernels read it; where none is compiled the number itself."""
    return value if tl is None or interpreted() else tl.constexpr(value)


def launch(kernel: Any, programs: int, *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """Starts ``programs`` programs of a kernel; none of none.

    All ``arguments`` are tensors: a number would be compiled into the kernel, once per value.
    """
    if not programs:
        return
    options = {**constants, "num_warps": warps, "enable_fp_fusion": False}
    start = partial(kernel[(programs,)], *arguments, **options)
    with _ONE:
        if WATCHERS:
            WATCHERS[-1](start, arguments)
        else:
            start()
