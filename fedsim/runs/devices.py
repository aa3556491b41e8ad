"""Where clients train, and on how many threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from fedsim.errors import UsageError

DEVICES = ("cpu", "cuda", "mps")


def check(name: str) -> None:
    """Raises ``UsageError`` unless torch can use the device ``name`` on this machine.

    Example:
        >>> check("cpu")
    """
    if name.split(":")[0] not in DEVICES:
        raise UsageError(f"--device is {name!r}: it is one of {', '.join(DEVICES)}, cuda:1, ...")
    try:
        torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(
            f"--device is {name!r}: torch cannot use it here ({reason}); cpu always works"
        ) from error


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread for the caller; afterwards as many as there were.

    Example:
        >>> before = torch.get_num_threads()
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
        >>> torch.get_num_threads() == before
        True
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
