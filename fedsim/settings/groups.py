"""The groups of a run's settings: each a frozen value, each field a setting (see ``fields``)."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsim.ground.errors import names_told
from fedsim.settings.declarations import ABOVE_ZERO, Rule, one_of, setting, settle, some_of
from fedsim.settings.versions import former_stack
from fedsim.tasks.tasklist import PARTITIONS

if TYPE_CHECKING:
    from fedsim.network.quantities import QuantityKind
    from fedsim.settings.samplers import Sampler

EXACT, NEAREST = "float32", "bfloat16"
"""Formats of clients' memory (``--memory-as``) that are not methods."""

UNIFORM = "uniform"
"""The sampler that runs have where nobody says another."""

TRACKERS = ("tensorboard", "wandb", "mlflow")
"""What ``--track`` takes; ``fedsim.runs.trackers`` holds a file for each."""


_GPUS = Rule(
    lambda x: 0 < x <= 1 or (1 < x < float("inf") and x == int(x)),
    "a share above 0, or a whole number",
)


def _is_stack(text: str) -> bool:
    number = text.isascii() and text.isdecimal() and int(text) > 0
    return text == "auto" or number or bool(former_stack(text))


def as_text(value: Any, flag: str) -> Any:
    """The text of a number, a compressor or a controller; anything else as it is."""
    if isinstance(value, str | bool):
        return value
    if flag in ("--method", "--downlink", "--memory-as"):
        from fedsim.settings.methods import spelled

        return spelled(value, flag)
    if flag == "--controller":
        from fedsim.settings.controllers import controller_text

        return controller_text(value)
    if isinstance(value, float) and float(f"{value:g}") == value:
        return f"{value:g}"
    return repr(value) if isinstance(value, int | float) else value


def as_amount(kind: "QuantityKind") -> Callable[[Any, str], float]:
    """From what is given to a number in the units of its kind, as ``quantity`` reads it."""

    def read(value: Any, flag: str) -> float:
        from fedsim.network.quantities import quantity

        return quantity(value, flag, kind)

    return read


def _sampler(value: Any, flag: str) -> "str | Sampler":
    """A sampler's text, or a user's own itself."""
    if value == UNIFORM:
        return UNIFORM
    from fedsim.settings.samplers.parsing import adopt_sampler

    return adopt_sampler(value)


def _partition(value: Any, flag: str) -> Any:
    """A partition's text; a file's with its digest."""
    if not isinstance(value, str) or not (".csv" in value or ".py:" in value):
        return value
    from fedsim.tasks.data.filesplits import partition_with_digest

    return partition_with_digest(value)


@names_told
@dataclass(frozen=True)
class Clients:
    """The clients of a federation: how many, what each holds, and who takes part in a round.

    Raises ``UsageError`` for a value that is not allowed.

    Example:
        >>> Clients(20, cohort=5, partition="dirichlet(0.3)").cohort
        5
    """

    count: int | None = setting(
        None,
        "number of clients; default: the task's",
        flag="clients",
        rule=ABOVE_ZERO,
        of_task=True,
    )
    cohort: int | None = setting(
        None, "clients that take part in each round; default: all", rule=ABOVE_ZERO
    )
    sampler: "str | Sampler" = setting(
        UNIFORM,
        "what draws the clients of a round: one of `fedsim list samplers`, such as "
        "'weighted(samples)', or FILE.py:NAME for one of your own",
        plain=_sampler,
    )
    partition: str | None = setting(
        None, ", ".join(PARTITIONS) + "; default: the task's", of_task=True, plain=_partition
    )
    availability: str | float | None = setting(
        None,
        "clients that are there: a fraction, onoff(10min, 5min) (mean times there and "
        "away), slots(4, 30s) (each client in one of 4 slots), or a CSV file (seconds, available); "
        "default: all",
        plain=as_text,
    )
    dropout: str | float | None = setting(
        None,
        "probability that an asked client drops out before it trains, or 'before=0.05, "
        "after=0.05' its training; default: 0",
        plain=as_text,
    )
    ask: int | None = setting(
        None,
        "clients to ask; the first --cohort replies in simulated time count; with fedbuff "
        "and fedasync, clients at work at once; default: the cohort",
        rule=ABOVE_ZERO,
    )
    deadline: str | float | None = setting(
        None,
        "simulated time after which a round ends, or with fedbuff and fedasync a reply is "
        "late, such as 30s; default: none",
        plain=as_text,
    )
    late: str = setting(
        "hold",
        "what happens to an update that arrives after its round: hold (it travels with "
        "the client's next one), drop (it is lost and counted) or count (the round in which it "
        "arrives applies it)",
        rule=one_of("hold", "drop", "count"),
    )
    catch_up: bool = setting(
        False,
        "send a client that missed rounds the missed updates, if they are shorter than the model",
    )
    min_replies: int | None = setting(
        None,
        "fewest usable replies of a round; with fewer the run ends; default: 1, the cohort "
        "if the algorithm needs every reply, or none if clients may be absent, drop out or be late",
        rule=ABOVE_ZERO,
    )
    max_norm: float | None = setting(
        None,
        "largest L2 norm of a client's decoded update; a longer one counts as failed; "
        "default: none",
        rule=ABOVE_ZERO,
    )

    def __post_init__(self) -> None:
        settle(self, "clients")


