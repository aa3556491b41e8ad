"""Availability of clients over time: a fraction of them, slots, an on-off process, or a trace."""

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path

import numpy as np

from compressors import derive
from fedsim.ground.errors import RunFailed, UsageError, parse_call
from fedsim.ground.sequences import Computed
from fedsim.network.quantities import quantity
from fedsim.network.rates import ROUNDED, ByClient, Rate, read_rates, steps

_ALLOWED = (
    "a fraction in (0, 1], onoff(ON, OFF) with the mean times that a client is there and away, "
    "such as onoff(10min, 5min), slots(COUNT, TIME) with one slot of each frame for each client, "
    "such as slots(4, 30s), or a CSV file with the columns seconds, available and, where "
    "clients differ, client"
)
REDRAWS = 10_000
"""How many draws, or changes, there are at least before enough clients are never there."""

_REMEMBERED = 10_000
"""Clients whose times are kept; of a million few are met again, and then they are made again."""


@dataclass(frozen=True)
class Availability:
    """When clients can be asked: a fraction of them, on and off, by a trace, or in slots."""

    fraction: float = 1.0  # of the clients; others in every round
    on: float = 0.0  # mean seconds that a client is there, exponentially distributed
    off: float = 0.0  # mean seconds that it is away, exponentially distributed
    trace: ByClient[Rate] | None = None  # 1 while a client is there, else 0
    slots: int = 0  # of a frame, in turn; client c is there in slot c modulo their number
    slot_seconds: float = 0.0  # of each slot

    @property
    def by_the_clock(self) -> bool:
        """Whether it depends on simulated time."""
        return self.trace is not None or self.on > 0 or self.slots > 0

    def of(self, clients: int, seed: int) -> "Presence":
        """Who of so many clients is there when; it follows from the seed.

        Raises ``UsageError`` where the trace says nothing of one of them.
        """
        rates: ClientRates = ()
        period = 0.0
        if self.trace is not None:
            rates = self.trace.of(clients)
            periods = [rate.period for rate in self.trace.values.values()]
            period = max(filter(math.isfinite, periods), default=0.0)
        elif self.slots:
            frame = slot_rates(self.slots, self.slot_seconds)
            rates = [frame[client % self.slots] for client in range(clients)]
            period = self.slots * self.slot_seconds
        elif self.on:

            @lru_cache(_REMEMBERED)
            def on_off(client: int) -> OnOff:
                return OnOff(self.on, self.off, derive(seed, "availability", client))

            rates = Computed(clients, on_off)

        @lru_cache(1)  # a server that does not wait asks often in a row
        def drawn(round_number: int, attempt: int) -> np.ndarray:
            key = derive(seed, "availability", round_number, attempt)
            return np.random.default_rng(key).random(clients) < self.fraction

        def order(round_number: int) -> Iterator[int]:
            return shuffle(clients, derive(seed, "asked in turn", round_number))

        return Presence(rates, drawn, order, period)


@dataclass(frozen=True)
class Presence:
    """The availability of every client over time."""

    rates: "Sequence[Rate | OnOff]"  # 1 or 0, by client; empty where the clock does not matter
    drawn: Callable[[int, int], np.ndarray]  # by round and attempt, where the clock does not matter
    order: Callable[[int], Iterator[int]]  # by round, in which clients are asked if they are there
    period: float = 0.0  # seconds of a whole trace, which are waited for

    def at(
        self,
        now: float,
        round_number: int,
        least: int,
        capacity: int,
        busy: Callable[[float], Collection[int]] = lambda now: (),
        excluded: Collection[int] = (),
    ) -> tuple[float, np.ndarray]:
        """The first moment from now on at which so many are there, and who of them are free.

        The clients are ascending, and by the clock ``capacity`` at most: they are asked in turn
        until so many are there and free, so that of a million few are looked at.

        Args:
            now: when it may be at first.
            round_number: the round's.
            least: how many have to be available, free or busy.
            capacity: how many available and free ones are wanted.
            busy: those that are at work at a time.
            excluded: those that never become available again, in spite of the availability.

        Raises ``RunFailed`` where it never comes.
        """
        begin = now
        for attempt in count():
            if math.isinf(now) or attempt >= REDRAWS and now >= begin + self.period:
                break
            present, free, at_work = 0, list[int](), {*busy(now)}
            if not self.rates:
                drawn = np.flatnonzero(self.drawn(round_number, attempt))
                if excluded:
                    drawn = np.setdiff1d(drawn, [*excluded], assume_unique=True)
                if len(drawn) >= least:
                    return now, np.setdiff1d(drawn, [*at_work], assume_unique=True)
                continue
            for client in self.order(round_number):
                if client not in excluded and self.rates[client].at(now) > 0:
                    present += 1
                    free += [client] * (client not in at_work)
                    if len(free) == capacity:
                        break
            if present >= least:
                return now, np.array(sorted(free), dtype=int)
            now = min(rate.next_change(now) for rate in self.rates)
        span = f" from {begin:.0f} s to {now:.0f} s" if begin < now < math.inf else ""
        raise RunFailed(
            f"round {round_number}: {least} clients (--min-replies) are never there at once{span} "
            "(--availability)"
        )

    def first(
        self, now: float, row: int, turn: int, idle: Container[int], tries: int
    ) -> int | None:
        """The first client in an order of ``turn`` that is there and idle; None: nobody is.

        Where the clock does not matter, who is there is drawn by ``row``, so many times.
        """
        for attempt in range(tries):
            drawn = None if self.rates else self.drawn(row, attempt)
            for client in self.order(turn):
                if client in idle and (
                    self.rates[client].at(now) > 0 if drawn is None else drawn[client]
                ):
                    return client
        return None


