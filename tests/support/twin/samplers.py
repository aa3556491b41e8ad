"""``--sampler``: which of those who can be asked are asked (docs/samplers.md)."""

import math
from collections.abc import Sequence

from tests.support.twin.clock import Clock, Stage
from tests.support.twin.draws import Draws
from tests.support.twin.network import call

TOLD = 32  # bits of a number of samples


class Sampler:
    """What draws the clients of a round, or the next one.

    Args:
        text: the setting.
        draws: the run's dice.
        clock: with the network.
        entries: of what travels.
    """

    def __init__(self, text: str, draws: Draws, clock: Clock, entries: int) -> None:
        self.text, self.draws, self.clock, self.entries = text, draws, clock, entries
        name, arguments = call(text)
        self.uniform, self.by_samples = name == "uniform", name in ("weighted", "power_of_choice")
        self.candidates = int(arguments[0]) if name == "power_of_choice" else 0
        self.losses: dict[int, float] = {}  # of last participations
        self.report = TOLD if self.candidates else 0  # bits of every reply

    def tell(self) -> int:
        """Every client tells how many samples it has: the bits of all, when all have come."""
        if not self.by_samples:
            return 0
        latency = self.clock.network.values["latency"]
        works = [
            self.clock.start(
                [
                    Stage("upload", TOLD, (("up", c), ("server", "up"))),
                    Stage("upload", latency[c]),
                ]
            )
            for c in range(self.draws.clients)
        ]
        while not all(work.over for work in works):
            self.clock.step()
        return TOLD * len(works)

    def choose(self, number: int, count: int, among: Sequence[int]) -> list[int]:
        """So many of ``among``, which is sorted; all of them where they are not more.

        ``number``: of the round, or of the client that is asked next (0: those asked first).
        """
        if count >= len(among):
            return list(among)
        lots = self.draws.sampler_lots(number)
        if self.by_samples:
            shards = self.draws.shards
            drawn = sorted(among, key=lambda c: lots[c] / len(shards[c]))
            if self.candidates:
                drawn = drawn[: max(count, self.candidates)]
                drawn.sort(key=lambda c: -self.losses.get(c, math.inf))
            return sorted(drawn[:count])
        return sorted(sorted(among, key=lambda c: (self.seconds(c), lots[c]))[:count])

    def seconds(self, client: int) -> float:
        """How long a dense model would travel to a client and back, at the rates of now."""
        network, now, bits = self.clock.network, self.clock.now, 32.0 * self.entries
        down, up = (network.rate(way, client, now) for way in ("down", "up"))
        return bits / down + bits / up + 2 * network.values["latency"][client]
