"""n and p of the settings, and of orders as they travel to a client and are read there.

An order is n in 7 bits per byte; then, where the method takes a fraction, p in 16 bits (three
significant digits); then, where the task's learning rate has steps, the iterations of the run so
far, as n. Everything else the client knows from the run's settings.
"""

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from flwr.app import ConfigRecord

from compressors import Compressor, ErrorFeedback, Raw, State, Tensors
from compressors.whole.lift import InParts
from compressors.whole.memory import unnest
from fedsim.ground.errors import RunFailed
from fedsim.ground.records import ClientRecord, RoundOrders
from fedsim.settings.config import RunConfig
from fedsim.settings.methods import resolve, takes_fraction
from fedsim.settings.plans import Plan
from strategies import TrainResult
from strategies.channel.acknowledge import read_varint, varint
from strategies.channel.orders import ITERATIONS, Ordering, Side, to_report
from strategies.channel.payload import ORDER, ROUND, Settings

ORDERED_FRACTION = "order/p"
"""In a client's memory: p of its last message, to read that message again."""

START = "start"
"""In a message: the run's iterations so far, by which the rate goes, where its round's number does
not say them: of an asynchronous server, and of local epochs."""

_DIGITS = 1000


@dataclass(frozen=True)
class Work:
    """The work of one client in one round: n iterations from ``start`` of the run, the fraction p.

    ``ordered``: whether a controller says so, and not the settings.
    """

    n: int
    p: float
    start: int
    ordered: bool = field(default=False, compare=False)


class Fixed:
    """n and p of every round as the settings have them, with which nothing travels."""

    ordering: Ordering | None = None
    sides: tuple[Side, ...] = ()
    steps = 0
    """The local iterations of the round: the most that a client of it does."""

    def __init__(self, config: RunConfig) -> None:
        self.config, self.plan = config, config.plan
        self.work: dict[int, Work] = {}  # by client: what was ordered last

    def begin(self, round_number: int, now: float, done: int = 0) -> ConfigRecord:
        """Begins a round, or a row of a server that does not wait; returns what messages of it say.

        ``now``: the simulated time; ``done``: the run's iterations so far.
        """
        self.steps = self.plan.local_iterations(round_number)
        return ConfigRecord({ITERATIONS: self.steps})

    def work_of(self, client: int) -> Work | None:
        """The work of a client of the round; None: n of the round, which nobody has ordered."""
        return self.work.get(client)

    def evaluates(self, round_number: int) -> bool:
        """Whether the server scores its model after a round, each of n iterations."""
        last = round_number * self.plan.temporal >= self.plan.iterations
        return last or round_number % self.plan.evaluate_every == 0

    def resumed(self, weights: Tensors) -> None:
        """The model from which the run goes on."""

    def close(self, number: int, works: Collection[Work]) -> None:
        """Ends a row of an asynchronous server, whose updates had these works."""
        self.steps = self.plan.local_iterations(number)

    def book(
        self, clients: Sequence[ClientRecord], works: Sequence[Work | None]
    ) -> RoundOrders | None:
        """The columns of a round's record on its clients' work; sets those of their records.

        None where all did n. ``works``: of each client; None: it was neither asked nor its update
        used.
        """
        return None


def work_of(config: RunConfig, plan: Plan, settings: Settings) -> Work:
    """The work that a message with these ``settings`` asks for: its order's, else theirs.

    ``plan``: that of ``config``, which takes a while to find for every message.
    """
    ordered = settings.get(ORDER)
    if isinstance(ordered, bytes):
        return from_payload(config, ordered)
    start = settings.get(START)
    begun = plan.iterations_after(settings[ROUND] - 1) if start is None else int(start)
    return Work(int(settings[ITERATIONS]), plan.method.gradient, begun)


def round_p(p: float) -> float:
    """p with three significant digits, as it travels; at most 1.

    Example:
        >>> round_p(0.012345), round_p(1.0)
        (0.0123, 1.0)
    """
    return float(f"{p:.3g}")


