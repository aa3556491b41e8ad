"""FedBuff: an asynchronous server whose model moves by each full buffer of updates."""

from dataclasses import dataclass

import torch

from compressors import State, Tensors
from compressors.base import empty_like
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import check_weighting, simulated_time
from strategies.algorithms.staleness import Staleness, weight

BY_SAMPLES = "samples"
"""A weighting; in the server's memory, those of the buffered updates' clients."""

BUFFERED = "buffered"  # in the server's memory: how many updates wait in the buffer


@dataclass(frozen=True)
class FedBuff(Algorithm):
    """When the buffer is full, the mean of its updates, weighted by staleness, moves the model.

        w' = w + server_lr sum_k s(t_k) n_k u_k / sum_k n_k

    Here k goes over the updates of the buffer, u_k is the decoded update, t_k how many steps the
    model has made since its client was sent it, s the weight by ``staleness``, and n_k is 1, or the
    client's samples. So the mean is over the number of updates, not over the sum of their weights.

    Args:
        buffer_size: updates per step; None: 10, which the paper proposes for every task (section
            5), or the cohort where that is smaller.
        staleness: the weight of an update by how old the model is that it was made from.
        server_lr: what every step is multiplied by.
        weighting: ``uniform`` (as in the paper) or ``samples``.

    Raises ``ValueError`` for another weighting.

    Source: Nguyen et al. 2022 (FedBuff), Algorithm 1.

    Example:
        >>> FedBuff(5, "constant").server_lr
        1.0
    """

    clock = "server"
    requires = (simulated_time,)
    buffer_size: int | None = None
    staleness: Staleness | str = Staleness()
    server_lr: float = 1.0
    weighting: str = "uniform"

    def __post_init__(self) -> None:
        weight(self.staleness)
        check_weighting(self.weighting)

    def buffer_of(self, at_work: int) -> int:
        """The updates per step, with so many clients at work at once."""
        return self.buffer_size or min(10, at_work)

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        size, age = self.buffer_of(info.cohort), weight(self.staleness)
        total, buffered = unnest("sum", state) or empty_like(model), int(state.get(BUFFERED, 0))
        samples = float(state.get(BY_SAMPLES, 0.0))
        for client, uplink in uplinks.items():
            share = self.server_lr * age(info.age[client]) / size
            if self.weighting == BY_SAMPLES:
                share, samples = share * uplink.samples, samples + uplink.samples
            total = {n: torch.add(total[n], x, alpha=share) for n, x in uplink.update.items()}
            buffered += 1
        if buffered < size:
            next_state = nest("sum", total) | {BUFFERED: torch.tensor(buffered, device="cpu")}
            if samples:
                next_state[BY_SAMPLES] = torch.tensor(samples, dtype=torch.float64, device="cpu")
            return None, next_state
        return {n: x * (size / samples) for n, x in total.items()} if samples else total, {}
