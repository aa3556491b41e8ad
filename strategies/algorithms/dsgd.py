"""Distributed SGD with communication delay: the model moves by the mean of the clients' updates."""

from collections.abc import Mapping
from dataclasses import dataclass

from compressors import State, Tensors
from strategies.algorithms.base import Algorithm, RoundInfo
from strategies.channel.traffic import Uplink, average, average_normalized

WEIGHTINGS = ("uniform", "samples", "nova")


@dataclass(frozen=True)
class DSGD(Algorithm):
    """The mean of a round's updates.

    Args:
        weighting: ``uniform``, ``samples``, or ``nova``: by samples, over the local iterations that
            each client was asked for, by its order or a setting ``iterations``; 1 where nothing
            says how many.

    Raises ``ValueError`` for another weighting.

    Source: Sattler et al. 2018 (Sparse Binary Compression), Algorithm 1, line 18.

    Example:
        >>> DSGD().weighting
        'uniform'
    """

    weighting: str = "uniform"

    def __post_init__(self) -> None:
        if self.weighting not in WEIGHTINGS:
            raise ValueError(
                f"weighting is {self.weighting!r}: give one of {', '.join(WEIGHTINGS)}"
            )

    @property
    def averages(self) -> bool:
        kind = type(self)
        return kind.step is DSGD.step and kind.mean is DSGD.mean and self.weighting != "nova"

    def step(
        self, uplinks: Mapping[int, Uplink], state: State, model: Tensors, info: RoundInfo
    ) -> tuple[Tensors | None, State]:
        return self.mean(uplinks, info), state

    def mean(self, uplinks: Mapping[int, Uplink], info: RoundInfo) -> Tensors:
        """The mean by ``weighting``."""
        if self.weighting == "nova":
            return average_normalized(uplinks, info.iterations)
        return average(uplinks, self.weighting)
