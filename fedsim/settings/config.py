"""What a run is: one frozen, typed, documented value, from flags, TOML or Python."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import tomli_w

from fedsim import units
from fedsim.errors import UsageError, names_told, unknown
from fedsim.settings.spelling import underscored
from fedsim.tasklist import PARTITIONS

# What a setting is does not need torch, which all that a run needs imports: `--help` is at once.
if TYPE_CHECKING:
    from fedsim.settings.resolved import Plan
    from fedsim.tasks import Task

STRATEGIES = (
    "dsgd", "majority", "innetwork", "fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi",
    "gradients",
)  # fmt: skip
ENGINES = ("local", "flower")
WEIGHTINGS = ("uniform", "samples")
MASKING = ("auto", "on", "off")
BUFFERS = ("mean", "local")
CHECKPOINT_SECONDS = 20.0
GRADIENT = 0.01
PRECISIONS = ("float32", "bfloat16")


def _setting(default: Any, help: str, *, result: bool = True, later: bool = False) -> Any:
    """A field with its sentence.

    ``result``: whether the numbers of a run depend on it; ``later``: it came when there were runs
    already, so that its default is no part of a run's name.
    """
    return field(default=default, metadata={"help": help, "result": result, "later": later})


@names_told
@dataclass(frozen=True)
class RunConfig:
    """One run. Every field is a flag of the command line (``--local-like-this``).

    What each setting means, with its default, is listed by ``fedsim run --help``. None stands for
    the default that is named there (the task's, mostly). ``method`` and ``downlink`` are texts, or
    compressors of ``compressors``; the task is a name or a ``fedsim.Task``.

    Raises ``UsageError`` for a value outside what is allowed, naming the setting, the
    value and what is allowed.

    Example:
        >>> RunConfig(method="sbc", temporal=10, gradient=0.01).plan.rounds
        120
    """

    task: "str | Task" = _setting(
        "digits", "what is learned: a name from `fedsim list tasks`, or in Python a Task"
    )
    method: str = _setting("sbc", "how updates are compressed; {p} stands for --gradient")
    temporal: int = _setting(10, "local iterations a communication round (1: every step)")
    gradient: float | None = _setting(
        None,
        "fraction of entries sent, in (0, 1]; 1: dense; default: 0.01 where the method takes one",
    )
    clients: int | None = _setting(None, "number of clients; default: the task's")
    cohort: int | None = _setting(None, "clients that take part in a round; default: all")
    iterations: int | None = _setting(None, "local iterations in all; default: the task's")
    stop_at_bits: float | str | None = _setting(
        None, "end after the round in which a client's upstream bits (wire) reach so many, such as "
        "2Mbit; default: never", later=True,
    )  # fmt: skip
    batch_size: int | None = _setting(None, "samples a client and iteration; default: the task's")
    lr: float | None = _setting(None, "learning rate of the clients; default: the task's")
    momentum: float | None = _setting(None, "momentum of the clients' SGD; default: the task's")
    seed: int = _setting(0, "everything random follows from it")
    partition: str | None = _setting(None, PARTITIONS + "; default: the task's")
    strategy: str = _setting("dsgd", "one of " + ", ".join(STRATEGIES))
    server_lr: float | None = _setting(None, "learning rate of a server optimizer (fedadam, ...)")
    weighting: str = _setting("uniform", "mean over clients: uniform or by samples")
    downlink: str | None = _setting(
        None, "how the global update is compressed; default: raw, for a majority one bit an entry"
    )
    momentum_masking: str = _setting(
        "auto", "zero momentum where entries were sent: auto (methods with residuals), on, off"
    )
    buffers: str = _setting(
        "mean", "BatchNorm's statistics: mean (sent both ways every round) or local (kept by "
        "clients, sent up where the server evaluates)", later=True,
    )  # fmt: skip
    precision: str = _setting(
        "float32", "of forward and backward passes: float32, or bfloat16 (autocast)", later=True
    )
    evaluate_every: int | None = _setting(None, "rounds between evaluations; default: 20 a run")
    test_samples: int | None = _setting(
        None, "held-out samples that are scored, evenly spread; default: all", later=True
    )
    min_replies: int | None = _setting(None, "usable replies a round needs; default: the cohort")
    device: str = _setting("cpu", "where clients train: cpu, cuda, cuda:1, ...")
    engine: str = _setting("local", "local (in process) or flower (on Ray)", result=False)
    workers: int = _setting(1, "clients at the same time, one torch thread each", result=False)
    timeout: float = _setting(600.0, "seconds to wait for the replies of a round", result=False)
    data: str | None = _setting(None, "folder with data sets; default: $FEDSIM_DATA", result=False)
    download: bool = _setting(False, "let torchvision download a missing data set", result=False)
    label: str | None = _setting(
        None, "what tables and figures call the method; default: as --method has it", result=False
    )
    keep_payloads: bool = _setting(False, "store every message of the run", result=False)
    keep_checkpoint: bool = _setting(
        False, "keep the memory at the end whatever its size: the run can be extended", result=False
    )
    tensorboard: bool = _setting(False, "write scalars for TensorBoard as it goes", result=False)
    checkpoint_every: int | None = _setting(
        None, "rounds between checkpoints; default: every 20 seconds", result=False
    )

    def __post_init__(self) -> None:
        for f in fields(self):
            value = _plain(f.name, getattr(self, f.name))
            if f.name != "task":
                _check_type("RunConfig", f.name, value, type_of(f))
            object.__setattr__(self, f.name, value)
        from fedsim.tasks import adopt

        object.__setattr__(self, "task", adopt(self.task))
        _check(self)

    def __reduce__(self) -> Any:
        return _rebuilt, (vars(self),)  # another process then knows a task of the user's, too

    @property
    def plan(self) -> "Plan":
        """The settings with every default filled in."""
        from fedsim.settings.resolved import plan_of

        return plan_of(self)

    def identity(self) -> dict[str, Any]:
        """The settings on which a run's numbers depend, defaults filled in."""
        from compressors import text

        shown = [f for f in fields(self) if f.metadata["result"]]
        named = [
            f.name for f in shown if not f.metadata["later"] or getattr(self, f.name) != f.default
        ]
        plan = self.plan
        filled = {"gradient": plan.method.gradient, "method": plan.method.text}
        return {k: filled.get(k, getattr(plan, k, getattr(self, k))) for k in named} | {
            "task": plan.task.name,
            "downlink": text(plan.downlink),
            "momentum_masking": plan.masks,
        }

    @property
    def digest(self) -> str:
        """Eight hex digits that name the run."""
        identity = tomli_w.dumps(_without_none(self.identity()))
        return blake2b(identity.encode(), digest_size=4).hexdigest()

    def to_toml(self) -> str:
        """The settings as TOML, without those left at None."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return tomli_w.dumps(_without_none(values | {"task": self.plan.task.name}))


def _rebuilt(values: dict[str, Any]) -> RunConfig:
    return RunConfig(**values)


def from_mapping(values: Mapping[str, Any], origin: str) -> RunConfig:
    """A config from plain values; ``UsageError`` names ``origin`` and the offending key."""
    values = underscored(values, origin)
    check_values(values, origin)
    kinds = {f.name: type_of(f) for f in fields(RunConfig)}
    return RunConfig(**{k: _widen(v, kinds[k]) for k, v in values.items()})


def check_values(values: Mapping[str, Any], origin: str) -> None:
    """Refuses, as ``from_mapping``, what is no setting or of another type, one by one."""
    known = {f.name: f for f in fields(RunConfig)}
    for key, value in values.items():
        if key not in known:
            raise UsageError(f"{origin}: {unknown('setting', key, known)}")
        _check_type(origin, key, _plain(key, value), type_of(known[key]))


def from_toml(path: Path) -> RunConfig:
    """The config in a TOML file; ``UsageError`` names the file where it is corrupt."""
    return from_mapping(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file; ``UsageError`` names the file where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {error}") from error


def type_of(f: Field[Any]) -> str:
    """A field's type as written, such as ``int | None``."""
    return f.type.__name__ if isinstance(f.type, type) else str(f.type)


def default_of(name: str) -> Any:
    """A field's default."""
    found = next(f for f in fields(RunConfig) if f.name == name)
    return None if found.default is MISSING else found.default


def _plain(name: str, value: Any) -> Any:
    """The value as TOML has it: text for compressors and paths, Python's numbers for numpy's."""
    if name in ("method", "downlink"):
        from fedsim.settings.methods import spelled

        return spelled(value, _flag(name))
    if name == "stop_at_bits" and value is not None:
        return units.parse_bits(value, _flag(name))
    if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):  # one number
        return value.item()
    return str(value) if isinstance(value, PurePath) else value


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _check_type(origin: str, key: str, value: Any, kind: str) -> None:
    from fedsim.tasks import Task

    allowed = {"int": (int,), "float": (int, float), "bool": (bool,), "str": (str,)}
    base = kind.split(" | ")[0]
    if key == "task" and isinstance(value, Task):
        return
    fits = isinstance(value, allowed[base]) and (base == "bool" or not isinstance(value, bool))
    if not fits and not (value is None and "None" in kind):
        raise UsageError(f"{origin}: {key} is {value!r}; it takes {base}")


