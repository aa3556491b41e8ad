"""Distributed SGD with communication delay: the model moves by the mean of the clients' updates."""

from dataclasses import dataclass

from compressors import State, Tensors
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.channel.traffic import average, average_normalized

WEIGHTINGS = ("uniform", "samples", "nova")


@dataclass(frozen=True)
class DSGD(Algorithm):
    """The mean of a round's updates moves the model.

        w' = w + sum_k u_k / m                                    (uniform)
        w' = w + sum_k n_k u_k / sum_k n_k                        (samples)
        w' = w + (sum_k q_k t_k) sum_k q_k u_k / t_k              (nova, q_k = n_k / sum_j n_j)

    Here u_k is the decoded update of client k, n_k its number of samples and t_k its number of
    local iterations; the sums are over the m clients of the round whose updates are used.

    Args:
        weighting: ``uniform``, ``samples``, or ``nova``: by samples, over the local iterations that
            each client was asked for, by its order or a setting ``iterations``; 1 where nothing
            says how many.

    Raises ``ValueError`` for another weighting.

    Source: Sattler et al. 2018 (Sparse Binary Compression), Algorithm 1, lines 18 and 19, whose
    mean is uniform; samples: McMahan et al. 2017 (FedAvg), Algorithm 1; nova: Wang et al. 2020
    (Tackling the objective inconsistency problem), equations 6 and 7, for plain SGD: with momentum
    or a proximal term the paper's t_k are other numbers.

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

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        return self.mean(uplinks, info), state

    def mean(self, uplinks: Uplinks, info: RoundInfo) -> Tensors:
        """The mean by ``weighting``."""
        if self.weighting == "nova":
            return average_normalized(uplinks, info.iterations)
        return average(uplinks, self.weighting)