@names_told
@dataclass(frozen=True)
class Training:
    """How a client trains.

    Raises ``UsageError`` for a value that is not allowed.

    Example:
        >>> Training(batch_size=32, lr=0.1).momentum is None  # the task's
        True
    """

    batch_size: int | None = setting(
        None, "samples per client and iteration; default: the task's", rule=ABOVE_ZERO, of_task=True
    )
    lr: float | None = setting(
        None,
        "learning rate of the clients, of all parameter groups; default: the task's",
        rule=ABOVE_ZERO,
        of_task=True,
    )
    momentum: float | None = setting(
        None,
        "momentum of the clients' SGD; default: the task's",
        of_task=True,
        rule=Rule(lambda x: 0 <= x < 1, "a number in [0, 1)"),
    )
    proximal: float | None = setting(
        None,
        "FedProx's mu: adds mu / 2 times the squared distance from the received model to "
        "each client's loss; default: none",
        rule=ABOVE_ZERO,
    )
    momentum_masking: str = setting(
        "auto",
        "set momentum to zero where entries were sent: auto (as the method says, which "
        "sbc and ef(..., mask=true) do), on, off, or ef (with every method that has ef)",
        rule=one_of("auto", "on", "off", "ef"),
    )
    stateless: bool = setting(
        False,
        "forget the state of a client's optimizer (momentum, Adam's moments) after each "
        "round, as devices do that take part once",
    )
    buffers: str = setting(
        "mean",
        "how BatchNorm's statistics travel: mean (both ways every round) or local (up "
        "only, when the server evaluates)",
        rule=one_of("mean", "local"),
    )
    precision: str = setting(
        "float32",
        "precision of forward and backward passes: float32, tf32 (on a GPU) or bfloat16 (autocast)",
        rule=one_of("float32", "tf32", "bfloat16"),
    )

    def __post_init__(self) -> None:
        settle(self, "training")


@names_told
@dataclass(frozen=True)
class Evaluation:
    """When the server scores its model, and on what.

    Raises ``UsageError`` for a value that is not allowed.

    Example:
        >>> Evaluation(every=5, test_samples=2000).every
        5
    """

    every: int | None = setting(
        None,
        "rounds between evaluations; default: 20 evaluations per run",
        flag="evaluate_every",
        rule=ABOVE_ZERO,
    )
    test_samples: int | None = setting(
        None, "held-out samples to score, evenly spread; default: all", rule=ABOVE_ZERO
    )
    validation: float | None = setting(
        None,
        "fraction of the training samples to keep out of training and to score instead of "
        "the held-out samples; default: none",
        rule=Rule(lambda x: 0 < x < 1, "a number between 0 and 1"),
    )

    clients: float | None = setting(
        None,
        "fraction of each client's samples to keep out of its training and to score by "
        "themselves: mean, worst tenth and spread over clients; default: none",
        flag="evaluate_clients",
        rule=Rule(lambda x: 0 < x < 1, "a number between 0 and 1"),
    )

    def __post_init__(self) -> None:
        settle(self, "evaluation")


