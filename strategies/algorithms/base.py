"""The contract of an algorithm: a value with the server's rule, and a rule for its clients."""

from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self

from torch import Tensor

from compressors import Compressor, Packet, Raw, State, Tensors, UpdateError
from strategies.algorithms.requirements import Requirement, Setup, Unmet, unmet
from strategies.channel.client_end import Delivery
from strategies.channel.orders import Side
from strategies.channel.traffic import Uplinks

GradientHook = Callable[[Tensors], None]
"""Adds to the gradients (``x.grad``) of a model's parameters, by name, before each local step.

A job is trained with a copy (``copy.copy``), so that an object which counts its steps begins anew.
"""


Step = tuple[Tensors | None, State]
"""What moves the model (None: nothing yet), and the server's state from now on."""


@dataclass(frozen=True)
class TensorHook:
    """A gradient hook that depends on nothing but tensors and numbers that stay as they are.

    On a GPU clients with such hooks train together: their step is recorded once, with the tensors
    at a fixed place, and repeated. Any other hook is called before each step, client by client.

    Args:
        tensors: what the hook reads, by name.
    """

    tensors: Tensors

    def __call__(self, parameters: Tensors) -> None:
        """Adds to the gradients of ``parameters``; see ``GradientHook``."""
        raise NotImplementedError

    @property
    def kind(self) -> Hashable:
        """Equal for hooks that do the same with other values of tensors.

        Example:
            >>> import torch
            >>> from strategies.algorithms.fedprox import Pull
            >>> Pull({"w": torch.zeros(2)}, 0.5).kind == Pull({"w": torch.ones(2)}, 0.5).kind
            True
        """
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "tensors"}
        shapes = ((name, x.shape, x.dtype) for name, x in self.tensors.items())
        return type(self), *numbers.items(), *shapes

    def at(self, parameters: Tensors) -> Self:
        """The same hook with the tensors of ``parameters``' names alone, on their devices."""
        both = self.tensors.keys() & parameters.keys()
        moved = {n: self.tensors[n].to(p.device) for n, p in parameters.items() if n in both}
        return replace(self, tensors=moved)


class TrainJob(NamedTuple):
    """What a client trains; ``Trainer.train`` explains the fields."""

    client: int
    weights: Tensors
    optimizer: State
    done: int
    iterations: int
    buffers: State
    start: int
    gradient_hooks: tuple[GradientHook, ...] = ()


@dataclass(frozen=True)
class TrainResult:
    """What a job gave.

    Attributes:
        update: the model after minus before; where the algorithm takes gradients, that of one
            batch.
        optimizer: what the client's optimizer remembers, by name; nothing comes of a gradient.
        loss: the mean training loss.
        buffers: the model's (BatchNorm's statistics), as training left them.
        rate: the sum of the learning rates of the local iterations.
        seconds: how long it took; of jobs that were trained at once, each one's part.
    """

    update: dict[str, Tensor]
    optimizer: State
    loss: float
    buffers: State = field(default_factory=dict)
    rate: float = 0.0
    seconds: float = 0.0


Training = Generator[TrainJob, TrainResult, tuple[TrainJob, TrainResult]]
"""A round's jobs; at the end the last of them, and the round's result."""


class ClientUpdate(NamedTuple):
    """What a client sends, and the state with which its method encodes it; None: its own."""

    update: Tensors
    compressor_state: State | None = None


class Client:
    """The client's half of an algorithm; a method that is not overridden does nothing.

    A delivery is a decoded request; ``state`` is what ``next_state`` returned when this client took
    part last, empty at first. ``chain`` makes one half of several.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _refuse_former(cls, _FORMER_OF_CLIENTS)

    @property
    def hooks_gradients(self) -> bool:
        """Whether something is added to each client's own gradients."""
        return type(self).gradient_hook is not Client.gradient_hook

    @property
    def fine_tuning(self) -> int:
        """Local iterations in which a client trains all of its model before it is scored."""
        return 0

    def payload_template(self, model: Tensors) -> dict[str, Tensor]:
        """The tensors that travel between server and clients, by name, before the first round."""
        return dict(model)

    def initial_weights(self, delivery: Delivery, state: State) -> Tensors:
        """The model that is trained; a name that is missing is as in a new model."""
        return delivery.weights

    def gradient_hook(self, delivery: Delivery, state: State) -> GradientHook | None:
        """A function that adds to the gradients of each local step; None: nothing."""
        return None

    def train(self, delivery: Delivery, state: State, job: TrainJob) -> Training:
        """Yields the round's training, in one job or in several of fewer local steps.

        Returns the last job and the round's result, whose ``update`` is that job's.
        """
        return job, (yield job)

    def make_update(
        self, delivery: Delivery, state: State, job: TrainJob, result: TrainResult
    ) -> ClientUpdate | Generator[TrainJob, TrainResult, ClientUpdate]:
        """The client's update; a generator also yields the other training that it needs."""
        return ClientUpdate(result.update)

    def next_state(
        self,
        delivery: Delivery,
        state: State,
        job: TrainJob,
        result: TrainResult,
        update: Tensors,
        packet: Packet,
    ) -> State:
        """What the client remembers for the next message, now that ``update`` was encoded."""
        return {}


