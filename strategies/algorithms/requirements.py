"""What an algorithm needs of a run: named predicates over its settings, which are checked once.

``fedsim`` makes sentences with flags of what they return; a strategy in Flower's own loop raises
``ValueError``, for as much as it knows of the run.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from inspect import unwrap
from typing import Any

from torch.optim import SGD, Optimizer

from compressors import Compressor, ErrorFeedback, Flat, Identity, PerTensor, Pipeline
from compressors.whole.feedback import leaves_out
from compressors.whole.pipeline import Quantizer
from strategies import client_optimizers

_SGD_STEPS = frozenset(unwrap(kind.step) for kind in (SGD, client_optimizers.SGD))


@dataclass(frozen=True)
class Setup:
    """The settings of a run, as far as algorithms look at them; None: nobody has said."""

    uplink: Compressor  # how clients encode
    downlink: Compressor  # how the server encodes
    clients: int | None = None  # of the federation
    cohort: int | None = None  # clients of a round, or at work at once
    min_replies: int | None = None  # usable replies without which a run ends
    late: str = "hold"  # the policy for late updates: ``hold``, ``drop`` or ``count``
    local_steps: int | None = None  # of a client in a round
    masks: bool = False  # whether clients forget momentum where entries were sent
    method_has_momentum: bool = False  # whether the uplink keeps the clients' momentum
    optimizer: Callable[[], Optimizer] | None = None  # makes one as a client has it
    proximal: float | None = None  # mu of FedProx
    exact_client_state: bool = True  # whether clients keep what they keep in full
    moves: tuple[str, ...] = ()  # what a controller moves: ``n``, ``p``
    simulated: bool | None = None  # whether there is a clock, the same on every machine
    server_links: bool = False  # whether all messages share a link at the server
    local_epochs: int | None = None  # of a client in a round; None: it trains ``local_steps``
    local_seconds: float | None = None  # of a client, simulated; None: as ``local_epochs``
    max_norm: float | None = None  # the greatest norm of an update that is used; None: any

    @property
    def local_work(self) -> str:
        """The setting by which clients do unlike numbers of local steps; empty: there is none."""
        if self.local_epochs is not None:
            return "local_epochs"
        return "" if self.local_seconds is None else "local_seconds"


@dataclass(frozen=True)
class Unmet:
    """A setting with which an algorithm does not go."""

    setting: str  # its name: an attribute of ``Setup``, or ``momentum`` or ``lr``
    reason: str  # what the algorithm does, with which it does not go: a verb and its objects
    instead: str = ""  # what to give in its place; empty: nothing does


Requirement = Callable[[Any, Setup], Unmet | None]
"""Of an algorithm and a setup: what is not met, or None."""


def unmet(requires: Iterable[Requirement], algorithm: object, setup: Setup) -> Unmet | None:
    """The first of the requirements that a setup does not meet; None: it meets all.

    Example:
        >>> from compressors import Raw
        >>> unmet([one_batch], None, Setup(Raw(), Raw(), local_steps=5)).setting
        'local_steps'
    """
    return next(filter(None, (requirement(algorithm, setup) for requirement in requires)), None)


def momentum_of(optimizer: Optimizer) -> float:
    """The largest momentum of SGD's groups of parameters; 0 for another optimizer."""
    if not isinstance(optimizer, SGD):
        return 0.0
    return max(float(group["momentum"]) for group in optimizer.param_groups)


def more_steps_than(least: int, steps: str, setup: Setup) -> Unmet | None:
    """A round has more than ``least`` local steps, and nobody changes their number.

    ``steps``: what an algorithm does in these: the reason.
    """
    if work := setup.local_work:
        return Unmet(work, f"{steps}: a client may have no more")
    if setup.local_steps is not None and setup.local_steps <= least:
        return Unmet("local_steps", steps, f"{least + 1} or more")
    if "n" in setup.moves:
        return Unmet("moves", f"{steps}, and n is moved", "one of p alone")
    return None


def one_batch(algorithm: object, setup: Setup) -> Unmet | None:
    """Clients send the gradient of one batch at the model that they were sent."""
    if work := setup.local_work:
        return Unmet(work, "sends the gradient of one batch")
    if setup.local_steps not in (None, 1):
        return Unmet("local_steps", "sends the gradient of one batch", "1")
    if "n" in setup.moves:
        return Unmet("moves", "sends the gradient of one batch, and n is moved", "one of p alone")
    if setup.proximal is not None:
        reason = "sends the gradient at the received model, where FedProx's pull is zero"
        return Unmet("proximal", reason)
    return None


def server_momentum(algorithm: object, setup: Setup) -> Unmet | None:
    """The server has the optimizer: clients have no momentum that could be masked."""
    if setup.masks:
        return Unmet("masks", "has the momentum at the server, and clients have none to mask")
    return None


