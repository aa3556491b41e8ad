"""Oort: clients that help most per second, and some that nobody has tried."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.settings.named import check_whole_number
from fedsim.settings.samplers.base import (
    SAMPLES,
    SECONDS,
    TRAIN_LOSS,
    DrawInfo,
    Participation,
    Sampler,
    SamplerMemory,
    smallest,
)

_EXPLOIT, _EXPLORE, _HOW_MANY = 1, 2, 3  # purposes of lots


@dataclass(frozen=True)
class Oort(Sampler):
    """Exploits clients of a high utility, and explores clients whose updates were never used.

    With n_i samples, the mean training loss F_i of the last participation, the round L_i of it, its
    seconds t_i, and the round R, the utility of a client is

        U_i = (n_i |F_i| / max_j n_j |F_j| + sqrt(0.1 ln R / L_i)) (T / t_i)^(alpha [T < t_i])

    Of m clients about epsilon m are explored, drawn with equal probability, and the others are
    exploited: of all clients whose utility is at least ``cutoff`` times the k-th largest, k are
    drawn one after the other with probability by utility, where

        epsilon = max(least, explore decay^(R - 1))

    T is the ``share``-quantile of the durations t_j that were seen. The pacer raises ``share`` by
    ``step`` after every ``window`` rounds whose utilities sum to less than those of the ``window``
    rounds before.

    Args:
        alpha: the power with which slow clients are penalized; 0: times do not count.
        explore: epsilon in the first round.
        decay: what epsilon is multiplied with after each round.
        least: the smallest epsilon.
        cutoff: the paper's c.
        share: of the durations, those that are not penalized at first.
        step: of the pacer.
        window: the paper's W, in rounds.

    Source: Lai et al. 2021 (Oort, OSDI), equations 1 and 2 and Algorithm 1. Departures: clients
    report a mean loss and not the root of the mean square over their samples; utilities are divided
    by the largest before the term of staleness is added; T is a quantile, where the paper has a
    number that the pacer raises; unexplored clients are drawn with equal probability, because
    nothing is known of their speed; no client is left out for having taken part too often.
    """

    alpha: float = 2.0
    explore: float = 0.9
    decay: float = 0.98
    least: float = 0.2
    cutoff: float = 0.95
    share: float = 0.3
    step: float = 0.1
    window: int = 20

    def __post_init__(self) -> None:
        for name in ("explore", "decay", "least", "cutoff", "share", "step"):
            value = getattr(self, name)
            if isinstance(value, bool | str) or not 0 <= value <= 1:
                raise ValueError(f"oort: {name} is {value!r}: it lies in [0, 1]")
        if isinstance(self.alpha, bool | str) or not 0 <= self.alpha < math.inf:
            raise ValueError(f"oort: alpha is {self.alpha!r}: give a number from 0")
        check_whole_number("oort: window", self.window)

    @property
    def needs(self) -> tuple[str, ...]:
        """The numbers of samples and the losses; with ``alpha`` the times."""
        return (SAMPLES, TRAIN_LOSS, SECONDS) if self.alpha else (SAMPLES, TRAIN_LOSS)

    def draw(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        participations = memory.get("seen", {})
        in_memory = np.array([str(client) in participations for client in info.candidates])
        explored = self._explored(info, int(in_memory.sum()))
        fresh = smallest(info.candidates[~in_memory], info.lots(_EXPLORE)[~in_memory], explored)
        count = info.count - explored
        if not count:
            return fresh
        clients = info.candidates[in_memory]
        utility = self.utilities(clients, info.round, memory)
        good = utility >= self.cutoff * np.sort(utility)[-count]
        with np.errstate(divide="ignore"):
            keys = info.lots(_EXPLOIT)[in_memory] / utility
        return fresh + smallest(clients[good], keys[good], count)

    def _explored(self, info: DrawInfo, participants: int) -> int:
        """How many of a draw are explored; epsilon times their number on average."""
        share = max(self.least, self.explore * self.decay ** (info.round - 1))
        u = float(np.random.default_rng([info.seed, _HOW_MANY]).random())
        fresh = len(info.candidates) - participants
        count = math.floor(share * info.count + u)
        return min(fresh, max(count, info.count - participants))

    def utilities(
        self, clients: np.ndarray, round_number: int, memory: SamplerMemory
    ) -> np.ndarray:
        """U_i of clients whose updates were used, shape (clients,)."""
        participations = memory["seen"]
        gain, last, seconds = np.array([participations[str(client)] for client in clients], float).T
        peak = max(entry[0] for entry in participations.values())
        utility = (gain / peak if peak else gain) + np.sqrt(0.1 * math.log(round_number) / last)
        if not self.alpha:
            return np.asarray(utility)
        times = [entry[2] for entry in participations.values()]
        preferred = float(np.quantile(times, memory.get("share", self.share)))
        slow = seconds > preferred
        utility[slow] *= (preferred / seconds[slow]) ** self.alpha
        return np.asarray(utility)

    def learn(self, taken: Mapping[int, Participation], memory: SamplerMemory) -> SamplerMemory:
        updates = {
            str(client): [one.samples * abs(one.train_loss or 0.0), one.round, one.seconds or 0.0]
            for client, one in taken.items()
        }
        gains = [*memory.get("gains", []), sum(entry[0] for entry in updates.values())]
        share = memory.get("share", self.share)
        if len(gains) == 2 * self.window:
            if sum(gains[self.window :]) < sum(gains[: self.window]):
                share = min(1.0, share + self.step)
            gains = gains[self.window :]
        return {"seen": memory.get("seen", {}) | updates, "gains": gains, "share": share}
