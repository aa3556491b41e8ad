"""Numbers that were asked for, beside what was found: the last table of ``gpu.py``."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Target:
    """A number that was asked for, and what was found.

    Args:
        what: of what it is.
        value: what was measured.
        bound: what was asked for.
        unit: of both.
        least: whether the bound is the least that is good enough; else it is the most.
    """

    what: str
    value: float
    bound: float
    unit: str = "times"
    least: bool = False

    def line(self) -> str:
        """Its row in the table."""
        met = self.value >= self.bound if self.least else self.value <= self.bound
        asked = f"{'at least' if self.least else 'at most'} {self.bound:g} {self.unit}"
        text = f"{self.value:.3g} {self.unit}"
        return f"| {self.what} | {asked} | {text} | {'yes' if met else 'no'} |"


def targets(measured: Sequence[Target]) -> list[str]:
    """The table of what was asked for."""
    head = ["| target | asked | found | met |", "| --- | --- | --- | --- |"]
    return [*head, *(target.line() for target in measured)]


def resnet50() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the 161 parameters of torchvision's ResNet-50."""
    from torchvision.models import resnet50 as made

    with torch.device("meta"):
        return {name: tuple(x.shape) for name, x in made().named_parameters()}
