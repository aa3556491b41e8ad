"""torchvision, which only some tasks need: imported on demand."""

from importlib import import_module
from typing import Any

from compressors.usercode import error_text
from fedsim.ground.errors import DataError


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its type if the message is empty."""
    return (error_text(error).splitlines() or [type(error).__name__])[0]


def torchvision(part: str, who: str, otherwise: str = "") -> Any:
    """The module ``torchvision.<part>``, for ``who``.

    Raises ``DataError``, two lines, where torchvision cannot be imported; ``otherwise`` ends the
    second line.

    Example:
        >>> torchvision("models", "cifar_resnet18").__name__
        'torchvision.models'
    """
    try:
        return import_module(f"torchvision.{part}")
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        # A torchvision over another build of torch fails at import with a RuntimeError.
        raise DataError(
            f"{who}: torchvision cannot be imported ({first_line(error)}).\nInstall the"
            f" torchvision that matches this torch{otherwise}."
        ) from error
