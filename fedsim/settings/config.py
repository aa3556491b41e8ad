"""A run's settings: one frozen, typed, documented value, from flags, TOML or Python."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import tomli_w

from fedsim.ground.errors import PlacedError, names_told, unknown
from fedsim.settings import contents, startfile, trust_check, versions
from fedsim.settings.declarations import declared
from fedsim.settings.fields import GROUPS, SETTINGS, Settings
from fedsim.settings.groups import Network
from fedsim.settings.strategies import FLAGS, with_settings

# Settings are read without torch, so that `--help` answers at once; a run imports torch.
if TYPE_CHECKING:
    from compressors import Row
    from fedsim.settings.plans import Plan

CELLS_FILE = "runs.toml"
"""The file in a sweep's folder that lists cells which do not lie on a grid."""

TABLE = "cells"
"""The key in that file under which each cell has a table."""

CHECKPOINT_SECONDS = 20.0


@names_told
class RunConfig(Settings):
    """The settings of one run: task, compression, clients, training and machine.

    ``fedsim run --help`` lists what each setting means, and its default. None stands for the
    default that is named there, mostly the task's. Settings that belong together are a value of
    their own: ``Clients``, ``Training``, ``Evaluation``, ``Machine`` and ``Keep``; a number of
    clients and a network's text stand for theirs. Methods and controllers are texts, or the values
    that print so; the task is a name or a ``fedsim.Task``, the strategy a text or an ``Algorithm``.

    Raises ``UsageError`` for a value outside what is allowed, naming the setting, the
    value and what is allowed.

    Example:
        >>> from fedsim import Training
        >>> config = RunConfig(method="sbc", temporal=10, gradient=0.01, clients=8)
        >>> config.plan.rounds, config.clients.count
        (120, 8)
        >>> RunConfig(training=Training(lr=0.1), network="4g").network
        Network('4g')
    """

    sent: ClassVar[contents.Content | None] = None
    """The content as the process had it that sent this run to another."""

    def __post_init__(self) -> None:
        super().__post_init__()
        from fedsim.settings import strategies
        from fedsim.tasks import adopt

        object.__setattr__(self, "task", adopt(self.task))
        object.__setattr__(self, "strategy", strategies.adopt_strategy(self.strategy))
        _ = self.plan  # raises where settings do not go together

    def __reduce__(self) -> Any:
        return arrived, ({f.name: getattr(self, f.name) for f in fields(self)}, self.content)

    @staticmethod
    def elsewhere(name: str) -> str:
        """Words for a setting that is not a field of a run, but of a group or of a strategy."""
        if name in FLAGS:
            return f"{name} is the strategy's: write strategy='NAME({name}=...)'"
        if (setting := SETTINGS.get(name)) is None:
            return ""
        group = f"{setting.group}={setting.owner}({setting.attr}=...)"
        return f"{name} stands in a group: write {group}"

    @classmethod
    def of(cls, **settings: Any) -> "RunConfig":
        """The run of settings by the names of their flags, with `_` for `-`; groups may be given,
        too.

        For code that varies single settings. ``server_lr``, ``weighting``, ``staleness`` and
        ``buffer_size`` become settings of the strategy, as their flags do.

        Example:
            >>> RunConfig.of(method="sbc", batch_size=8, clients=20).training
            ... # doctest: +ELLIPSIS
            Training(batch_size=8, lr=None, ...)
            >>> RunConfig.of(strategy="fedadam", server_lr=0.5).strategy
            'fedadam(server_lr=0.5)'
        """
        return run_from_flat(flat_settings(settings, "RunConfig.of", flags=True))

    def but(self, **settings: Any) -> "RunConfig":
        """The same run with other settings, by the names of their flags, as ``of``.

        Example:
            >>> RunConfig.of(lr=0.1, batch_size=8).but(lr=0.2).training.batch_size
            8
        """
        update = flat_settings(settings, "RunConfig.but", flags=True)
        return run_from_flat(over(self.flat(), update))

    @property
    def plan(self) -> "Plan":
        """The settings with every default filled in."""
        from compressors import own_rows

        return cached_plan(self, tuple(own_rows().items()))

    def filled(self) -> dict[str, Any]:
        """The settings on which a run's numbers depend, by flag, with every default filled in."""
        from compressors.grammar import message_text
        from fedsim.settings import masks
        from fedsim.tasks.data import filesplits

        plan, stack = self.plan, versions.former_stack(self.machine.stack)
        length = {"rounds": self.rounds, "iterations": None, "temporal": default_of("temporal")}
        values = {name: value for name, value in self.flat().items() if SETTINGS[name].result}
        return (
            {name: getattr(plan, name, value) for name, value in values.items()}
            | {
                "task": plan.task.name,
                "method": plan.method.text,
                "gradient": plan.method.gradient,
                "downlink": message_text(plan.downlink),
                "momentum_masking": masks.masking_recorded(self, plan),
                "ask": self.clients.ask,
                "network": written(self.network),
                # what is required else follows from the rest
                "min_replies": self.clients.min_replies,
                "weights": startfile.digest_in(self.weights),
                "partition": filesplits.identity(plan.partition),
            }
            | (length if self.by_client else {})
            | ({versions.STACK: stack} if stack else {})
        )

    def chosen(self) -> dict[str, Any]:
        """``filled`` without what is at its default: a new setting then changes no run's name.

        A strategy or a sampler of the user's own is its name, wherever its file lies.
        """
        from fedsim.settings import masks

        values = self.filled() | {"momentum_masking": masks.masking_in_identity(self, self.plan)}
        if self.plan.algorithm.place:
            values["strategy"] = contents.name_of(values["strategy"])
        values["sampler"] = contents.name_of(values["sampler"])
        if self.clients.min_replies is None:  # named as by 0.1.0, which required the whole cohort
            values["min_replies"] = self.plan.cohort if self.plan.rules.plain else 1
        return {k: v for k, v in values.items() if v not in (None, SETTINGS[k].default)}

    @property
    def content(self) -> contents.Content:
        """Digests of what the run takes from files of the user's own, and of their data.

        The data of a task of the user's own are loaded for it. In a process to which the run was
        sent it is what it was where that was.
        """
        return contents.of(self) if self.sent is None else self.sent

    def identity(self) -> dict[str, Any]:
        """All that the run's numbers depend on: what was chosen, and what files hold."""
        content = self.content
        return self.chosen() | ({contents.CONTENT: content} if content else {})

    @property
    def digest(self) -> str:
        """Eight hex digits that name the run."""
        return self.digest_of(files=True)

    def digest_of(self, files: bool) -> str:
        """``digest``; without ``files`` that of the settings alone, without the files' contents."""
        return digest_of_values(self.identity() if files else self.chosen())

    def to_toml(self, **digests: Mapping[str, Any]) -> str:
        """The settings as TOML, without those left at None: a table per group.

        ``digests``: further tables, of what files hold, where there are any.
        """
        of_files = {name: table for name, table in digests.items() if table}
        values = self.flat()
        if self.by_client:  # in place of n
            del values["temporal"]
        return tomli_w.dumps(versions.stamped(tables(values) | of_files))


