"""Packages that only some tasks need: imported on demand."""

from importlib import import_module
from typing import Any

from compressors.usercode import error_text
from fedsim.ground.errors import DataError


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its type if the message is empty."""
    return (error_text(error).splitlines() or [type(error).__name__])[0]


def optional(module: str, who: str, remedy: str) -> Any:
    """The module, for ``who``; ``DataError``, two lines, where it cannot be imported."""
    try:
        return import_module(module)
    except (ImportError, RuntimeError, OSError, AttributeError) as error:
        # A torchvision over another build of torch fails at import with a RuntimeError.
        package = module.partition(".")[0].replace("_", "-")
        raise DataError(
            f"{who}: {package} cannot be imported ({first_line(error)}).\n{remedy}"
        ) from error


def torchvision(part: str, who: str, otherwise: str = "") -> Any:
    """``optional`` of ``torchvision.<part>``; ``otherwise`` ends the second line."""
    remedy = f"Install the torchvision that matches this torch{otherwise}."
    return optional(f"torchvision.{part}", who, remedy)