def resolve_p(config: RunConfig, p: float) -> float:
    """The p of an order as both ends use it: three digits, or all of the settings' own p.

    So a controller that leaves p alone changes nothing.

    Example:
        >>> config = RunConfig(method="sbc", gradient=0.012345)
        >>> resolve_p(config, 0.0123), resolve_p(config, 0.012345), resolve_p(config, 0.067891)
        (0.012345, 0.012345, 0.0679)
    """
    setting = config.plan.method.gradient
    return setting if round_p(p) == round_p(setting) else round_p(p)


def to_payload(config: RunConfig, work: Work) -> bytes:
    """The order of ``work``, whose p is ``resolve_p``."""
    data = varint(work.n)
    if takes_fraction(config.method):
        p = round_p(work.p)
        down = 2 - math.floor(math.log10(p))
        data += (down * _DIGITS + round(p * 10**down)).to_bytes(2, "big")
    if config.plan.task.lr_steps:
        data += varint(work.start)
    return data


def from_payload(config: RunConfig, data: bytes) -> Work:
    """The work that an order says.

    Example:
        >>> config = RunConfig(method="sbc")
        >>> from_payload(config, to_payload(config, Work(300, 0.0123, 0)))
        Work(n=300, p=0.0123, start=0, ordered=True)
    """
    (n, at), p, start = read_varint(data), config.plan.method.gradient, 0
    if takes_fraction(config.method):
        down, digits = divmod(int.from_bytes(data[at : at + 2], "big"), _DIGITS)
        p, at = resolve_p(config, float(f"{digits}e-{down}")), at + 2
    if config.plan.task.lr_steps:
        start, at = read_varint(data, at)
    if at != len(data):
        raise ValueError(f"the order has {len(data)} bytes: its numbers have {at}")
    return Work(n, p, start, ordered=True)


def uplink_at(config: RunConfig, p: float) -> Compressor:
    """How updates are encoded at the fraction ``p``.

    A method that is raw at p = 1 (``sbc``) also sends the residual of earlier fractions.
    """
    method = config.plan.method
    if not takes_fraction(config.method):
        return method.compressor
    uplink = method.compressor if p == method.gradient else resolve(config.method, p).compressor
    return ErrorFeedback(uplink) if isinstance(uplink, Raw) else uplink


def as_json(memory: object, whose: str) -> dict[str, Any]:
    """A memory as a checkpoint brings it back, so that a run that goes on is the same.

    Raises ``RunFailed``, which begins with ``whose``, unless it is a dict that JSON can hold.
    """
    try:
        restored = json.loads(json.dumps(memory))
    except (TypeError, ValueError) as error:
        raise RunFailed(f"{whose}: its memory cannot be kept as JSON: {error}") from error
    if not isinstance(restored, dict):
        raise RunFailed(f"{whose}: its memory is {memory!r}: give a dict")
    return restored


def norm(tensors: State) -> float:
    """The L2 norm of all entries, summed in float64."""
    return math.sqrt(sum(float(x.detach().double().square().sum()) for x in tensors.values()))


def residual_of(uplink: Compressor, memory: State) -> State:
    """The part of a client's memory for the next update: ``ef``'s residual, ``dgc``'s velocity.

    Not the shifts of ``ef21`` and ``diana``, which are of what was sent.

    Example:
        >>> import torch
        >>> from compressors import sbc
        >>> residual_of(sbc(0.1), {"uplink/residual/w": torch.ones(2), "base/w": torch.ones(2)})
        {'w': tensor([1., 1.])}
    """
    return _residual(uplink, unnest("uplink", memory))


def _residual(method: Compressor, memory: State) -> State:
    if isinstance(method, InParts):
        held: State = {}
        for key, part in method.by_key.items():
            held |= _residual(part, unnest(key, memory))
        return held
    kind = getattr(method, "held", None)
    return unnest(kind, memory) if kind in ("residual", "velocity") else {}


def client_report(names: str, trained: TrainResult, uplink: Compressor, memory: State) -> bytes:
    """The client's report: the numbers of these ``names``, which its message requests.

    ``memory``: of the client, after its update was encoded with ``uplink``.
    """
    held = residual_of(uplink, memory)  # of all that is sent, of which the update may be a part
    numbers = {
        "train_loss": lambda: trained.loss,
        "update_norm": lambda: norm(trained.update),
        "residual_norm": lambda: norm({n: x for n, x in held.items() if n in trained.update}),
    }
    return to_report(numbers[name]() for name in names.split(","))