def _widen(value: Any, kind: str) -> Any:
    return float(value) if kind.startswith("float") and isinstance(value, int) else value


def _check(config: RunConfig) -> None:
    from fedsim.tasks.data import partition as partitions

    for name, allowed in (
        ("strategy", STRATEGIES), ("engine", ENGINES), ("weighting", WEIGHTINGS),
        ("momentum_masking", MASKING), ("buffers", BUFFERS), ("precision", PRECISIONS),
    ):  # fmt: skip
        value = getattr(config, name)
        if value not in allowed:
            raise UsageError(f"{_flag(name)} is {value!r}: it is one of {', '.join(allowed)}")
    for name in ("temporal", "clients", "cohort", "iterations", "batch_size", "evaluate_every",
                 "test_samples", "min_replies", "workers", "checkpoint_every", "timeout", "lr",
                 "server_lr"):
        value = getattr(config, name)
        if value is not None and not 0 < value < float("inf"):
            raise UsageError(f"{_flag(name)} is {value}: it is a number above 0")
    if config.momentum is not None and not 0 <= config.momentum < 1:
        raise UsageError(f"--momentum is {config.momentum}: it lies in [0, 1)")
    if config.label is not None and (not config.label.strip() or not config.label.isprintable()):
        raise UsageError(f"--label is {config.label!r}: it is a line of text, and not empty")
    if config.seed < 0:
        raise UsageError(f"--seed is {config.seed}: it is 0 or above")
    partitions.check(config.plan.partition)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
