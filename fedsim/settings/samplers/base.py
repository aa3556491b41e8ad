"""The contract of a sampler: what it is told before it draws clients, and what it learns after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

SAMPLES, LINKS, TRAIN_LOSS, SECONDS = "samples", "links", "train_loss", "seconds"
LOCAL_LOSS = "local_loss"
SAMPLER_NEEDS = (SAMPLES, LINKS, TRAIN_LOSS, SECONDS, LOCAL_LOSS)
"""What a sampler can need. Numbers of samples and losses travel and are charged; times are the
server's own, and need ``--network``. ``local_loss``: it asks before a draw."""

SamplerMemory = dict[str, Any]
"""What a sampler remembers between rounds, as JSON can hold it; empty at first."""


@dataclass(frozen=True)
class DrawInfo:
    """A sampler's observation before it draws.

    Args:
        number: of the draw: the round, from 1; of a server that does not wait 0 for the clients
            that it asks first, then 1, 2, ... for each client that it asks.
        round: the round, or the row of results that is being filled, from 1.
        count: how many clients are wanted; fewer than there are candidates.
        candidates: the clients that can be asked now, ascending, shape (candidates,).
        clients: how many the federation has.
        seed: of this draw.
        samples: the number of samples of each candidate, shape (candidates,); of zeros where the
            sampler does not need them.
        transfer_seconds: how long a dense model would travel to each candidate and back now, with
            the latency of both messages, shape (candidates,); of zeros too.
        local_losses: by client, of those that the sampler asked (``Sampler.asks``).
    """

    number: int
    round: int
    count: int
    candidates: np.ndarray
    clients: int
    seed: int
    samples: np.ndarray = field(default_factory=lambda: np.zeros(0))
    transfer_seconds: np.ndarray = field(default_factory=lambda: np.zeros(0))
    local_losses: Mapping[int, float] = field(default_factory=dict)

    def lots(self, purpose: int = 0) -> np.ndarray:
        """A lot for each candidate, exponentially distributed with mean 1, shape (candidates,).

        They are drawn by client number: a client's lot does not depend on who else can be asked.

        Args:
            purpose: another number gives other lots.

        Example:
            >>> few = DrawInfo(1, 1, 1, np.array([0, 2]), clients=3, seed=7)
            >>> every = DrawInfo(1, 1, 1, np.arange(3), clients=3, seed=7)
            >>> bool((few.lots() == every.lots()[[0, 2]]).all())
            True
        """
        generator = np.random.default_rng([self.seed, purpose])
        return generator.exponential(size=self.clients)[self.candidates]


@dataclass(frozen=True)
class Participation:
    """What the server knows of a client whose update it has used in a round.

    Args:
        round: the round, or the row, that used it.
        samples: of the client.
        train_loss: the mean over its local iterations; None: the sampler does not need it.
        seconds: from the request to the reply, on the simulated clock; None: there is none.
    """

    round: int
    samples: int
    train_loss: float | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Sampler:
    """Draws clients: a frozen dataclass without memory of its own; its fields are its settings.

    This class itself draws every set of candidates with the same probability.

    Attributes:
        place: ``FILE.py:NAME``, where a user's own was found by that; else empty.
        content: the digest of that file; else empty.
    """

    place: ClassVar[str] = ""
    content: ClassVar[str] = ""

    @property
    def needs(self) -> tuple[str, ...]:
        """Which of ``SAMPLER_NEEDS`` it reads; a class may also have a tuple of that name."""
        return ()

    @property
    def written(self) -> str:
        """What files of settings call a user's own."""
        return self.place or repr(self)

    def refusal(self, requests: int, clients: int, waits: bool) -> str:
        """Why it does not go with a run, a verb and its objects; empty where it does.

        Args:
            requests: how many clients a round asks, or are at work at once.
            clients: of the federation.
            waits: whether the server has rounds.
        """
        return ""

    @property
    def loss_batches(self) -> int:
        """On how many of its batches a client that is asked computes its loss; 0: on an epoch."""
        return 0

    def asks(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        """The candidates that are asked for their loss before the draw: none.

        Each is sent the model as it is now, computes its mean loss as training begins (in training
        mode, without a step), and answers a float32. A server that does not wait asks nobody.
        """
        return ()

    def draw(self, info: DrawInfo, memory: SamplerMemory) -> Sequence[int]:
        """``info.count`` different clients of ``info.candidates``, in any order.

        ``memory`` is what ``learn`` returned the last time, empty at first; it is not changed.

        Example:
            >>> info = DrawInfo(1, 1, 2, np.array([3, 5, 8]), clients=9, seed=0)
            >>> [int(client) for client in Sampler().draw(info, {})]
            [3, 5]
        """
        return smallest(info.candidates, info.lots(), info.count)

    def learn(self, taken: Mapping[int, Participation], memory: SamplerMemory) -> SamplerMemory:
        """The next memory, after a round whose used updates are of these clients."""
        return memory


def smallest(clients: np.ndarray, keys: np.ndarray, count: int) -> list[int]:
    """So many of the clients, those of the smallest keys first; of equal keys the first.

    Example:
        >>> smallest(np.array([3, 5, 8]), np.array([0.5, 0.1, 0.3]), 2)
        [5, 8]
    """
    return [int(client) for client in clients[np.argsort(keys, kind="stable")[:count]]]


def weighted(info: DrawInfo, weights: np.ndarray, count: int) -> list[int]:
    """So many candidates without replacement, one after the other by weight (Efraimidis 2006).

    With E_i exponentially distributed with mean 1, the smallest keys are taken:

        key_i = E_i / w_i = -log(u_i) / w_i, the order of u_i^(1/w_i) from the largest

    So the first is i with probability w_i / sum w, the next in the same way among those that are
    left. A weight of 0 comes after all others.

    Args:
        info: of the draw.
        weights: of each candidate, not negative, shape (candidates,).
        count: how many are drawn.

    Source: Efraimidis & Spirakis 2006 (Weighted random sampling with a reservoir), algorithm A.
    """
    with np.errstate(divide="ignore"):
        keys = np.where(weights > 0, info.lots() / weights, np.inf)
    return smallest(info.candidates, keys, count)
