"""A sampler that prefers clients with a high loss: power of choice."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedsim.settings.named import check_whole_number
from fedsim.settings.samplers.base import (
    LOCAL_LOSS,
    SAMPLES,
    TRAIN_LOSS,
    DrawInfo,
    Participation,
    Sampler,
    SamplerMemory,
    weighted,
)


@dataclass(frozen=True)
class PowerOfChoice(Sampler):
    """Of ``candidates`` clients, which are drawn by their samples, those with the highest loss.

        P(next candidate is i) = n_i / sum_j n_j
        S = the m clients of the largest F_i in A

    Here n_i is the number of samples of client i, and the sum is over those that are left; A are
    the candidates, S the clients of the round, F_i the loss of client i. Equal losses: in the order
    in which the candidates were drawn.

    The server sends the candidates the model, and each answers its loss F_i at that model: over an
    epoch of its batches (pow-d), or over fewer (cpow-d). With ``stale`` it asks nobody: F_i is the
    mean training loss of the client's last participation (rpow-d), infinite before the first.

    Args:
        candidates: the paper's d. Where fewer can be asked, all of them are candidates.
        stale: whether losses are those of last participations.
        batches: on how many batches a candidate computes its loss; 0: on an epoch.

    Source: Cho, Wang & Joshi 2020 (arXiv 2010.01243), sections 3 and 4.
    """

    candidates: int
    stale: bool = False
    batches: int = 0

    def __post_init__(self) -> None:
        check_whole_number("power_of_choice: candidates", self.candidates)
        check_whole_number("power_of_choice: batches", self.batches, least=0)
        if not isinstance(self.stale, bool):
            raise ValueError(f"power_of_choice: stale is {self.stale!r}: give true or false")
        if self.stale and self.batches:
            raise ValueError(
                f"power_of_choice: batches is {self.batches!r} and stale is true: nobody computes "
                "a loss for the draw; leave one of the two out"
            )

    @property
    def needs(self) -> tuple[str, ...]:
        """The numbers of samples, and losses: of training with ``stale``, else local ones."""
        return SAMPLES, TRAIN_LOSS if self.stale else LOCAL_LOSS

    @property
    def loss_batches(self) -> int:
        return self.batches

    def refusal(self, requests: int, clients: int, waits: bool) -> str:
        if not (waits or self.stale):
            return (
                "asks candidates for their losses before a round, and a server that does not wait "
                f"has none: give power_of_choice({self.candidates}, stale=true)"
            )
        least = requests if waits else 1
        if least <= self.candidates <= clients:
            return ""
        return (
            f"draws {self.candidates} candidates; their number lies between the clients that are "
            f"asked together ({least}) and all ({clients})"
        )

    def asks(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        return () if self.stale else self._among(info)

    def draw(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        last = memory.get("losses", {})
        losses = {int(c): x for c, x in last.items()} if self.stale else info.local_losses
        return sorted(self._among(info), key=lambda c: -losses.get(c, math.inf))[: info.count]

    def _among(self, info: DrawInfo) -> list[int]:
        return weighted(info, info.samples, max(self.candidates, info.count))

    def learn(self, taken: Mapping[int, Participation], memory: SamplerMemory) -> SamplerMemory:
        if not self.stale:
            return memory
        heard = {str(client): one.train_loss for client, one in taken.items()}
        return {"losses": memory.get("losses", {}) | heard}
