"""Controllers: what chooses n and p of every round and client (``--controller``)."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.settings.controllers.base import Choice, Controller, Memory, Seen, Told
    from fedsim.settings.controllers.listed import CONTROLLERS, Listed, own_controllers
    from fedsim.settings.controllers.parsing import parse, text

__all__ = [
    "CONTROLLERS",
    "Choice",
    "Controller",
    "Listed",
    "Memory",
    "Seen",
    "Told",
    "own_controllers",
    "parse",
    "text",
]

make_lazy(__name__)
