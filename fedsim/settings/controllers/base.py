"""The contract of a controller: what it is told before a round, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

REPORTS = ("train_loss", "update_norm", "residual_norm")
"""What clients can report beside their update, 32 bits each, where a controller needs it."""

AGREEMENT, NETWORK = "agreement", "network"
CONTROLLER_NEEDS = (*REPORTS, AGREEMENT, NETWORK)
"""What a controller can need; the last two cost no bits."""

Memory = dict[str, Any]
"""What a controller remembers between rounds, as JSON can hold it; empty at first."""


@dataclass(frozen=True)
class Action:
    """n and p of one round: local iterations, a whole number from 1, and a fraction in (0, 1]."""

    n: int
    p: float


@dataclass(frozen=True)
class ClientObservation:
    """What the server knows of one client; None: not yet, or nobody asked for it.

    Attributes:
        n: local iterations of the client's last used update.
        p: the fraction of entries of that update.
        up_bits: of the message that carried it.
        sent: entries that travelled in it.
        train_loss: the mean over its local iterations.
        update_norm: the L2 norm of the update before it was compressed.
        residual_norm: the L2 norm of what the client then kept.
        up: the rate of the client's upload link now, in bits per second.
        down: that of its download link.
        latency: of one message, in seconds.
        compute: seconds per local iteration.
    """

    n: int | None = None
    p: float | None = None
    up_bits: int | None = None
    sent: int | None = None
    train_loss: float | None = None
    update_norm: float | None = None
    residual_norm: float | None = None
    up: float | None = None
    down: float | None = None
    latency: float | None = None
    compute: float | None = None


@dataclass(frozen=True)
class Observation:
    """A controller's observation before a round; None: not known yet, or nobody asked for it.

    Attributes:
        round: the round that is to begin, from 1.
        iteration: local iterations that are done.
        iterations: local iterations of the whole run; with ``--local-epochs``, where the rounds to
            come ask clients like this round's.
        n: ``--temporal``, where the run begins; with ``--local-epochs`` that.
        p: ``--gradient``, where the run begins; 1 for a method without a fraction.
        rate: the factor on the base learning rate at this iteration.
        rate_drops: at which iterations that factor becomes smaller.
        up_bits: sent so far by a client of every round.
        down_bits: received so far by a client of every round.
        seconds: simulated time so far; None without ``--network``.
        train_loss: the mean of what the last round's clients report.
        loss: held-out, of the last evaluation.
        metric: held-out, of the last evaluation.
        update_norm: the L2 norm of the last global update, of the weights that are trained alone.
        agreement: the cosine between the last global update and the one before it, of the same
            weights; None where one of them moved nothing.
        entries: of the model, as far as they are trained.
        clients: what is known of each client that is asked in this round, by number.
    """

    round: int
    iteration: int
    iterations: int
    n: int
    p: float
    rate: float
    rate_drops: tuple[int, ...]
    up_bits: float
    down_bits: float
    seconds: float | None
    train_loss: float | None
    loss: float | None
    metric: float | None
    update_norm: float | None
    agreement: float | None
    entries: int
    clients: Mapping[int, ClientObservation]

    @property
    def base(self) -> Action:
        """n and p where the run begins."""
        return Action(self.n, self.p)


class Controller(Protocol):
    """Chooses n and p of every round: a frozen dataclass without memory of its own.

    Attributes:
        needs: which of ``CONTROLLER_NEEDS`` it reads; ``train_loss``, ``update_norm`` and
            ``residual_norm`` are then reported by clients and charged.
        moves: which of ``n`` and ``p`` it moves.
    """

    needs: ClassVar[tuple[str, ...]]
    moves: ClassVar[tuple[str, ...]]

    def choose(
        self, observation: Observation, memory: Memory
    ) -> tuple[Action | Mapping[int, Action], Memory]:
        """One choice for all clients or one per client, and what it remembers from now on.

        ``memory`` is what it returned the last time; it is not changed in place.
        """
        ...