def parse_availability(text: str) -> Availability:
    """An availability from its text: `0.8`, `onoff(10min, 5min)`, `slots(4, 30s)`, or a CSV file.

    Raises ``UsageError`` where it is none, or the file cannot be read.

    Example:
        >>> made = parse_availability("onoff(10min, 5min)")
        >>> made.on, made.off
        (600.0, 300.0)
    """
    name = "--availability"
    if text.strip().endswith(".csv"):
        file = Path(text.strip())
        tables = read_rates(file, ("seconds", "available"), "seconds and available (1 or 0)")
        if not all(np.isin(values[:, 1], (0, 1)).all() for values in tables.values()):
            raise UsageError(f"{name} {file}: available is 1 or 0")
        rates = {client: steps(values, 1) for client, values in tables.items()}
        return Availability(trace=ByClient(file, rates))
    call = parse_call(text, name, _ALLOWED)
    if call.name == "onoff" and len(call.arguments) == 2 and not call.named:
        on, off = (quantity(str(part), name, "time") for part in call.arguments)
        return Availability(on=on, off=off)
    if call.name == "slots" and len(call.arguments) == 2 and not call.named:
        slots, length = map(str, call.arguments)
        if not (slots.isascii() and slots.isdigit() and int(slots) > 0):
            raise UsageError(f"{name} is {text!r}: give a whole number of slots above 0")
        return Availability(slots=int(slots), slot_seconds=quantity(length, name, "time"))
    try:
        fraction = float(text)
    except ValueError as error:
        raise UsageError(f"{name} is {text!r}: give {_ALLOWED}") from error
    if not 0 < fraction <= 1:
        raise UsageError(f"{name} is {text!r}: give {_ALLOWED}")
    return Availability(fraction=fraction)


def slot_rates(slots: int, seconds: float) -> list[Rate]:
    """1 in a slot and 0 in the others of a frame, again and again, by slot.

    Example:
        >>> first, second = slot_rates(2, 30.0)
        >>> [(first.at(time), second.at(time)) for time in (0.0, 30.0, 60.0)]
        [(1.0, 0.0), (0.0, 1.0), (1.0, 0.0)]
    """
    times = tuple(seconds * slot for slot in range(slots))
    frames = np.eye(slots).tolist()
    return [Rate(times, tuple(frame), slots * seconds) for frame in frames]


def shuffle(count: int, key: int) -> Iterator[int]:
    """The numbers below ``count`` in an order of the key; each costs the same, however many.

    Source: Fisher and Yates 1938 (Statistical tables), the shuffle, with the places alone that
    were changed.

    Example:
        >>> [*shuffle(5, key=0)], next(shuffle(10**9, key=0))
        ([4, 3, 1, 2, 0], 850624225)
    """
    generator, moved = np.random.default_rng(key), dict[int, int]()
    for i in range(count):
        j = int(generator.integers(i, count))
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


class OnOff:
    """One client's times on and off, in turn, exponentially distributed with these mean seconds.

    It is on at first as often as at any other time. ``key``: of its draws.
    """

    def __init__(self, on: float, off: float, key: int) -> None:
        self._generator = np.random.default_rng(key)
        self._first = bool(self._generator.random() < on / (on + off))
        self._means = (on, off) if self._first else (off, on)
        self._changes = [0.0]

    def at(self, time: float) -> float:
        """1 while it is on, 0 while it is off."""
        return float(self._first == bool(self._place(time) % 2))

    def next_change(self, time: float) -> float:
        """When it changes, after `time`."""
        return self._changes[self._place(time)]

    def _place(self, time: float) -> int:
        """How many changes there were; the first is the beginning."""
        time *= ROUNDED
        while self._changes[-1] <= time:
            mean = self._means[(len(self._changes) - 1) % 2]
            self._changes.append(self._changes[-1] + self._generator.exponential(mean))
        return bisect_right(self._changes, time)


ClientRates = Sequence[Rate | OnOff]
"""1 while a client is there and 0 while it is not, by client."""