def no_client_momentum(algorithm: object, setup: Setup) -> Unmet | None:
    """The server has the momentum; the clients' SGD has none in addition."""
    if setup.optimizer is not None and (used := momentum_of(setup.optimizer())):
        reason = f"has the momentum at the server, and the clients' is {used:g}"
        return Unmet("momentum", reason, "0")
    return None


def plain_sgd(algorithm: object, setup: Setup) -> Unmet | None:
    """Clients take steps of one learning rate and without momentum."""
    reason = "corrects steps of plain SGD"
    if setup.method_has_momentum:
        return Unmet("uplink", f"{reason}, and the method keeps a momentum")
    if setup.optimizer is None:
        return None
    optimizer = setup.optimizer()
    is_sgd = isinstance(optimizer, SGD) and unwrap(type(optimizer).step) in _SGD_STEPS
    if not is_sgd:  # a step of its own may scale gradients
        return Unmet("optimizer", f"{reason}, and clients train with {type(optimizer).__name__}")
    if used := momentum_of(optimizer):
        return Unmet("momentum", f"{reason}, and the clients' momentum is {used:g}", "0")
    if any(group["maximize"] for group in optimizer.param_groups):
        return Unmet("optimizer", f"{reason}, and clients' SGD has maximize=True")
    if len({group["lr"] for group in optimizer.param_groups}) > 1:
        return Unmet("lr", f"{reason}, and clients have several learning rates", "one")
    return None


def lossless_downlink(algorithm: object, setup: Setup) -> Unmet | None:
    """Clients hear sooner or later of all that the server adds to its model."""
    if not leaves_out(setup.downlink):
        return None
    reason = "adds up at the server what the clients would never be sent"
    return Unmet(
        "downlink", reason, "raw, or a method with a residual such as sbc(0.1) or ef(cnat)"
    )


def no_lost_updates(algorithm: object, setup: Setup) -> Unmet | None:
    """The server's sum is that of what clients keep: no update is dropped for good."""
    if setup.late == "drop":
        reason = "adds up what clients send, and without one update its sum is no longer theirs"
        return Unmet("late", reason, "hold or count")
    return None


def exact_client_state(algorithm: object, setup: Setup) -> Unmet | None:
    """The server's state follows from what clients keep, to the last bit."""
    if not setup.exact_client_state:
        reason = "has a state that follows from what its clients keep, to the last bit"
        return Unmet("exact_client_state", reason, "float32")
    return None


def fixed_codes(algorithm: object, setup: Setup) -> Unmet | None:
    """The server adds up codes, which a controller of p would change."""
    if "p" in setup.moves:
        return Unmet("moves", "adds up codes of one method, and p is moved", "one of n alone")
    return None


def every_client(algorithm: object, setup: Setup) -> Unmet | None:
    """All clients take part in every round, and every reply is used."""
    for name, value in (("cohort", setup.cohort), ("min_replies", setup.min_replies)):
        if value not in (None, setup.clients):
            return Unmet(name, "needs every client's reply in every round", f"{setup.clients}")
    return None


def no_controller(algorithm: object, setup: Setup) -> Unmet | None:
    """Nobody orders what clients do: the workers are the servers."""
    if setup.moves:
        return Unmet("moves", "has no server apart from its workers that could order what they do")
    return None


def no_server_links(algorithm: object, setup: Setup) -> Unmet | None:
    """The clients are the servers: there is no link except their own."""
    if setup.server_links:
        reason = "has no server apart from the workers, whose own links carry both"
        return Unmet("server_links", reason, "neither server_up nor server_down")
    return None


def simulated_time(algorithm: object, setup: Setup) -> Unmet | None:
    """The order of updates follows from the clients' times, the same in every run."""
    if setup.simulated is False:
        reason = "orders updates by the clients' times, which must be the same in every run"
        return Unmet("simulated", reason, "times to compute, such as '4g, compute=20ms', no coding")
    return None


def without_residuals(uplink: Compressor) -> Compressor:
    """The compressor inside ``ef``; any other as it is. Both decode to the same values."""
    return uplink.inner if isinstance(uplink, ErrorFeedback) else uplink


def dense_quantizer(uplink: Compressor) -> Quantizer | None:
    """How every entry is quantized; None unless all are, by one quantizer, and all are sent.

    Example:
        >>> from compressors import parse
        >>> dense_quantizer(parse("ef(cnat(5, 0))"))
        Natural(bits=5, top=0, rounding='random')
        >>> dense_quantizer(parse("topk(0.1) | cnat")) is None
        True
    """
    plain = without_residuals(uplink)
    pipe = plain.codec if isinstance(plain, PerTensor | Flat) else None
    if not isinstance(pipe, Pipeline) or pipe.sparsify != Identity():
        return None
    return pipe.quantize


def check_weighting(weighting: str) -> None:
    """Refuses a weighting that is neither ``uniform`` nor ``samples``, by a ``ValueError``."""
    if weighting not in ("uniform", "samples"):
        raise ValueError(f"weighting is {weighting!r}: give uniform or samples")
