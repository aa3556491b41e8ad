"""Energy that clients have spent, and clients whose battery is empty."""

from collections.abc import Iterable, Mapping
from typing import Any

from fedsim.federation.inflight import InFlight
from fedsim.network.rates import ROUNDED
from fedsim.network.spec import NetworkSpec


class Spending:
    """The energy that every client of a run has spent.

    A request is charged as a whole: its download, the local iterations and its upload. A client
    whose battery it empties still ends it, and is asked no more.

    Attributes:
        spent: joules by client; a client that has spent nothing has no entry.
        empty: the clients whose battery is empty: always the same set.

    Example:
        >>> from fedsim.network import parse
        >>> network = parse("compute=1s, energy_up=2J/bit, energy_compute=3W, battery=20J")
        >>> spending = Spending(network, clients=2, seed=0)
        >>> request = InFlight(1, 1, down_bits=100.0, up_bits=4.0, iterations=4)
        >>> spending.charge(request), spending.empty, spending.left  # 4 x 3 J and 4 x 2 J
        (20.0, {1}, 1)

        Three times 0.624 J are a battery of 1.872 J, although their floats sum to less:

        >>> network = parse("compute=1s, energy_up=2mJ/bit, battery=1.872J")
        >>> spending, request = Spending(network, clients=2, seed=0), InFlight(1, 1, up_bits=312.0)
        >>> [spending.charge(request) for _ in range(3)], spending.empty
        ([0.624, 0.624, 0.624], {1})
    """

    def __init__(self, network: NetworkSpec, clients: int, seed: int) -> None:
        self.rates, self.clients = network.energy(clients, seed), clients
        self.spent = dict[int, float]()
        self.empty = set[int]()

    @classmethod
    def of(cls, network: NetworkSpec | None, clients: int, seed: int) -> "Spending | None":
        """The spending of a run; None where nothing takes energy."""
        return cls(network, clients, seed) if network is not None and network.spends else None

    @property
    def left(self) -> int:
        """How many clients have energy left."""
        return self.clients - len(self.empty)

    def charge(self, request: InFlight, work: float | None = None) -> float:
        """Books what a client spends on a request; returns the joules.

        A request that ends when it is received costs its download alone, and one that ends when
        the client has trained costs no upload. ``work``: what the client computes, in local
        iterations; None: the request's.
        """
        iterations = 0.0 if request.until == "received" else work or request.iterations
        up = request.up_bits if request.until == "arrived" else 0.0
        down = request.down_bits + request.answer_bits
        joules = self.rates.joules(request.client, down, iterations, up)
        self.spent[request.client] = self.spent.get(request.client, 0.0) + joules
        self._empty([request.client])
        return joules

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, as JSON holds it."""
        return {"spent": [[client, joules] for client, joules in self.spent.items()]}

    def restore(self, values: Mapping[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.spent = {int(client): float(joules) for client, joules in values["spent"]}
        self._empty(self.spent)

    def _empty(self, clients: Iterable[int]) -> None:
        """Notes which of some clients have spent what their battery holds."""
        battery = self.rates.battery
        self.empty.update(c for c in clients if self.spent[c] * ROUNDED >= battery[c])
