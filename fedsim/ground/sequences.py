"""Sequences whose values are computed when they are accessed, however long they are."""

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

_T = TypeVar("_T")


class Computed(Sequence[_T]):
    """A sequence of ``count`` values, none of which is in memory; ``value``: at a place from 0.

    Example:
        >>> squares = Computed(1_000_000, lambda place: place**2)
        >>> len(squares), squares[3], squares[-1], squares[:3]
        (1000000, 9, 999998000001, [0, 1, 4])
    """

    def __init__(self, count: int, value: Callable[[int], _T]) -> None:
        self._places, self._value = range(count), value

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> _T: ...
    @overload
    def __getitem__(self, place: slice) -> list[_T]: ...
    def __getitem__(self, place: int | slice) -> _T | list[_T]:
        if isinstance(place, slice):
            return [self._value(i) for i in self._places[place]]
        return self._value(self._places[place])