@names_told
@dataclass(frozen=True)
class Machine:
    """Where a run computes, and how many clients train at once.

    Raises ``UsageError`` for a value that is not allowed.

    Example:
        >>> Machine(workers=2).engine
        'local'
    """

    engine: str = setting(
        "local",
        "where clients run: local (in this process), ray (Ray's actors, also on a "
        "cluster) or flower (Flower's simulation as Flower ships it)",
        result=False,
        rule=one_of("local", "ray", "flower"),
    )
    workers: int = setting(
        1,
        "clients that train at once, one torch thread each; above 1 in processes of their own",
        result=False,
        rule=ABOVE_ZERO,
    )
    device: str = setting("cpu", "where clients train: cpu, cuda, cuda:1, ...")
    stack: str | int = setting(
        "auto",
        "clients that a worker trains together on a GPU at most, each with the bits that it has by "
        "itself: a number, or auto (64, or as many as fit)",
        plain=as_text,
        rule=Rule(_is_stack, "a number above 0, or auto"),
        result=False,
    )
    gpus_per_client: float | None = setting(
        None,
        "GPUs per client of engines ray and flower; default with cuda: one for all workers",
        result=False,
        rule=_GPUS,
    )
    gpus_per_run: float | None = setting(
        None,
        "GPUs per cell of a sweep with --jobs; default with cuda: one for all jobs",
        result=False,
        rule=_GPUS,
    )
    memory: float | str | None = setting(
        None,
        "RAM for what clients keep between rounds (residuals, optimizer state), such as "
        "2GiB; what is beyond it goes to a file in the run's folder; default: half of what is free",
        plain=as_amount("bytes"),
        result=False,
    )
    memory_as: str = setting(
        EXACT,
        "how clients keep residuals and optimizer state between rounds: float32, or in "
        "fewer bytes, which changes numbers: bfloat16, or a method such as cnat",
        plain=as_text,
    )
    timeout: float = setting(
        600.0,
        "seconds without a reply after which a round ends; of a whole round in a deployment and "
        "with --engine flower; with one worker clients are waited for",
        result=False,
        rule=ABOVE_ZERO,
    )
    data: str | None = setting(None, "folder with data sets; default: $FEDSIM_DATA", result=False)
    download: bool = setting(False, "let torchvision download a missing data set", result=False)

    def __post_init__(self) -> None:
        settle(self, "machine")

    @property
    def source(self) -> tuple[str | None, bool]:
        """The data folder, and whether a missing data set may be downloaded into it."""
        return self.data or os.environ.get("FEDSIM_DATA"), self.download


@names_told
@dataclass(frozen=True)
class Keep:
    """What a run keeps on disk besides its tables.

    Raises ``UsageError`` for a value that is not allowed.

    Example:
        >>> Keep(payloads=True).checkpoint_every is None  # every 20 seconds
        True
    """

    payloads: bool = setting(
        False, "store every message of the run", flag="keep_payloads", result=False
    )
    checkpoint: bool = setting(
        False,
        "keep the final memory at any size, so that the run can be extended",
        flag="keep_checkpoint",
        result=False,
    )
    track: str | None = setting(
        None,
        "follow the run in trackers as it goes: tensorboard, wandb or mlflow, or several, "
        "such as wandb,mlflow; default: none",
        result=False,
        rule=some_of(*TRACKERS),
        plain=lambda value, _: value.replace(" ", "") if isinstance(value, str) else value,
    )
    checkpoint_every: int | None = setting(
        None, "rounds between checkpoints; default: every 20 seconds", result=False, rule=ABOVE_ZERO
    )

    def __post_init__(self) -> None:
        settle(self, "keep")


@dataclass(frozen=True, init=False)
class Network:
    """The clients' links, from which simulated times follow (docs/networks.md).

    Args:
        preset: a name of `fedsim list networks`, or all that ``--network`` takes: a text of
            settings, or a TOML file of them, which is read at once.
        settings: ``up``, ``down``, ``latency``, ``compute``, ``server_up``, ``server_down``,
            ``trace``, ``framing``, ``topology``, ``coding``, ``overlap`` and ``device`` (a name of
            `fedsim list devices`), over those of the preset. A rate that is a number is in bits per
            second; one that is a text has a unit.

    Raises ``UsageError`` for a preset or a value that is not known.

    Example:
        >>> Network("4g", compute="20ms")
        Network('4g, compute=20ms')
        >>> Network("4g", up=5e6)
        Network('4g, up=5000000bit')
    """

    text: str

    def __init__(self, preset: str = "", **settings: Any) -> None:
        from compressors.grammar import split_text
        from fedsim.network import spec

        texts = split_text(spec.without_file(preset)) if preset else []
        pairs = [item.partition("=") for item in texts]
        items = [f"{k.strip()}={x.strip()}" if mark else k for k, mark, x in pairs]
        items += [f"{name}={spec.written_value(name, value)}" for name, value in settings.items()]
        text = ", ".join(items)
        spec.parse(text)
        object.__setattr__(self, "text", text)

    def __repr__(self) -> str:
        return f"Network({self.text!r})"

    def __str__(self) -> str:
        return self.text
