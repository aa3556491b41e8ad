"""The controllers by the names that users type; from the text of one to it, and back."""

from dataclasses import dataclass
from typing import Any

from fedsim.ground.errors import UsageError
from fedsim.settings.controllers.base import CONTROLLER_NEEDS, Controller
from fedsim.settings.named import Listed, Naming


@dataclass(frozen=True)
class ListedController(Listed):
    """A controller in the table, as ``Listed`` has it."""


CONTROLLERS: dict[str, ListedController] = {
    "fixed": ListedController(
        "controllers.schedules:FixedController",
        "n and p as typed, in every round: what the others are compared with",
        "this project", "fixed",
    ),
    "warmup": ListedController(
        "controllers.schedules:Warmup",
        "a fraction that falls to p exponentially over the first rounds",
        "Lin et al. 2018 (Deep Gradient Compression), section 3.3", "warmup(20, first=0.25)",
    ),
    "delay_first": ListedController(
        "controllers.schedules:DelayFirst",
        "dense messages after a long delay until the learning rate drops, then n = 1 and sparse",
        "Sattler et al. 2018 (Sparse Binary Compression), conclusion", "delay_first",
    ),
    "plateau": ListedController(
        "controllers.feedback:Plateau",
        "n halves and p doubles where the training loss stays",
        "this project, after the rule by which learning rates are lowered", "plateau(5)",
    ),
    "link": ListedController(
        "controllers.links:FillUpload", "each client sends the fraction that fills its upload time",
        "this project", "link(0.5)",
    ),
    "pace": ListedController(
        "controllers.links:Pace", "each client does as many local iterations as it has time for",
        "this project", "pace(0.5)",
    ),
    "noise": ListedController(
        "controllers.feedback:Noise",
        "n halves where successive global updates point in unlike directions",
        "Chee & Toulis 2018 (Convergence diagnostics for SGD), section 3, after Pflug 1990; that "
        "n is halved, and not the learning rate: this project", "noise(5)",
    ),
    "adacomm": ListedController(
        "controllers.feedback:AdaComm", "n falls with the square root of the training loss",
        "Wang & Joshi 2019 (Adaptive communication strategies), equations 16 and 17",
        "adacomm(100)",
    ),
}  # fmt: skip
"""The table; a class of the user's own is one more entry."""

_OURS = dict(CONTROLLERS)


def own_controllers() -> dict[str, ListedController]:
    """The entries that the user added or replaced."""
    return {name: row for name, row in CONTROLLERS.items() if _OURS.get(name) is not row}


_NAMING = Naming("--controller", "controller", "a name and settings, as 'warmup(20, first=0.25)'")


def parse_controller(written: str) -> Controller:
    """The controller that a text names: a name, and its settings in parentheses.

    Raises ``UsageError`` for an unknown name or setting, or a value that is not allowed.

    Example:
        >>> parse_controller("warmup(20, first=0.25)")
        Warmup(rounds=20, first=0.25)
    """
    controller: Controller = _NAMING.listed(written, CONTROLLERS)
    # What the contract asks of a class of the user's own.
    start = f"controller {written.partition('(')[0].strip()}"
    needs, moves = getattr(controller, "needs", None), getattr(controller, "moves", None)
    if not isinstance(needs, tuple) or not {*needs} <= {*CONTROLLER_NEEDS}:
        allowed = ", ".join(CONTROLLER_NEEDS)
        raise UsageError(f"{start}: needs is {needs!r}; give a tuple of some of {allowed}")
    if not isinstance(moves, tuple) or not {*moves} <= {"n", "p"}:
        raise UsageError(f"{start}: moves is {moves!r}; give a tuple of 'n' and 'p'")
    if not callable(getattr(controller, "choose", None)):
        raise UsageError(f"{start}: it has no choose(observation, memory)")
    return controller


def controller_text(controller: Any) -> str:
    """The text of a controller: ``parse_controller`` of it gives an equal one.

    Raises ``UsageError`` where its class is in no row of ``CONTROLLERS``.
    """
    allowed = "a frozen dataclass whose class is in CONTROLLERS (fedsim.settings.controllers)"
    return _NAMING.text_of(controller, CONTROLLERS, allowed)
