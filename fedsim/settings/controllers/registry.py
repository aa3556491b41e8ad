"""The controllers by the names that users type."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class ListedController:
    """One controller: its class, or where the class lies (``module:Class`` in
    ``fedsim.settings.controllers``), a title, a source, and an example of its text.
    """

    make: Any
    title: str
    source: str
    example: str

    @property
    def cls(self) -> Any:
        """The class, imported when somebody asks."""
        if not isinstance(self.make, str):
            return self.make
        module, name = self.make.split(":")
        return vars(import_module(f"fedsim.settings.controllers.{module}"))[name]


CONTROLLERS: dict[str, ListedController] = {
    "fixed": ListedController(
        "schedules:FixedController",
        "n and p as typed, in every round: what the others are compared with",
        "this project", "fixed",
    ),
    "warmup": ListedController(
        "schedules:Warmup", "a fraction that falls to p exponentially over the first rounds",
        "Lin et al. 2018 (Deep Gradient Compression), section 3.3", "warmup(20, first=0.25)",
    ),
    "delay_first": ListedController(
        "schedules:DelayFirst",
        "dense messages after a long delay until the learning rate drops, then n = 1 and sparse",
        "Sattler et al. 2018 (Sparse Binary Compression), conclusion", "delay_first",
    ),
    "plateau": ListedController(
        "plateau:Plateau", "n halves and p doubles where the training loss stays",
        "this project, after the rule by which learning rates are lowered", "plateau(5)",
    ),
    "link": ListedController(
        "links:FillUpload", "each client sends the fraction that fills its upload time",
        "this project", "link(0.5)",
    ),
    "pace": ListedController(
        "links:Pace", "each client does as many local iterations as it has time for",
        "this project", "pace(0.5)",
    ),
    "noise": ListedController(
        "noise:Noise", "n halves where successive global updates point in unlike directions",
        "Chee & Toulis 2018 (Convergence diagnostics for SGD), section 3, after Pflug 1990; that "
        "n is halved, and not the learning rate: this project", "noise(5)",
    ),
    "adacomm": ListedController(
        "adacomm:AdaComm", "n falls with the square root of the training loss",
        "Wang & Joshi 2019 (Adaptive communication strategies), equations 16 and 17",
        "adacomm(100)",
    ),
}  # fmt: skip
"""The table; a class of the user's own is one more entry."""

_OURS = dict(CONTROLLERS)


def own_controllers() -> dict[str, ListedController]:
    """The entries that the user added or replaced.

    Example:
        >>> own_controllers()
        {}
    """
    return {name: row for name, row in CONTROLLERS.items() if _OURS.get(name) is not row}