def digest_of_values(values: Mapping[str, Any]) -> str:
    """Eight hex digits that name what TOML holds."""
    return blake2b(tomli_w.dumps(values).encode(), digest_size=4).hexdigest()


def arrived(values: dict[str, Any], content: contents.Content) -> RunConfig:
    """A run in another process, which adopts the user's own task too."""
    config = RunConfig(**values)
    object.__setattr__(config, "sent", content)
    return config


@lru_cache(maxsize=256)
def cached_plan(config: RunConfig, rows: "tuple[tuple[str, Row], ...]") -> "Plan":
    """The plan of a run; ``rows``: the rows that the user added to the catalogue.

    A notebook may define a name again, so that the same settings stand for another method: the
    rows are part of the key.

    Raises ``UsageError`` where settings do not go together.
    """
    from fedsim.settings import checks, plans

    plan = plans.filled(config)
    checks.check_plan(config, plan)
    return plan


def run_from_flat(values: Mapping[str, Any]) -> RunConfig:
    """The run of settings by the names of their flags, each of its type (``flat_settings``)."""
    flags = {name: value for name, value in values.items() if name in FLAGS and value is not None}
    by_group: dict[str, dict[str, Any]] = {name: {} for name in ("", *GROUPS)}
    for name, value in values.items():
        if name not in FLAGS:
            by_group[SETTINGS[name].group][SETTINGS[name].attr] = value
    first = by_group.pop("")
    if flags:
        first["strategy"] = with_settings(first.get("strategy", default_of("strategy")), flags)
    return RunConfig(**first, **{name: GROUPS[name](**table) for name, table in by_group.items()})