PLAIN = Client()


@dataclass(frozen=True)
class RoundInfo:
    """What a server's rule knows of a round, in addition to messages and model.

    Attributes:
        number: 1, 2, ...; of a server that does not wait, the message's among those to its client.
        seed: of the run.
        clients: of the federation, of which a round's cohort may be a part.
        uplink: how clients encode their updates.
        cohort: clients that take part in a round, or are at work at once.
        iterations: local iterations by client; 1 for all where nobody orders other numbers.
        age: by client, steps of the model since the client was sent its own; of rounds 0.
        sent: by client, the model that it was sent, where that may be another than today's.
        side_payloads: by client, those of the message that it was sent in this round.
    """

    number: int
    seed: int
    clients: int
    uplink: Compressor
    cohort: int = 0
    iterations: Mapping[int, int] = field(default_factory=dict)
    age: Mapping[int, int] = field(default_factory=dict)
    sent: Mapping[int, Tensors] = field(default_factory=dict)
    side_payloads: Mapping[int, Mapping[str, bytes]] = field(default_factory=dict)


@dataclass(frozen=True)
class Algorithm:
    """A federated algorithm: how the server uses the clients' updates. Fields are its settings.

    A field that is called ``weighting``, ``server_lr``, ``staleness`` or ``buffer_size`` is what
    the flag of that name sets; ``optimizer`` and ``factor`` are the task's.

    Attributes:
        clock: what drives it: ``rounds``, or an asynchronous ``server`` or ``shards``.
        gradients: clients send the gradient of one batch, and the server has the optimizer.
        adds_codes: it adds up codes, and takes only methods that send them: never ``raw``.
        needs_method: the method whose messages it alone can use (``needs_server``); empty: none.
        by_samples: clients are weighted by their samples with any ``weighting``.
        every_reply: a round without one client's reply makes another step than the algorithm's.
        method_example: of that method, as one types it.
        requires: what it needs of a run (``strategies.algorithms.requirements``).
        refuses_buffers: why models have no buffers (BatchNorm's statistics), which ...; empty: they
            may have.
        refuses_deployment: why it is simulated alone; empty: it can be deployed.
        place: ``FILE.py:NAME``, where a user's own was found by that; else empty.
        content: the digest of that file and of the modules in its folder that it imports; else
            empty.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _refuse_former(cls, _FORMER)

    clock: ClassVar[Literal["rounds", "server", "shards"]] = "rounds"
    gradients: ClassVar[bool] = False
    adds_codes: ClassVar[bool] = False
    needs_method: ClassVar[str] = ""
    by_samples: ClassVar[bool] = False
    every_reply: ClassVar[bool] = False
    method_example: ClassVar[str] = ""
    requires: ClassVar[tuple[Requirement, ...]] = ()
    refuses_buffers: ClassVar[str] = ""
    refuses_deployment: ClassVar[str] = ""
    place: ClassVar[str] = ""
    content: ClassVar[str] = ""

    @property
    def client(self) -> Client:
        """The client's half."""
        return PLAIN

    @property
    def averages(self) -> bool:
        """Whether the model moves by a mean that clients can make of all updates themselves."""
        return False

    @property
    def steps_ahead(self) -> int:
        """Local steps of a round that clients do before they need what the server sends in it."""
        return 0

    @property
    def least_steps(self) -> int:
        """The fewest local steps of a round."""
        return self.steps_ahead + 1

    @property
    def weighs(self) -> str:
        """By what clients are weighted: ``samples`` or ``uniform``."""
        by = "samples" if self.by_samples else getattr(self, "weighting", "uniform")
        return "uniform" if by == "uniform" else "samples"

    @property
    def written(self) -> str:
        """The name of a user's own in files of settings: its place, or how it was made."""
        return self.place or repr(self)

    def parts(self, clients: int) -> int:
        """In how many parts the model is held, each with a channel of its own; 0: whole."""
        return 0

    def unmet(self, setup: Setup) -> Unmet | None:
        """What it needs of a run that this one does not have; None: it has all."""
        for_method = (own_method,) if self.needs_method else ()
        return unmet((*for_method, *self.requires), self, setup)

    def default_downlink(self, uplink: Compressor) -> Compressor:
        """How the global update is encoded, where nobody says how."""
        return Raw()

    def reads(self, uplink: Compressor) -> Compressor:
        """How the server reads messages: as updates, unless the algorithm adds something else."""
        return uplink

    def sides(self, seed: int) -> tuple[Side, ...]:
        """Side payloads of its own, at the server's end of the channel; ``seed``: of the run."""
        return ()

    def epsilon(self, rounds: int) -> float | None:
        """The privacy that a client has lost after so many rounds; None: it was promised none."""
        return None

    def mixing(self, staleness: int) -> float:
        """For a server that does not wait: how far its buffers go to those of the clients' updates.

        1: they become their mean. ``staleness``: of the update with which the model moves.
        """
        return 1.0

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        """What moves the model (None: nothing yet), and the server's state from now on.

        Args:
            uplinks: what came, decoded, by client and in their order; one at least.
            state: as the last step returned it; empty before the first one. It is not changed.
            model: the shared model, and what travels with it.
            info: what is known of the round.
        """
        raise NotImplementedError


