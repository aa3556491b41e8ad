"""n and p as they travel to a client, and what a client makes of them.

An order is n in 7 bits per byte; then, where the method takes a fraction, p in 16 bits (three
significant digits); then, where the task's learning rate has steps, the iterations of the run so
far, as n. Everything else the client knows from the run's settings.
"""

import math
from dataclasses import dataclass

from flwr.app import RecordDict

from compressors import Compressor, ErrorFeedback, Raw, State
from compressors.whole.memory import inside
from fedsim.settings.config import RunConfig
from fedsim.settings.methods import resolve, takes_fraction
from strategies import Delivery
from strategies.channel.orders import ORDER
from strategies.channel.payload import KEY

FRACTION = "order/p"
"""In a client's memory: p of its last message, to read that message again."""

START = "start"
"""In a message of an asynchronous server: the run's iterations so far, by which the rate goes."""

_DIGITS = 1000
_LONGEST = 9  # bytes of a whole number, of 7 bits each: reading n would take n**2 steps


@dataclass(frozen=True)
class Work:
    """What one client does in one round: n iterations from ``start`` of the run, the fraction p."""

    n: int
    p: float
    start: int


def given(config: RunConfig, content: RecordDict) -> Work | None:
    """The work that a message orders; None: no controller gives orders."""
    ordered = content.config_records[KEY].get(ORDER)
    return from_payload(config, ordered) if isinstance(ordered, bytes) else None


def usual(config: RunConfig, came: Delivery) -> Work:
    """The work of a message without an order, at the iteration that it or its round says."""
    plan, n = config.plan, int(str(came.settings["iterations"]))
    start = came.settings.get(START)
    begun = plan.iterations_after(came.round - 1) if start is None else int(str(start))
    return Work(n, plan.method.gradient, begun)


def rounded(p: float) -> float:
    """p with three significant digits, as it travels; at most 1.

    Example:
        >>> rounded(0.012345), rounded(1.0)
        (0.0123, 1.0)
    """
    return float(f"{p:.3g}")


def to_payload(config: RunConfig, work: Work) -> bytes:
    """The order of ``work``, whose p is ``rounded``."""
    data = _whole(work.n)
    if takes_fraction(config.method):
        down = 2 - math.floor(math.log10(work.p))
        data += (down * _DIGITS + round(work.p * 10**down)).to_bytes(2, "big")
    if config.plan.task.lr_steps:
        data += _whole(work.start)
    return data


def from_payload(config: RunConfig, data: bytes) -> Work:
    """The work that an order says.

    Example:
        >>> config = RunConfig(method="sbc")
        >>> from_payload(config, to_payload(config, Work(300, 0.0123, 0)))
        Work(n=300, p=0.0123, start=0)
    """
    n, rest = _read_whole(data)
    p, start = config.plan.method.gradient, 0
    if takes_fraction(config.method):
        down, digits = divmod(int.from_bytes(rest[:2], "big"), _DIGITS)
        p, rest = float(f"{digits}e-{down}"), rest[2:]
    if config.plan.task.lr_steps:
        start, rest = _read_whole(rest)
    if rest:
        raise ValueError(f"the order has {len(rest)} bytes too many")
    return Work(n, p, start)


def uplink_at(config: RunConfig, p: float) -> Compressor:
    """How updates are encoded at the fraction ``p``.

    What is raw at p = 1 (``sbc``) sends the residual of the fractions before, too.
    """
    own = config.plan.method
    if not takes_fraction(config.method):
        return own.compressor
    found = own.compressor if p == own.gradient else resolve(config.method, p).compressor
    return ErrorFeedback(found) if isinstance(found, Raw) else found


def uplink_before(config: RunConfig, state: State) -> Compressor | None:
    """How the client encoded its last message; None: by no order."""
    return uplink_at(config, float(state[FRACTION])) if FRACTION in state else None


def norm(tensors: State) -> float:
    """The L2 norm of all entries, summed in float64."""
    return math.sqrt(sum(float(x.detach().double().square().sum()) for x in tensors.values()))


def kept(uplink: Compressor, memory: State) -> State:
    """What a client's method will add to the next update: ``ef``'s residual, ``dgc``'s velocity.

    Example:
        >>> import torch
        >>> from compressors import sbc
        >>> kept(sbc(0.1), {"uplink/residual/w": torch.ones(2), "base/w": torch.ones(2)})
        {'w': tensor([1., 1.])}
    """
    name = getattr(uplink, "held", None)
    return inside(name, inside("uplink", memory)) if isinstance(name, str) else {}


def _whole(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(parts) + bytes([value])


def _read_whole(data: bytes) -> tuple[int, bytes]:
    value = 0
    for i, byte in enumerate(data[:_LONGEST]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, data[i + 1 :]
    raise ValueError(f"the order ends within a number, or one has more than {_LONGEST} bytes")
