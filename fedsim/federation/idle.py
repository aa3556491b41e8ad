"""The clients that a server which does not wait can ask next.

A server asks somebody after each update, so nothing here looks at all clients for each of them:
what is known of idle clients is kept, and changes with a client that is asked, ends, comes or goes.
"""

import math
from collections.abc import Collection
from heapq import heapify, heapreplace

import numpy as np

from fedsim.network.availability import REDRAWS, ClientRates, Presence
from fedsim.network.rates import ROUNDED
from strategies.channel.nodes import Without


class Changes:
    """Which clients are there by the clock, kept as they come and go; it never goes back.

    ``rates``: 1 or 0 over time, by client, of at least one; ``present``: whether each client is
    there, shape (clients,).

    Example:
        >>> from fedsim.network.availability import slot_rates
        >>> changes = Changes(slot_rates(2, 30.0), 0.0)
        >>> changes.present.tolist(), changes.next_change
        ([True, False], 30.0)
        >>> sorted(changes.to(31.0)), changes.present.tolist()
        ([0, 1], [False, True])
    """

    def __init__(self, rates: ClientRates, now: float) -> None:
        self.rates = rates
        self.present = np.array([rate.at(now) > 0 for rate in rates], bool)
        self._heap = [(rate.next_change(now), client) for client, rate in enumerate(rates)]
        heapify(self._heap)

    @property
    def next_change(self) -> float:
        """When somebody comes or leaves next; inf where that is not known."""
        return self._heap[0][0]

    def to(self, now: float) -> list[int]:
        """Goes on to a time; returns the clients that have come or left by then."""
        changed = []
        while self._heap[0][0] <= now * ROUNDED:
            client = self._heap[0][1]
            rate = self.rates[client]
            self.present[client] = rate.at(now) > 0
            heapreplace(self._heap, (rate.next_change(now), client))
            changed.append(client)
        return changed


class IdleClients:
    """The clients that are not at work and have energy left, and which of them are there.

    ``presence``: who is there when; None: all. ``busy``: the clients that are at work, or have no
    energy left. ``free``: the idle clients, away or not.
    """

    def __init__(self, clients: int, presence: Presence | None, busy: Collection[int] = ()) -> None:
        self.presence, self.free = presence, Without(clients, {*busy})
        self._changes: Changes | None = None
        # Idle clients that are there, from when nobody was; None: not known. Presence that is drawn
        # by row is that of one row.
        self._present: set[int] | None = None
        self._row = 0

    def remove(self, client: int) -> None:
        """A client is asked, or has no energy left."""
        self.free.remove(client)
        if self._present is not None:
            self._present.discard(client)

    def add(self, client: int) -> None:
        """A client has ended."""
        self.free.add(client)
        self._note(client)

    def next(self, now: float, row: int, turn: int, busy: bool) -> tuple[float, int | None]:
        """Who is asked next, and when.

        Clients are looked at in an order of ``turn`` until one is there and idle. Where the clock
        does not matter, those who are there are drawn by row; again where nobody is and no client
        is at work (``busy``). ``row``: the number of the row that is being filled; ``turn``: how
        many clients were asked until now, and one.

        Returns now and the client; or the moment of the next change (inf: none is known) and None.
        """
        presence = self.presence
        assert presence is not None
        self._go_on(now, row)
        tries = 1 if presence.rates or busy else REDRAWS
        if self._present is None or tries > 1:
            client = presence.first(now, row, turn, self.free, tries)
            if client is None:
                self._present = set()
        elif len(self._present) > 1:
            client = next(c for c in presence.order(turn) if c in self._present)
        else:
            client = next(iter(self._present), None)
        return (self.next_change(now) if client is None else now), client

    def present_now(self, now: float, row: int, busy: bool) -> np.ndarray:
        """Everybody who is there and idle now, ascending; the arguments are those of ``next``."""
        presence = self.presence
        assert presence is not None
        for attempt in range(1 if presence.rates or busy else REDRAWS):
            present = (
                self._by_the_clock(now).present if presence.rates else presence.drawn(row, attempt)
            )
            free = present.copy()
            free[self.free.without] = False
            if free.any():
                break
        return np.flatnonzero(free)

    def next_change(self, now: float) -> float:
        """When somebody comes or leaves after now; inf where that is not known."""
        presence = self.presence
        rates = presence is not None and presence.rates
        return self._by_the_clock(now).next_change if rates else math.inf

    def _by_the_clock(self, now: float) -> Changes:
        """Who is there now; all clients are looked at when this is needed first."""
        assert self.presence is not None
        if self._changes is None:
            self._changes = Changes(self.presence.rates, now)
        for client in self._changes.to(now):
            self._note(client)
        return self._changes

    def _go_on(self, now: float, row: int) -> None:
        """Goes on to a time, and to a row."""
        if self._changes is not None:
            self._by_the_clock(now)
        if row != self._row and self._changes is None:
            self._row, self._present = row, None

    def _note(self, client: int) -> None:
        """Notes whether a client is there and idle, where that is known of the others."""
        if self._present is None or self.presence is None:
            return
        changes = self._changes
        present = self.presence.drawn(self._row, 0) if changes is None else changes.present
        if present[client] and client in self.free:
            self._present.add(client)
        else:
            self._present.discard(client)