def check_tensors(tensors: Any, by: str) -> None:
    """Raises ``UpdateError``, which begins with ``by``, unless it is a dict of names to tensors."""
    named = tensors.items() if isinstance(tensors, Mapping) else [(None, tensors)]
    for name, x in named:
        if not isinstance(x, Tensor) or not isinstance(name, str):
            within = "" if name is None else f" as {name!r}"
            kind = type(x).__name__
            raise UpdateError(f"{by} returned {kind}{within}: give a dict of names to tensors")


def fitted(tensors: Any, template: Tensors, by: str) -> dict[str, Tensor]:
    """The tensors in the template's order.

    Raises:
        UpdateError: it begins with ``by`` and names a tensor that is missing or unknown, or has
            another shape than that of the template.

    Example:
        >>> import torch
        >>> fitted({"w": torch.ones(1)}, {"w": torch.ones(2)}, "step")
        Traceback (most recent call last):
        compressors.errors.UpdateError: step returned 'w' of shape (1,): give (2,)
    """
    check_tensors(tensors, by)
    for name in sorted(tensors.keys() ^ template.keys()):
        fault = "no tensor" if name in template else "an unknown tensor"
        raise UpdateError(f"{by} returned {fault} {name!r}: give {', '.join(template)}")
    for name, x in template.items():
        if (shape := tensors[name].shape) != x.shape:
            raise UpdateError(
                f"{by} returned {name!r} of shape {tuple(shape)}: give {tuple(x.shape)}"
            )
    return {name: tensors[name] for name in template}


def checked_step(
    rule: Algorithm, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo
) -> Step:
    """The global update (None: nothing yet) and the state that ``rule.step`` makes.

    Raises:
        UpdateError: it returns something else, or an update that does not fit the model.
    """
    outcome: Any = rule.step(uplinks, state, model, info)
    by = f"step of {rule.written}"
    if not (isinstance(outcome, tuple) and len(outcome) == 2):
        kind = type(outcome).__name__
        raise UpdateError(f"{by} returned {kind}: give a tuple of two, update and state")
    update, after = outcome
    if update is not None:
        update = fitted(update, model, by)
        for name, x in model.items():
            if update[name].dtype != x.dtype:
                raise UpdateError(f"{by} returned {name!r} as {update[name].dtype}: give {x.dtype}")
    check_tensors(after, by)
    return update, after


def check_initial(half: Client, weights: Any, model: Tensors, received: Tensors) -> None:
    """Raises ``UpdateError`` where ``half.initial_weights`` has what neither of the others has."""
    by = f"initial_weights of {type(half).__name__}"
    check_tensors(weights, by)
    trained = {n: x for n, x in weights.items() if n in model or n not in received}
    fitted(trained, {n: x for n, x in model.items() if n in weights}, by)


def checked_half(half: Client, template: Tensors, client_update: Any) -> ClientUpdate:
    """What ``half.make_update`` made of a training, in the order in which it travels.

    Raises:
        UpdateError: it is something else than a ``ClientUpdate``, or does not fit the template.
    """
    by = f"make_update of {type(half).__name__}"
    if not isinstance(client_update, ClientUpdate):
        raise UpdateError(f"{by} returned {type(client_update).__name__}: give a ClientUpdate")
    return client_update._replace(update=fitted(client_update.update, template, by))


def own_method(algorithm: Algorithm, setup: Setup) -> Unmet | None:
    """The messages of the method of its own name, which it alone reads."""
    if vars(type(setup.uplink)).get("server") == algorithm.needs_method:  # the whole, no part
        return None
    reason = f"takes the method {algorithm.needs_method}(...) alone"
    return Unmet("uplink", reason, repr(algorithm.method_example))


_FORMER_OF_CLIENTS = {
    "shares": "payload_template",
    "begins": "initial_weights",
    "force": "gradient_hook",
    "update": "make_update",
    "after": "next_state",
}
_FORMER = {"refuse": "requires", "check": "requires", "downlink": "default_downlink"}
"""Methods of version 0.1.0, and what they are called now: nobody would call them any more."""


def _refuse_former(kind: type, former: Mapping[str, str]) -> None:
    for name in vars(kind):
        if name in former:
            raise TypeError(
                f"{kind.__name__}.{name} is called {former[name]} since version 0.2.0: see "
                "docs/own-strategy.md"
            )
