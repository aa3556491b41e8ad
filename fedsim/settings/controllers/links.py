"""Controllers that give each client the work that it has time for."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from fedsim.settings.controllers.base import NETWORK, Action, ClientObservation, Memory, Observation
from fedsim.settings.named import check_above_zero, check_fraction, check_whole_number

BITS = 16.0
"""Bits per entry that are assumed of a client's first message; later its last message says."""

ROUNDING = 1e-9
"""What a quotient of two times may lack of a whole number: 0.3 / 0.1 is 2.9999999999999996."""


@dataclass(frozen=True)
class FillUpload:
    """Each client the p whose upload takes ``seconds`` on its link.

        p_i = min(most, max(least, seconds r_i / (b_i d)))

    Here r_i is the rate of client i's upload link in bits per second, b_i the bits per entry of its
    last message (16 before the first one), and d the number of entries that are trained. The
    latency is not counted.

    Source: this project.

    Args:
        seconds: the time that an upload is to take.
        least: the smallest p.
        most: the largest p.
    """

    needs: ClassVar[tuple[str, ...]] = (NETWORK,)
    moves: ClassVar[tuple[str, ...]] = ("p",)
    seconds: float
    least: float = 0.001
    most: float = 1.0

    def __post_init__(self) -> None:
        check_above_zero("link: seconds", self.seconds)
        check_fraction("link: least", self.least)
        check_fraction("link: most", self.most)
        if self.least > self.most:
            raise ValueError(f"link: least is {self.least!r}, above most, {self.most!r}")

    def fraction(self, client: ClientObservation, entries: int) -> float:
        """The p of one client."""
        assert client.up is not None  # the network is needed, and so is there
        each = client.up_bits / client.sent if client.up_bits and client.sent else BITS
        return min(self.most, max(self.least, self.seconds * client.up / each / entries))

    def choose(
        self, observation: Observation, memory: Memory
    ) -> tuple[Mapping[int, Action], Memory]:
        n, entries, clients = observation.n, observation.entries, observation.clients.items()
        return {c: Action(n, self.fraction(x, entries)) for c, x in clients}, memory


@dataclass(frozen=True)
class Pace:
    """Each client as many local iterations as take ``seconds`` of its compute, from 1 to ``most``.

        n_i = max(1, min(most, floor(seconds / c_i)))

    Here c_i is the time that client i computes for one local iteration, in seconds.

    Clients then do unlike numbers of iterations: ``--weighting nova`` lets none count for more
    because it went further.

    Source: this project.

    Args:
        seconds: the time that a client is to train.
        most: the largest n.
    """

    needs: ClassVar[tuple[str, ...]] = (NETWORK,)
    moves: ClassVar[tuple[str, ...]] = ("n",)
    seconds: float
    most: int = 100

    def __post_init__(self) -> None:
        check_above_zero("pace: seconds", self.seconds)
        check_whole_number("pace: most", self.most)

    def iterations(self, client: ClientObservation) -> int:
        """The n of one client."""
        assert client.compute is not None  # the network is needed, and so is there
        if self.seconds >= self.most * client.compute:
            return self.most
        fit = self.seconds / client.compute * (1 + ROUNDING)
        return max(1, min(self.most, int(fit)))

    def choose(
        self, observation: Observation, memory: Memory
    ) -> tuple[Mapping[int, Action], Memory]:
        clients = observation.clients.items()
        return {c: Action(self.iterations(x), observation.p) for c, x in clients}, memory
