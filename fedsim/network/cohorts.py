"""Rules of availability, dropout and the end of a round, read from texts."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from compressors import derive
from compressors.grammar import read_call
from fedsim.ground.errors import UsageError
from fedsim.network.availability import Availability

Leaves = Literal["before", "after", ""]
"""When a client drops out: before it trains, after it has trained, or not at all."""


@dataclass(frozen=True)
class ClientDropout:
    """How many of those that are asked drop out."""

    before: float = 0.0  # the probability that a client that is asked does not train
    after: float = 0.0  # the probability that it trains and its update is never sent

    def draw(self, seed: int, round_number: int, clients: Iterable[int]) -> dict[int, Leaves]:
        """When each of some clients drops out, if it is asked in this round.

        A client has the draw of its number, which others' draws are not needed for.

        Example:
            >>> dropout = ClientDropout(before=0.5, after=0.5)
            >>> dropout.draw(0, 1, range(4))
            {0: 'after', 1: 'after', 2: 'before', 3: 'after'}
            >>> dropout.draw(0, 1, [2])
            {2: 'before'}
        """
        if not self.before + self.after:
            return dict.fromkeys(clients, "")
        bits = np.random.PCG64(derive(seed, "dropout", round_number))
        generator, edges = np.random.Generator(bits), (self.before, self.before + self.after)
        leaves, place = dict[int, Leaves](), 0
        for client in sorted(clients):
            bits.advance(client - place)
            place = client + 1
            leaves[client] = get_args(Leaves)[bisect_right(edges, generator.random())]
        return leaves


def parse_dropout(text: str) -> ClientDropout:
    """A dropout from its text: `0.1`, before training, or `before=0.05, after=0.05`.

    Raises ``UsageError`` where it is neither, or the probabilities do not lie in [0, 1] together.

    Example:
        >>> parse_dropout("0.1"), parse_dropout("after=0.2")
        (ClientDropout(before=0.1, after=0.0), ClientDropout(before=0.0, after=0.2))
    """
    try:
        call = read_call(text.strip() and f"({text})")
        arguments = (float(str(x)) for x in call.arguments)
        dropout = ClientDropout(*arguments, **{key: float(str(x)) for key, x in call.named.items()})
        fits = min(dropout.before, dropout.after) >= 0 and dropout.before + dropout.after <= 1
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise UsageError(
            f"--dropout is {text!r}: give a probability such as 0.1 (before training), or "
            "'before=0.05, after=0.05', at most 1 together"
        )
    return dropout


@dataclass(frozen=True)
class Rules:
    """How the cohorts of a run behave, and when its rounds are over."""

    availability: Availability | None = None  # None: all clients can be asked, always
    dropout: ClientDropout = ClientDropout()
    deadline: float | None = None  # seconds of a round; None: it lasts as long as it takes
    first: int | None = None  # updates with which a round ends; None: all that were asked

    @property
    def late(self) -> bool:
        """Whether an update can come when its round is over."""
        return self.deadline is not None or self.first is not None

    @property
    def plain(self) -> bool:
        """Whether everybody is there, stays, and is waited for."""
        return self == Rules()

    @property
    def by_the_clock(self) -> bool:
        """Whether simulated time decides if an update is used, or who is asked."""
        timed = self.availability is not None and self.availability.by_the_clock
        return self.late or timed

    def order(self, arrivals: Sequence[float], seed: int, round_number: int) -> list[int]:
        """The places of arrivals, the first first; those of one moment in an order of the seed."""
        lots = np.random.default_rng(derive(seed, "arrival", round_number)).random(len(arrivals))
        return [int(place) for place in np.lexsort((lots, np.array(arrivals)))]

    def waits_for(self, coming: int, missing: bool) -> float:
        """How many updates a round waits for, until its deadline at the latest.

        Without a deadline the server knows at once who has dropped out, and does not wait for them.
        With a deadline it waits until then. ``coming``: updates that are on their way; ``missing``:
        whether some that were asked have dropped out.

        Example:
            >>> Rules(deadline=5.0).waits_for(3, missing=False)
            3
            >>> Rules(deadline=5.0).waits_for(3, missing=True)
            inf
            >>> Rules(deadline=5.0, first=2).waits_for(3, missing=True)
            2
        """
        if self.first is not None and coming >= self.first:
            return self.first
        return math.inf if missing and self.deadline is not None else coming
