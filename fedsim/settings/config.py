"""A run's settings: one frozen, typed, documented value, from flags, TOML or Python."""

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import tomli_w

from fedsim.ground.errors import PlacedError, UsageError, names_told, reason, unknown
from fedsim.settings import each, machine
from fedsim.settings.fields import Settings, flag, type_of
from fedsim.settings.spelling import underscored

# Settings are read without torch, so that `--help` answers at once; a run imports torch.
if TYPE_CHECKING:
    from compressors import Row
    from fedsim.settings.resolved import Plan

CHECKPOINT_SECONDS = 20.0


@names_told
@dataclass(frozen=True)
class RunConfig(Settings):
    """One run. Every field is a flag of the command line (``--local-like-this``).

    ``fedsim run --help`` lists what each setting means, and its default. None stands for the
    default that is named there, mostly the task's. ``method`` and ``downlink`` are texts, or
    compressors of ``compressors``; the task is a name or a ``fedsim.Task``.

    Raises ``UsageError`` for a value outside what is allowed, naming the setting, the
    value and what is allowed.

    Example:
        >>> RunConfig(method="sbc", temporal=10, gradient=0.01).plan.rounds
        120
    """

    def __post_init__(self) -> None:
        for f in fields(self):
            value = _plain(f.name, getattr(self, f.name))
            if f.name not in ("task", "strategy"):
                each.of_type("RunConfig", f.name, value, type_of(f))
            object.__setattr__(self, f.name, value)
        each.alone(self)
        machine.check(self)
        from fedsim.settings import checks, strategies
        from fedsim.tasks import adopt

        object.__setattr__(self, "task", adopt(self.task))
        object.__setattr__(self, "strategy", strategies.adopt(self.strategy))
        checks.partition(self.plan)

    def __reduce__(self) -> Any:
        return _rebuilt, (vars(self),)  # another process then knows the user's own task too

    @property
    def plan(self) -> "Plan":
        """The settings with every default filled in."""
        from compressors import own_rows

        return cached_plan(self, tuple(own_rows().items()))

    def identity(self) -> dict[str, Any]:
        """The settings on which a run's numbers depend, defaults filled in."""
        from compressors import text

        shown = [f for f in fields(self) if f.metadata["result"]]
        named = [
            f.name for f in shown if not f.metadata["later"] or getattr(self, f.name) != f.default
        ]
        plan = self.plan
        filled = {"gradient": plan.method.gradient, "method": plan.method.text,
                  "network": self.network}  # fmt: skip
        return {k: filled.get(k, getattr(plan, k, getattr(self, k))) for k in named} | {
            "task": plan.task.name,
            "strategy": plan.strategy,
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
        texts = {"task": self.plan.task.written, "strategy": self.plan.strategy}
        return tomli_w.dumps(_without_none(values | texts))


@lru_cache(maxsize=256)
def cached_plan(config: RunConfig, own: "tuple[tuple[str, Row], ...]") -> "Plan":
    """The plan of a run; ``own``: the rows that the user added to the catalogue.

    A notebook may define a name again, so that the same settings stand for another method: the
    rows are part of the key.

    Raises ``UsageError`` where settings do not go together.
    """
    from fedsim.settings import checks, resolved

    plan = resolved.filled(config)
    checks.together(config, plan)
    return plan


def _rebuilt(values: dict[str, Any]) -> RunConfig:
    return RunConfig(**values)


def from_mapping(values: Mapping[str, Any], origin: str) -> RunConfig:
    """A config from plain values; ``UsageError`` names ``origin`` and the offending key."""
    values = underscored(values, origin)
    check_values(values, origin)
    kinds = {f.name: type_of(f) for f in fields(RunConfig)}
    return RunConfig(**{k: _widen(v, kinds[k]) for k, v in values.items()})


def check_values(values: Mapping[str, Any], origin: str) -> None:
    """Refuses, as ``from_mapping``, a key that is not a setting and a value of another type."""
    known = {f.name: f for f in fields(RunConfig)}
    for key, value in values.items():
        if key not in known:
            raise PlacedError(f"{origin}: {unknown('setting', key, known)}")
        each.of_type(origin, key, _plain(key, value), type_of(known[key]))


def from_toml(path: Path) -> RunConfig:
    """The config in a TOML file; ``UsageError`` names the file where it is corrupt."""
    return from_mapping(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file; ``UsageError`` names the file where it cannot be read."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} cannot be read as TOML: {reason(error)}") from error


def default_of(name: str) -> Any:
    """A field's default."""
    known = next(f for f in fields(RunConfig) if f.name == name)
    return None if known.default is MISSING else known.default


def _plain(name: str, value: Any) -> Any:
    """The value as TOML has it: text for compressors and paths, Python's numbers for numpy's."""
    if name in ("method", "downlink") and not isinstance(value, str | None):
        from fedsim.settings.methods import spelled

        return spelled(value, flag(name))
    if name == "stop_at_bits" and value is not None:
        from fedsim.network.quantities import quantity

        return quantity(value, flag(name), "bits")
    if name == "controller" and value is not None and not isinstance(value, str):
        from fedsim.settings.controllers import text as text_of

        return text_of(value)
    if name in ("availability", "dropout", "deadline") and isinstance(value, int | float):
        return f"{value:g}"
    if name == "network" and isinstance(value, str):
        from fedsim.network.spec import without_file

        return without_file(value)
    if name == "stack" and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):  # a single number
        return value.item()
    return str(value) if isinstance(value, PurePath) else value


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _widen(value: Any, kind: str) -> Any:
    return float(value) if kind.startswith("float") and isinstance(value, int) else value
