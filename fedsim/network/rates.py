"""A link's rate over time: constant, or the steps of a trace from a CSV file, repeated."""

import math
import re
import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from fedsim.ground.errors import UsageError, reason
from fedsim.ground.sequences import Computed

ROUNDED = 1 + 1e-12
"""Sums of times, joules or bits whose quotient is at most this are the same: rounding must not
decide which event is first, whether a transfer lacks a rest, or whether a limit is reached."""

STUCK = "a link stays at 0 bits per second: its transfer never ends"


@dataclass(frozen=True)
class Rate:
    """Bits per second over time.

    Example:
        >>> day = Rate((0.0, 6.0), (1e6, 2e6), period=10.0)
        >>> day.at(7), day.at(12), day.next_change(7), day.next_change(12)
        (2000000.0, 1000000.0, 10.0, 16.0)
    """

    times: tuple[float, ...]  # when each step begins, in seconds; the first is 0
    values: tuple[float, ...]  # the rate from then on
    period: float = math.inf  # after so many seconds the steps come again; inf: the last one stays

    @classmethod
    def constant(cls, value: float) -> "Rate":
        """The same rate for ever."""
        return cls((0.0,), (value,))

    @property
    def is_constant(self) -> bool:
        """Whether the rate never changes."""
        return len(self.values) == 1

    def at(self, time: float) -> float:
        """The rate at a time; at the instant of a change it is the new one."""
        _, step = self._place(time)
        return self.values[step]

    def next_change(self, time: float) -> float:
        """When the next step begins, after `time`; inf where none comes."""
        if self.is_constant:
            return math.inf
        turn, step = self._place(time)
        if step + 1 < len(self.times):
            return self._start(turn, step + 1)
        return self._start(turn + 1, 0) if math.isfinite(self.period) else math.inf

    def end(self, start: float, bits: float) -> float:
        """When a message has passed that begins at ``start``, where nobody else takes the link.

        Raises ``RuntimeError`` where the rate stays at 0.

        Example:
            >>> day = Rate((0.0, 6.0), (1e6, 2e6), period=10.0)
            >>> day.end(5.0, 3e6)
            7.0
        """
        now = start
        while bits:
            rate, change = self.at(now), self.next_change(now)
            if rate and now + bits / rate <= change * ROUNDED:
                return now + bits / rate
            if math.isinf(change):
                raise RuntimeError(STUCK)
            bits, now = max(0.0, bits - rate * (change - now)), change
        return now

    def _start(self, turn: int, step: int) -> float:
        return self.times[step] + (turn * self.period if turn else 0.0)

    def _place(self, time: float) -> tuple[int, int]:
        """The turn and the step of a time: a time that is at the start of a step lies in it.

        The starts are computed as `next_change` computes them, and are after the time by a rounding
        at most.
        """
        time *= ROUNDED
        turn = int(time // self.period) if math.isfinite(self.period) else 0
        if math.isfinite(self.period) and self._start(turn + 1, 0) <= time:
            turn += 1
        elif turn and self._start(turn, 0) > time:
            turn -= 1
        if not turn:
            return 0, bisect_right(self.times, time) - 1
        shift = turn * self.period
        return turn, bisect_right(self.times, time, key=lambda start: start + shift) - 1


class ConstantRates(Computed[Rate]):
    """The rates of links that never change, in bits per second: an array, one per client."""

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(len(values), lambda client: Rate.constant(float(values[client])))
        self.values = values


def rates_at(links: Sequence[Rate], clients: np.ndarray, time: float) -> np.ndarray:
    """The rates of clients' links at a time, in bits per second."""
    if isinstance(links, ConstantRates):
        values: np.ndarray = links.values[clients]
        return values
    return np.array([links[int(client)].at(time) for client in clients])


if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")

OTHERS = "*"  # the value of a table's column `client` for all clients that it does not name
_CLIENT = re.compile(r"0|[1-9][0-9]*|\*")


@dataclass(frozen=True)
class ByClient(Generic[T]):
    """A file's values for each client: for those that it names, and for all others."""

    file: Path
    values: Mapping[str, T]  # by the client's number, as text, or `*`

    def of(self, clients: int) -> "Sequence[T]":
        """The values of so many clients, each looked up when it is asked for.

        Raises ``UsageError`` where the file has no value for one of them.

        Example:
            >>> [*ByClient(Path("links.csv"), {"1": "slow", "*": "fast"}).of(3)]
            ['fast', 'slow', 'fast']
        """
        for client in range(clients) if OTHERS not in self.values else ():
            if str(client) not in self.values:
                raise UsageError(
                    f"trace {self.file} has no row of client {client}: clients are 0 to "
                    f"{clients - 1}, and it names {', '.join(sorted(self.values, key=int))}; a row "
                    f"with client = {OTHERS} stands for all that it does not name"
                )
        return Computed(clients, self._of)

    def _of(self, client: int) -> T:
        name = str(client)
        return self.values[name if name in self.values else OTHERS]


@dataclass(frozen=True)
class Trace:
    """Upload and download rates."""

    up: ByClient[Rate]
    down: ByClient[Rate]

    def of(self, clients: int) -> tuple[Sequence[Rate], Sequence[Rate]]:
        """The upload rates and the download rates of so many clients, as ``ByClient.of``."""
        return self.up.of(clients), self.down.of(clients)


def read_trace(file: Path) -> Trace:
    """A trace from a CSV file.

    The columns are `seconds` (from 0, rising), `up` and `down` (bits per second from then on) and,
    where clients differ, `client`: its number from 0, or `*` for all that the file does not name.
    After its last step, which lasts as long as the one before it, a trace begins again.

    Raises ``UsageError`` where the file cannot be read, or its numbers are not as said.
    """
    tables = read_rates(file, ("seconds", "up", "down"), "seconds, up and down (bits per second)")
    for values in tables.values():
        if (values[:, 1:] < 0).any() or (values[:, 1:].max(axis=0) == 0).any():
            raise UsageError(f"trace {file}: rates are 0 or above, and not all 0")
    up, down = ({client: steps(x, column) for client, x in tables.items()} for column in (1, 2))
    return Trace(ByClient(file, up), ByClient(file, down))


def read_rates(file: Path, columns: Sequence[str], named: str) -> dict[str, np.ndarray]:
    """The rows of a CSV file of values over time, by `client`; `*` where it has no such column.

    An array has the shape (steps, columns). The first of the ``columns`` is `seconds`, which begins
    at 0 and rises; ``named``: the columns, as a message names them.

    Raises ``UsageError`` where the file cannot be read, or its numbers are not as said.
    """
    import pandas as pd  # settings are read where it is not installed: a client's machine

    try:
        with warnings.catch_warnings():  # of values that have no column, which would be left out
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(file, dtype={"client": str}, index_col=False)
    except pd.errors.ParserWarning as error:
        raise UsageError(f"trace {file}: a row has more values than there are columns") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"trace {file} cannot be read: {reason(error)}") from error
    missing = [name for name in columns if name not in table.columns]
    if missing or not len(table):
        raise UsageError(
            f"trace {file} lacks {', '.join(missing) or 'rows'}: its columns are {named}, and "
            "client where clients differ"
        )
    names = table["client"].fillna("").str.strip() if "client" in table.columns else None
    if names is None:
        return {OTHERS: _values(file, table[list(columns)])}
    for name in names.unique():
        if not _CLIENT.fullmatch(name):
            raise UsageError(
                f"trace {file}: client is {name!r}: give a client's number from 0, or {OTHERS} "
                "for all that the file does not name"
            )
    return {name: _values(file, part[list(columns)]) for name, part in table.groupby(names)}


def _values(file: Path, part: "pd.DataFrame") -> np.ndarray:
    try:
        values = part.to_numpy(dtype=float)
    except (ValueError, TypeError) as error:
        raise UsageError(f"trace {file}: {str(error).splitlines()[0]}") from error
    times = values[:, 0]
    if times[0] != 0 or (np.diff(times) <= 0).any() or not np.isfinite(values).all():
        raise UsageError(f"trace {file}: seconds begin at 0 and rise, and every value is finite")
    return values


def steps(values: np.ndarray, column: int) -> Rate:
    """A column of such a table over time; its last step lasts as long as the one before it.

    Rows that repeat the value before them are not steps.
    """
    times, column_values = values[:, 0], values[:, column]
    period = math.inf if len(times) == 1 else float(2 * times[-1] - times[-2])
    changes = np.flatnonzero(np.diff(column_values, prepend=math.nan) != 0)  # NaN: the first stays
    return Rate(tuple(times[changes].tolist()), tuple(column_values[changes].tolist()), period)
