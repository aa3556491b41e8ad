"""A simulated clock with a queue of events, which are plain records for checkpoints."""

import math
from heapq import heappop, heappush
from typing import Any

from fedsim.network.rates import ROUNDED

Record = tuple[Any, ...]  # a name and its arguments: texts, numbers, and tuples of these


class Agenda:
    """Records by time; of those at one time, in the order in which they were entered.

    Times that rounding alone separates (``ROUNDED``) are one time: the last of them.

    Attributes:
        now: the time in seconds of the last record that was taken, or what it was set to.

    Example:
        >>> agenda = Agenda()
        >>> agenda.after(2.0, "arrived", 7)
        >>> agenda.after(1.0, "trained", 7)
        >>> agenda.next(), agenda.now
        (('trained', 7), 1.0)
        >>> agenda.first("ask", 3)
        >>> again = Agenda()
        >>> again.restore(agenda.state())
        >>> again.next(), again.next(), again.now
        (('ask', 3), ('arrived', 7), 2.0)

        0.3 and 0.1 + 0.2 = 0.30000000000000004 are one time, at which ``last`` comes last:

        >>> again = Agenda()
        >>> again.last(0.3, "deadline")
        >>> again.after(0.1 + 0.2, "arrived", 7)
        >>> again.next(), again.next()
        (('arrived', 7), ('deadline',))
    """

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._heap: list[tuple[float, int, int, Record]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def after(self, seconds: float, *record: Any) -> None:
        """Enters a record so many seconds from now."""
        self._enter(self.now + seconds, 1, record)

    def first(self, *record: Any) -> None:
        """Enters a record now, before all that ``after`` has entered for this time."""
        self._enter(self.now, 0, record)

    def last(self, seconds: float, *record: Any) -> None:
        """Enters a record so many seconds from now, after all others of that time."""
        self._enter(self.now + seconds, 2, record)

    def at(self, time: float, *record: Any) -> None:
        """Enters a record at a time, which lies ahead."""
        self._enter(time, 1, record)

    @property
    def next_time(self) -> float:
        """When the next record is; inf where there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def next(self) -> Record:
        """Takes the next record out, and goes on to its time."""
        if self._heap[0][0] > self.now:
            self._advance()
        return heappop(self._heap)[3]

    def state(self) -> dict[str, Any]:
        """Everything, as JSON can hold it."""
        return {"now": self.now, "count": self._count, "records": sorted(self._heap)}

    def restore(self, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""
        self.now, self._count = values["now"], values["count"]
        self._heap = [
            (t, late, n, plain_record(record)) for t, late, n, record in values["records"]
        ]

    def _advance(self) -> None:
        """Goes on to the next time. Records that follow by a rounding are entered again at it."""
        end, same = self._heap[0][0] * ROUNDED, []
        while self._heap and self._heap[0][0] <= end:
            same.append(heappop(self._heap))
        self.now = same[-1][0]
        for _, late, number, record in same:
            heappush(self._heap, (self.now, late, number, record))

    def _enter(self, time: float, late: int, record: Record) -> None:
        self._count += 1
        time = self.now if time <= self.now * ROUNDED else time
        heappush(self._heap, (time, late, self._count, record))


def plain_record(record: Any) -> Any:
    """A record that JSON has held, whose tuples are lists there.

    Example:
        >>> plain_record(["passed", 1, ["pulled", 2]])
        ('passed', 1, ('pulled', 2))
    """
    return tuple(map(plain_record, record)) if isinstance(record, list | tuple) else record
