"""The interface of a run to its sampler: observations, requests, and the bits of requests."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from compressors import derive
from fedsim.federation.inflight import InFlight
from fedsim.federation.orders import as_json
from fedsim.federation.updates import Update
from fedsim.ground.errors import RunFailed
from fedsim.network.clock import Clock
from fedsim.network.rates import rates_at
from fedsim.network.spec import Links
from fedsim.settings.config import RunConfig
from fedsim.settings.samplers import DrawInfo, Participation, SamplerMemory
from fedsim.settings.samplers.base import LINKS, LOCAL_LOSS, SAMPLES, TRAIN_LOSS
from fedsim.settings.samplers.simple import Uniform
from strategies import RoundTraffic
from strategies.channel.framing import Travel
from strategies.channel.nodes import Without
from strategies.channel.orders import Reports

NUMBER_BITS = 32
"""Bits of a number that a client sends to the server: a number of samples, or a float32."""


class Sampling:
    """A run's sampler at work, which is another than ``uniform``.

    Attributes:
        memory: the sampler's.
        score: by a round's number and clients, their losses at the server's model and the bits of
            the model that each of them was sent for that; set before the first round.
    """

    def __init__(self, config: RunConfig, shards: Sequence[Any], entries: int) -> None:
        plan = config.plan
        self.sampler, self.name, self.seed = plan.draws, plan.sampler, config.seed
        self.clients, self.entries = plan.clients, entries
        needs = self.sampler.needs
        self.sides = (Reports((TRAIN_LOSS,)),) if TRAIN_LOSS in needs else ()
        self.samples = (
            np.array([len(shards[client]) for client in range(plan.clients)])
            if SAMPLES in needs
            else None
        )
        self.links: Links | None = None
        if LINKS in needs:
            assert plan.network is not None  # checks: _sampler
            self.links = plan.network.links(plan.clients, config.seed, 0.0)
        self.memory: SamplerMemory = {}
        self.score: Callable[[int, Sequence[int]], tuple[dict[int, float], dict[int, int]]]
        self._registered = 0  # bits, in this round
        self._scored = dict[int, int]()  # by client: bits of the model, in this round

    @classmethod
    def of(cls, config: RunConfig, shards: Sequence[Any], entries: int) -> "Sampling | None":
        """The sampling of a run; None where all clients are drawn with the same probability."""
        if isinstance(config.plan.draws, Uniform):
            return None
        return cls(config, shards, entries)

    def register(self, clock: Clock[InFlight], timed: bool) -> list[InFlight]:
        """Before the first round every client tells how many samples it has, where that matters.

        The clock goes on until the server has heard of all. Returns the messages; none where they
        take no time.
        """
        if self.samples is None:
            return []
        self._registered = NUMBER_BITS * self.clients
        if not timed:
            return []
        messages = [InFlight(c, 0, up_bits=NUMBER_BITS) for c in range(self.clients)]
        clock.announce(messages)
        return messages

    def draw(
        self,
        number: int,
        round_number: int,
        among: Sequence[int] | np.ndarray,
        count: int,
        now: float,
    ) -> list[int]:
        """Draws ``count`` of the clients ``among``, both ascending; all if there are no more.

        ``number`` is that of the draw (``DrawInfo``), ``round_number`` that of the round or the
        row, and ``now`` the simulated time in seconds.

        Raises ``RunFailed`` where the sampler draws others than the candidates, or another number.
        """
        candidates = _listed(among)
        if count >= len(candidates):
            return [int(client) for client in candidates]
        none = np.zeros(len(candidates))
        info = DrawInfo(
            number,
            round_number,
            count,
            candidates,
            self.clients,
            derive(self.seed, "sampler", number),
            samples=none if self.samples is None else self.samples[candidates],
            transfer_seconds=none
            if self.links is None
            else _transfer_seconds(self.links, 32.0 * self.entries, candidates, now),
        )
        if LOCAL_LOSS in self.sampler.needs:
            scored = self.sampler.asks(info, self.memory)
            clients = self._checked(round_number, "asks", info, scored, len(scored))
            losses, self._scored = self.score(round_number, clients)
            info = replace(info, local_losses=losses)
        return self._checked(
            round_number, "drew", info, self.sampler.draw(info, self.memory), count
        )

    def _checked(
        self, number: int, did: str, info: DrawInfo, chosen: Sequence[int], count: int
    ) -> list[int]:
        try:
            drawn: Any = [index(client) for client in chosen]
            fits = len({*drawn} & {*info.candidates.tolist()}) == len(drawn) == count
        except TypeError:  # no list, or no whole numbers
            drawn, fits = chosen, False
        if not fits:
            raise RunFailed(
                f"round {number}: sampler {self.name} {did} {drawn!r}: give {count} "
                f"different clients of the {len(info.candidates)} candidates"
            )
        return sorted(drawn)

    def request_bits(self, traffic: RoundTraffic) -> Travel:
        """The bits of the sampler's requests in a round, whose ``traffic`` has the rest.

        The model that a client was sent to compute its loss is there if the client was drawn: it is
        not sent again.
        """
        down = (bits for c, bits in self._scored.items() if c not in traffic.downlinks)
        return Travel(sum(down), self._registered + NUMBER_BITS * len(self._scored))

    def learn(self, number: int, traffic: RoundTraffic, updates: Mapping[int, Update]) -> None:
        """Tells the sampler of a round, or row: whose updates were used, and what is known of them.

        ``updates``: by a key of the traffic.
        """
        taken = {
            updates[key].client: Participation(
                number,
                int(up.samples),
                up.report.get(TRAIN_LOSS),
                updates[key].seconds,
            )
            for key, up in sorted(traffic.uplinks.items())
        }
        memory = self.sampler.learn(taken, self.memory)
        self.memory = as_json(memory, f"round {number}: sampler {self.name}")
        self._registered, self._scored = 0, {}


def _listed(clients: Sequence[int] | np.ndarray) -> np.ndarray:
    """The numbers of clients as an array, without a look at each where only a few are missing."""
    if isinstance(clients, Without):
        return np.delete(np.arange(clients.clients), clients.without)
    return np.array(clients, dtype=int)


def _transfer_seconds(links: Links, bits: float, clients: np.ndarray, now: float) -> np.ndarray:
    """The seconds of so many bits down and up, with both latencies, by client."""
    down, up = (rates_at(rates, clients, now) for rates in (links.down, links.up))
    with np.errstate(divide="ignore"):
        return np.asarray(bits / down + bits / up + 2 * links.latency[clients])
