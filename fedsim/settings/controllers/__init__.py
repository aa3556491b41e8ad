"""Controllers: what chooses n and p of every round and client (``--controller``)."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.settings.controllers.base import (
        Action,
        ClientObservation,
        Controller,
        Memory,
        Observation,
    )
    from fedsim.settings.controllers.registry import (
        CONTROLLERS,
        ListedController,
        controller_text,
        own_controllers,
        parse_controller,
    )

__all__ = [
    "CONTROLLERS",
    "Action",
    "ClientObservation",
    "Controller",
    "Memory",
    "ListedController",
    "Observation",
    "controller_text",
    "own_controllers",
    "parse_controller",
]

make_lazy(__name__)
