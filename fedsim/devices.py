"""Where clients train."""

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
