"""The samplers by the names that users type."""

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedsim.settings.samplers.base import Sampler


@dataclass(frozen=True)
class ListedSampler:
    """One sampler: where its class lies (``module:Class`` in ``fedsim.settings.samplers``), a
    title, a source, and an example of its text.
    """

    make: str
    title: str
    source: str
    example: str

    @property
    def cls(self) -> "type[Sampler]":
        """The class, imported when somebody asks."""
        module, name = self.make.split(":")
        cls: type[Sampler] = vars(import_module(f"fedsim.settings.samplers.{module}"))[name]
        return cls


SAMPLERS: dict[str, ListedSampler] = {
    "uniform": ListedSampler(
        "simple:Uniform", "every client with the same probability", "McMahan et al. 2017 (FedAvg)",
        "uniform",
    ),
    "weighted": ListedSampler(
        "simple:Weighted", "one client after the other, with probability by its samples",
        "Efraimidis & Spirakis 2006, algorithm A; Li et al. 2020, scheme I", "weighted(samples)",
    ),
    "power_of_choice": ListedSampler(
        "losses:PowerOfChoice", "of candidates, which are drawn by samples, those with high losses",
        "Cho et al. 2020 (power of choice)", "power_of_choice(10)",
    ),
    "oort": ListedSampler(
        "oort:Oort", "clients with large losses and short times, and some that were never used",
        "Lai et al. 2021 (Oort), Algorithm 1", "oort",
    ),
    "link": ListedSampler(
        "simple:ByLink", "the clients with the fastest links", "this project", "link(fastest)",
    ),
}  # fmt: skip
