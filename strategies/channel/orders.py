"""Side payloads at the server's end, and its orders to clients, which change from round to round.

An order travels with the model and is charged. It decides how the client encodes its update, so
the server reads the update by its own order. Reports travel with the update as float32 numbers and
are charged, too.
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

from compressors import Compressor, State
from strategies.channel.payload import ORDER, REPORT, Settings
from strategies.channel.traffic import Downlink, RoundTraffic, Uplink

REPORT_NAMES = "wanted"
"""In a message to a client: the names of what it is to report; they are the same in every round."""

ITERATIONS = "iterations"
"""In a message to a client: how many local iterations it is to do, where no order says it."""


@dataclass(frozen=True)
class Order:
    """One client's order: how it travels, and how the client then encodes its update."""

    payload: bytes
    uplink: Compressor
    report_names: tuple[str, ...] = ()  # of the numbers that the client is to report
    iterations: int = 1  # how many local ones it does


class Ordering(Protocol):
    """Who gives the orders; what it remembers is kept with the strategy's memory."""

    def make_orders(self, round_number: int, clients: Sequence[int]) -> Mapping[int, Order]:
        """The orders of a round by client; ``clients``: those that are asked."""

    def uplink(self, payload: bytes) -> Compressor:
        """How a client encodes its update by an order."""

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""


class Side:
    """A kind of side payload of models and updates, at the server's end of a channel.

    A method that is not overridden does nothing.

    Attributes:
        names: of its side payloads.
    """

    names: ClassVar[tuple[str, ...]] = ()

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        """The messages of a round, by client, with the side payload in each."""
        return dict(downs)

    def read(self, up: Uplink, settings: Settings, down: Downlink | None) -> Uplink:
        """An uplink with its side payload.

        Args:
            up: the update.
            settings: of the reply.
            down: the message that requested it; None: it was one of an earlier round.

        Raises ``ValueError`` or ``PayloadError`` where that is not what was requested.
        """
        return up

    def close(self, traffic: RoundTraffic) -> None:
        """The round has all its uplinks, in client order; more side payloads may be booked."""

    def again(self, down: Downlink) -> Downlink:
        """A message that a checkpoint held, with what the checkpoint could not hold."""
        return down

    def state(self) -> tuple[State, dict[str, Any]]:
        """The memory after a finished round: tensors, and values that JSON can hold."""
        return {}, {}

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        """Goes on from what ``state`` returned."""


@dataclass(frozen=True)
class Orders(Side):
    """Side payloads: every client's order with its model, and its report with its update."""

    names = (ORDER, REPORT)
    ordering: Ordering

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        orders = self.ordering.make_orders(round_number, list(downs))
        ordered = {}
        for client, down in downs.items():
            order = orders[client]
            with_order = down.with_side_payload(
                ORDER, order.payload, **{REPORT_NAMES: ",".join(order.report_names)}
            )
            ordered[client] = replace(with_order, uplink=order.uplink, iterations=order.iterations)
        return ordered

    def read(self, up: Uplink, settings: Settings, down: Downlink | None) -> Uplink:
        return with_report(up, settings, report_names_in(down.settings) if down else ())

    def again(self, down: Downlink) -> Downlink:
        """A message that a checkpoint held, with the method that its order names."""
        return replace(down, uplink=self.ordering.uplink(down.side_payloads[ORDER]))

    def state(self) -> tuple[State, dict[str, Any]]:
        return self.ordering.state()

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        self.ordering.restore(tensors, values)


@dataclass(frozen=True)
class LocalSteps(Side):
    """Each client's own number of local iterations, where that is the same in every round.

    It is in the setting ``iterations``, which every message has, so no side payload is needed and
    nothing is charged.

    Args:
        steps: how many iterations a client does, by its number.

    Example:
        >>> down = Downlink(b"", "model", {})
        >>> LocalSteps(lambda client: 3 + client).write(1, {4: down})[4].settings
        {'iterations': 7}
    """

    steps: Callable[[int], int]

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        requests = {}
        for client, down in downs.items():
            n = self.steps(client)
            settings = {**down.settings, ITERATIONS: n}
            requests[client] = replace(down, iterations=n, settings=settings)
        return requests


@dataclass(frozen=True)
class Reports(Side):
    """Numbers that every client reports with its update, in every round, without an order.

    Args:
        report_names: of the numbers. Where orders ask for others, too, a client sends one
            report with all of them, each once.

    Example:
        >>> down = Downlink(b"", "model", {}, settings={REPORT_NAMES: "update_norm,train_loss"})
        >>> Reports(("train_loss", "residual_norm")).write(1, {3: down})[3].settings[REPORT_NAMES]
        'update_norm,train_loss,residual_norm'
    """

    names = (REPORT,)
    report_names: tuple[str, ...]

    def write(self, round_number: int, downs: Mapping[int, Downlink]) -> dict[int, Downlink]:
        return {
            client: down.with_side_payload(REPORT, b"", **{REPORT_NAMES: ",".join(self._of(down))})
            for client, down in downs.items()
        }

    def _of(self, down: Downlink) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*report_names_in(down.settings), *self.report_names)))

    def read(self, up: Uplink, settings: Settings, down: Downlink | None) -> Uplink:
        if REPORT in up.side_payloads:  # read with the orders
            return up
        return with_report(
            up, settings, report_names_in(down.settings) if down else self.report_names
        )


def with_report(up: Uplink, settings: Settings, names: tuple[str, ...]) -> Uplink:
    """An uplink with the numbers that its client was to report; as it is where there are none.

    Raises ``ValueError`` as ``from_report``.
    """
    if not names:
        return up
    payload = settings.get(REPORT)
    report = from_report(payload, names)
    assert isinstance(payload, bytes)
    return replace(up, side_payloads={**up.side_payloads, REPORT: payload}, report=report)


def report_names_in(settings: Settings) -> tuple[str, ...]:
    """The names of what the client is to report, by the settings of its message."""
    return tuple(name for name in str(settings.get(REPORT_NAMES, "")).split(",") if name)


def to_report(values: Iterable[float]) -> bytes:
    """Numbers as float32.

    Example:
        >>> from_report(to_report([0.5, -2.0]), ("a", "b"))
        {'a': 0.5, 'b': -2.0}
    """
    listed = list(values)
    return struct.pack(f"<{len(listed)}f", *listed)


def from_report(data: object, names: tuple[str, ...]) -> dict[str, float]:
    """The numbers by name.

    Raises ``ValueError`` where they are not those that were wanted, or one is not finite.
    """
    if not isinstance(data, bytes) or len(data) != 4 * len(names):
        raise ValueError(f"the reply does not report {', '.join(names)}")
    numbers = dict(zip(names, struct.unpack(f"<{len(names)}f", data), strict=True))
    for name, value in numbers.items():
        if not math.isfinite(value):
            raise ValueError(f"the reply reports {name} {value}: it is a finite number")
    return numbers
