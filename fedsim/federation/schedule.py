"""The schedule of a run: when its server asks clients, and when their updates make a row."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flwr.serverapp import Grid

from fedsim.federation.inflight import InFlight
from fedsim.federation.orders import Fixed
from fedsim.federation.sampling import Sampling
from fedsim.federation.spending import Spending
from fedsim.federation.trainer import Trainer
from fedsim.federation.updates import RoundUpdates
from fedsim.network.clock import Clock
from fedsim.network.spec import NetworkSpec, parse
from fedsim.settings.config import RunConfig
from strategies import ChannelStrategy

_NO_TIME = "compute=0s"


@dataclass(eq=False)
class Schedule(ABC):
    """A server's requests over time, on one simulated clock.

    Nothing sleeps. Which client is late follows from the lengths of the messages and from the
    settings alone, so that every engine has the same rows.

    Attributes:
        clock: with the requests in flight.
        agenda: the clock's, with the time.
        presence: which clients are there; None: all.
        depleted: clients whose battery is empty.
    """

    config: RunConfig
    trainer: Trainer  # for losses of the server's model
    strategy: ChannelStrategy
    work: Fixed  # what clients do
    sampling: Sampling | None = None  # None: all clients are drawn with the same probability
    spending: Spending | None = None  # None: nothing takes energy
    network: NetworkSpec | None = None  # with the FLOPs of an iteration where it goes by them
    now: float = 0.0  # where the clock begins, in seconds: not at 0 where a run goes on

    def __post_init__(self) -> None:
        plan, seed = self.config.plan, self.config.seed
        self.plan, self.rules, self.timed = plan, plan.rules, self.network is not None
        self.spec = self.network or parse(_NO_TIME)
        self.clock: Clock[InFlight] = Clock(self.spec.links(plan.clients, seed, 1.0), self.now)
        self.agenda = self.clock.agenda
        self.depleted = set[int]() if self.spending is None else self.spending.empty
        availability = plan.rules.availability
        self.presence = None if availability is None else availability.of(plan.clients, seed)

    @property
    @abstractmethod
    def exhausted(self) -> bool:
        """Whether too few clients have energy left for another row."""

    @abstractmethod
    def open(self, grid: Grid) -> None:
        """Goes over ``grid`` from now on; the strategy has the model."""

    @abstractmethod
    def collect(self, number: int, done: int) -> RoundUpdates:
        """Asks clients and moves the model, until there is a row: ``number``, from 1.

        ``done``: the run's local iterations so far. Raises ``TooFewReplies``.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """The clock, and what is in flight after a row, as a checkpoint holds it."""

    @abstractmethod
    def restore(self, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