def over(values: Mapping[str, Any], update: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by flag with the ``update`` in their places; a strategy keeps its other settings."""
    flags = {name: value for name, value in update.items() if name in FLAGS}
    for name, other in (("rounds", "iterations"), ("iterations", "rounds")):
        if update.get(name) is not None and other not in update:  # one takes the other's place
            values = {**values, other: None}
    works = ("temporal", "local_epochs", "local_seconds")  # how long clients train: one of them
    if any(update.get(name) is not None for name in works):
        others = {name: default_of(name) for name in works if name not in update}
        values = {**values, **others}
    if not flags or "strategy" in update:
        return {**values, **update}
    before = values.get("strategy", default_of("strategy"))
    remaining = {name: value for name, value in update.items() if name not in flags}
    return {**values, **remaining, "strategy": with_settings(before, flags, anew=True)}


def flat_settings(
    values: Mapping[str, Any],
    origin: str,
    flags: bool = False,
    other_keys: Iterable[str] = (),
    newer: bool = False,
) -> dict[str, Any]:
    """The settings in a file of settings, which has a table per group, by the names of their flags.

    Args:
        values: as TOML has them; in Python a group may be its value.
        origin: the beginning of error messages.
        flags: whether a setting of a group may be outside of the group, by the name of its flag.
        other_keys: other keys that are allowed, and suggested by the message on an unknown one.
        newer: whether keys that are not known, and values of other types, are kept: a newer version
            wrote them.

    Raises ``PlacedError`` for a key that is not a setting, is given twice or is in the wrong place,
    and for a value of another type.

    Example:
        >>> flat_settings({"temporal": 5, "training": {"batch-size": 8}}, "run.toml")
        {'temporal': 5, 'batch_size': 8}
    """
    flat: dict[str, Any] = {}
    for key, value in underscored(values, origin).items():
        if key in (contents.CONTENT, contents.START) and not flags:
            flat |= {key: value} if newer else {}
            continue
        kind, setting = GROUPS.get(key), SETTINGS.get(key) or FLAGS.get(key)
        if kind is not None and isinstance(value, kind | Mapping):
            names = {s.attr: s.name for s in declared(kind, key)}
            items = value if isinstance(value, Mapping) else vars(value)
            for attr, item in underscored(items, f"{origin}: [{key}]").items():
                if attr not in names and not newer:
                    raise PlacedError(f"{origin}: [{key}]: {unknown('setting', attr, names)}")
                flat[names.get(attr, f"{key}.{attr}")] = item
        elif key == "network" and isinstance(value, Mapping):
            links = underscored(value, origin)  # in a file a rate has a unit, in Python it need not
            if newer:  # as text: what it names is not opened
                links = {"": links.pop("preset"), **links} if "preset" in links else links
                flat[key] = ", ".join(f"{k}={x}".removeprefix("=") for k, x in links.items())
                continue
            flat[key] = Network(**(links if flags else {k: str(x) for k, x in links.items()}))
        elif (
            newer if setting is None else flags or (key not in FLAGS and setting.group in ("", key))
        ):
            flat[key] = value
        elif setting is not None:
            shown = tomli_w.dumps({"x": value}).partition("= ")[2].strip()
            raise PlacedError(
                f"{origin}: {key} = {shown} is the strategy's: write strategy = "
                f"'NAME({key}={value})'"
                if key in FLAGS
                else f"{origin}: {key} = {shown} goes in a table: write {setting.attr} = {shown} "
                f"below [{setting.group}]"
            )
        elif kind is not None:
            raise PlacedError(f"{origin}: {key} is {value!r}; it takes a table: [{key}]")
        else:
            keys = [name for name, s in SETTINGS.items() if flags or not s.group]
            raise PlacedError(f"{origin}: {unknown('setting', key, [*other_keys, *keys, *GROUPS])}")
    for name, value in {} if newer else flat.items():
        setting = SETTINGS.get(name) or FLAGS[name]
        setting.of_type(setting.as_stored(value), origin, name)
    return flat


def tables(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by flag as TOML holds them: a table per group, and nothing where one is None."""
    by_group: dict[str, dict[str, Any]] = {name: {} for name in ("", *GROUPS)}
    for name, value in values.items():
        if value is not None:
            by_group[SETTINGS[name].group][SETTINGS[name].attr] = written(value)
    return by_group.pop("") | {name: table for name, table in by_group.items() if table}


def written(value: Any) -> Any:
    """A setting as files have it: a network's text, and the place of a user's own object."""
    return str(value) if isinstance(value, Network) else getattr(value, "written", value)


def underscored(values: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The settings by their names in Python: `batch-size`, as flags have it, is `batch_size`.

    Raises ``PlacedError`` where a setting is given in both spellings.
    """
    renamed: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in renamed:
            raise PlacedError(f"{origin}: {name} is given twice, with '-' and with '_'; give one")
        renamed[name] = value
    return renamed


def from_toml(path: Path, *, trust_code: bool = False) -> RunConfig:
    """The config in a TOML file; ``UsageError`` names the file where it is corrupt or names code.

    ``trust_code``: whether a file of code that it names, as ``task`` or ``strategy``, is executed.
    """
    values = flat_settings(versions.read_versioned(path), str(path))
    if not trust_code:
        trust_check.check_trust(values, path)
    return run_from_flat(values)


def default_of(name: str) -> Any:
    """The default of a setting, by the name of its flag."""
    return (SETTINGS.get(name) or FLAGS[name]).default
