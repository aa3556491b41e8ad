"""The contract of an algorithm: a value with the server's rule, and a rule for its clients."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

from torch import Tensor
from torch.optim import SGD, Optimizer

from compressors import Compressor, Packet, Raw, State, Tensors
from strategies.channel.client_end import Delivery
from strategies.channel.late import Late
from strategies.channel.traffic import Uplink

Force = Callable[[Mapping[str, Tensor]], None]
"""Adds to the gradients (``x.grad``) of a model's parameters, by name, before each local step."""


class Refused(ValueError):
    """Settings that an algorithm refuses; the message names the setting and the cure."""


class Job(NamedTuple):
    """What a client trains; ``Trainer.train`` explains the fields."""

    client: int
    weights: Tensors
    optimizer: State
    done: int
    iterations: int
    buffers: State
    start: int
    forces: tuple[Force, ...] = ()


@dataclass(frozen=True)
class Trained:
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


class Change(NamedTuple):
    """What a client sends, and what its method finds in its memory; None: what is there."""

    update: Tensors
    memory: State | None = None


class Client:
    """The client's half of an algorithm; a method that is not overridden does nothing.

    What a client remembers for it (``own``) comes back in the next message to that client.
    """

    def shares(self, model: Tensors) -> dict[str, Tensor]:
        """What travels between server and clients, by name, as it is before the first round."""
        return dict(model)

    def begins(self, came: Delivery, own: State) -> Tensors:
        """The model that is trained; a name that is missing is as in a new model."""
        return came.weights

    def force(self, came: Delivery, own: State) -> Force | None:
        """What is added to the gradients of each local step; None: nothing."""
        return None

    def update(
        self, came: Delivery, own: State, job: Job, trained: Trained
    ) -> Change | Generator[Job, Trained, Change]:
        """What the client sends; a generator yields whatever else must be trained for that."""
        return Change(trained.update)

    def after(
        self, came: Delivery, own: State, job: Job, trained: Trained, update: Tensors,
        packet: Packet,
    ) -> State:  # fmt: skip
        """What the client remembers for the next message, now that ``update`` was encoded."""
        return {}


PLAIN = Client()


@dataclass(frozen=True)
class Round:
    """What a server's rule knows of a round beside messages and model.

    Attributes:
        number: 1, 2, ...; of a server that does not wait, the message's among those to its client.
        seed: of the run.
        clients: of the federation, of which a round's cohort may be a part.
        uplink: how clients encode their updates.
        cohort: clients that take part in a round, or are at work at once.
        iterations: local iterations by client; 1 for all where nobody orders other numbers.
        age: by client, steps of the model since the client was sent its own; of rounds 0.
        sent: by client, the model that it was sent, where that may be another than today's.
    """

    number: int
    seed: int
    clients: int
    uplink: Compressor
    cohort: int = 0
    iterations: Mapping[int, int] = field(default_factory=dict)
    age: Mapping[int, int] = field(default_factory=dict)
    sent: Mapping[int, Tensors] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """The settings of a run that an algorithm may refuse, as users type them.

    ``name``: of the strategy; ``method``: its text; ``required``: usable replies without which a
    run ends; ``masks``: whether clients forget momentum where entries were sent; ``optimizer``:
    makes one as a client has it; ``corrects``: whether the method keeps the clients' momentum.
    """

    name: str
    method: str
    uplink: Compressor
    downlink: Compressor
    temporal: int
    cohort: int
    required: int
    masks: bool
    clients: int
    late: str
    network: Any
    task: str
    optimizer: Callable[[], Optimizer]
    corrects: bool


def momentum_of(optimizer: Optimizer) -> float:
    """The largest momentum of SGD's groups of parameters; 0 for another optimizer."""
    if not isinstance(optimizer, SGD):
        return 0.0
    return max(float(group["momentum"]) for group in optimizer.param_groups)


class Runs(Protocol):
    """The Flower strategy that runs an algorithm, as far as the algorithm looks at it."""

    uplink: Compressor
    downlink: Compressor
    clients: int | None
    cohort: int | None
    required: int | None
    late: Late


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
        by_samples: clients are weighted by their samples, whatever ``weighting`` says.
        exact_client_state: the server's state follows from what clients keep, to the last bit: they
            may not keep it in fewer bytes.
        place: ``FILE.py:NAME``, where a user's own was found by that; else empty.
        content: the digest of that file and of the modules beside it that it imports; else empty.
    """

    clock: ClassVar[Literal["rounds", "server", "shards"]] = "rounds"
    gradients: ClassVar[bool] = False
    adds_codes: ClassVar[bool] = False
    needs_method: ClassVar[str] = ""
    by_samples: ClassVar[bool] = False
    exact_client_state: ClassVar[bool] = False
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
    def weighs(self) -> str:
        """By what clients are weighted: ``samples`` or ``uniform``."""
        by = "samples" if self.by_samples else getattr(self, "weighting", "uniform")
        return "uniform" if by == "uniform" else "samples"

    @property
    def written(self) -> str:
        """What files of settings call a user's own: where it stands, or how it was made."""
        return self.place or repr(self)

    def parts(self, clients: int) -> int:
        """In how many parts the model is held, each with a channel of its own; 0: whole."""
        return 0

    def refuse(self, asked: Asked) -> None:
        """Raises ``Refused`` for settings that the algorithm does not go with."""

    def downlink(self, asked_method: str, uplink: Compressor) -> Compressor:
        """How the global update is encoded, where nobody says how."""
        return Raw()

    def check(self, strategy: Runs) -> None:
        """Raises ``ValueError`` for a strategy, with its uplink, that it cannot be the rule of."""

    def reads(self, uplink: Compressor) -> Compressor:
        """How the server reads messages: as updates, unless the algorithm adds up something else.
        """
        return uplink

    def mixing(self, staleness: int) -> float:
        """Of a server that does not wait: how far its buffers go to those of the clients' updates.

        1: they become their mean. ``staleness``: of the update with which the model moves.
        """
        return 1.0

    def step(
        self, uplinks: Mapping[int, Uplink], memory: State, model: Tensors, now: Round
    ) -> tuple[Tensors | None, State]:
        """What moves the model (None: nothing yet), and the server's memory from now on.

        Args:
            uplinks: what came, decoded, by client and in their order; one at least.
            memory: as the last step returned it; empty before the first one. It is not changed.
            model: the shared model, and what travels beside it.
            now: see ``Round``.
        """
        raise NotImplementedError
