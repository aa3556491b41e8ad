"""A grid over the plane of temporal and gradient sparsity: which cells, and as TOML."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import tomli_w

from fedsim.ground.errors import PlacedError, UsageError, names_told
from fedsim.network.spec import without_overlap
from fedsim.settings import contents, trust_check, variations, versions
from fedsim.settings.config import SETTINGS, RunConfig, flat_settings, over, tables, underscored
from fedsim.settings.config import run_from_flat as config_from_flat
from fedsim.settings.methods import resolve, spelled, takes_fraction
from fedsim.settings.strategies import FLAGS, least_steps, of_reference, with_settings

GRID = ("temporal", "local_epochs", "gradient", "seeds")
SWEEP_ONLY = ("baseline", "vary")  # what else a sweep has that no run has
_CELLS = ("temporal", "local_epochs", "gradient", "seed")  # settings that the grid gives each cell

_OF_CELLS = {
    "method": "raw",
    "downlink": None,
    "temporal": 1,
    "gradient": None,
    "label": None,
    "catch_up": False,
    "controller": None,
}
"""Settings of the dense reference that do not depend on its cells."""

OF_OPTIMIZER = ("lr", "momentum")
"""Settings of which the task's own optimizer has a value."""

_TYPED = SETTINGS["temporal"].default
"""``temporal`` where it is not given, as with local epochs."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Cell:
    """One run of a sweep, by the name of its folder: letters, digits, `_`, `.` and `-`.

    Raises ``UsageError`` for any other name.
    """

    name: str
    config: RunConfig

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise UsageError(
                f"name is {self.name!r}: a cell's names its folder and takes letters, digits, '_', "
                "'.' and '-', the first a letter, a digit or '_'"
            )

    @classmethod
    def of(cls, config: RunConfig, varied_as: Mapping[str, Any] = MappingProxyType({})) -> "Cell":
        """The cell of a config, named for its place on the plane: fractions to six digits.

        ``varied_as``: further settings in the name (``fedsim.settings.variations.folder_suffix``).
        """
        delay = named_delay(config)
        place = f"{delay}-p{config.plan.method.gradient:g}-s{config.seed}"
        return cls(place + variations.folder_suffix(varied_as), config)

    @classmethod
    def reference(cls, config: RunConfig, varied_as: Mapping[str, Any]) -> "Cell":
        """The dense reference of a config: float32 both ways after every iteration, all else equal.

        It has as many local iterations, also where the config counts rounds. Of local epochs it has
        as many, and sends after each. Of local seconds it has as many rounds.

        Votes and switches take codes, and raw is not a code: their reference is the mean. So is
        that of a strategy with a delay, and its messages overlap nothing.
        """
        strategy = of_reference(config.strategy)
        values = {name: value for name, value in varied_as.items() if name not in _OF_CELLS}
        if strategy != config.strategy and values.keys() & {"strategy", *FLAGS}:
            values = {name: value for name, value in values.items() if name not in FLAGS}
            values["strategy"] = strategy
        as_many: dict[str, Any] = {}
        if config.local_epochs is not None:
            as_many = {"rounds": config.plan.iterations, "temporal": _TYPED, "local_epochs": 1}
        elif config.local_seconds is not None:
            as_many = {"temporal": _TYPED, "local_seconds": config.local_seconds}
        elif config.rounds is not None:
            as_many = {"iterations": config.plan.iterations}
        network = config.plan.network
        if network is not None and network.overlap:
            as_many["network"] = without_overlap(str(config.network))
        return cls.of(config.but(**{**_OF_CELLS, **as_many, "strategy": strategy}), values)


def run_name(config: RunConfig) -> str:
    """Task, method and delay of a run, as the name of its folder begins."""
    method = re.sub(r"[^\w.]+", "-", config.method).strip("-")[:40]
    return f"{config.plan.task.name}-{method}-{named_delay(config)}"


@names_told
@dataclass(frozen=True)
class SweepConfig:
    """A grid: every combination of temporal sparsity, gradient sparsity, seed and varied settings.

    Args:
        base: all other settings; its temporal, gradient and seed are not used, nor are those that
            ``vary`` names.
        temporal: local iterations per round; not used where there are ``local_epochs``, or where
            the base has ``local_seconds`` or ``vary`` names them.
        gradient: fractions of entries sent; () for a method that carries its own.
        seeds: how many seeds, from 0 up; or the seeds themselves.
        baseline: whether the dense cell (1, 1), sent raw both ways, is run too where the grid lacks
            it: one for all cells that have a reference in common.
        vary: the values of further settings, by the names of their flags. Of several methods, those
            that take no fraction are run at their own.
        local_epochs: epochs per round of each client's samples, in place of ``temporal``; (): those
            of the base, if it has any. The base has ``rounds`` then.

    Example:
        >>> base = RunConfig(method="sbc", gradient=0.01)
        >>> [cell.name for cell in SweepConfig(base, (10,), (0.01,)).cells()]
        ['n1-p1-s0', 'n10-p0.01-s0']
        >>> rates = SweepConfig(base, (10,), (0.01,), baseline=False, vary={"lr": [0.1, 1]})
        >>> [cell.name for cell in rates.cells()]
        ['n10-p0.01-s0-lr-0.1', 'n10-p0.01-s0-lr-1']
    """

    base: RunConfig
    temporal: tuple[int, ...] = (10,)
    gradient: tuple[float, ...] = ()
    seeds: int | tuple[int, ...] = 1
    baseline: bool = True
    vary: Mapping[str, Sequence[Any]] = field(default_factory=dict, hash=False)
    local_epochs: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "vary", variations.check_values(self.vary, "--vary"))
        epochs = self.base.local_epochs
        if epochs is not None and not self.local_epochs:
            object.__setattr__(self, "local_epochs", (epochs,))
        if self.local_epochs and epochs != 1:  # one epoch fits any run
            object.__setattr__(self, "base", self.base.but(local_epochs=1))

    @classmethod
    def of(cls, **values: Any) -> "SweepConfig":
        """A grid: ``temporal``, ``gradient``, ``seeds``, ``vary`` and a run's, as ``RunConfig.of``.

        Example:
            >>> len(SweepConfig.of(temporal=[1, 10], gradient=[1, 0.1], method="sbc").cells())
            4
        """
        return sweep_from_flat(flat_grid(values, "SweepConfig.of", flags=True), "SweepConfig.of")

    def cells(self) -> list[Cell]:
        """The dense references first, then the grid in order; each cell once."""
        grid, references, fractions = list[Cell](), list[Cell](), dict[str, set[float]]()
        for seed in seeds_of(self.seeds):
            for chosen in variations.combinations(self.vary):
                first = len(grid)
                for delay in self._delays:
                    for p in self._fractions(chosen):
                        place = {**delay, "gradient": p, "seed": seed}
                        grid.append(Cell.of(self.base.but(**chosen, **place), chosen))
                        fraction = grid[-1].config.plan.method.gradient
                        fractions.setdefault(grid[-1].name, set()).add(fraction)
                configs = [cell.config for cell in grid[first:]]
                longest = max(configs, key=lambda config: config.plan.iterations)
                references.append(Cell.reference(longest, chosen))
        # All digits of the fraction where six of them name several.
        grid = [cell if len(fractions[cell.name]) == 1 else in_full(cell) for cell in grid]
        # What changes no dense run makes no other reference; a cell that is one has its name.
        dense = {numbers_of(cell.config): cell for cell in reversed(references)}
        grid = [replace(c, name=dense.get(numbers_of(c.config), c).name) for c in grid]
        taken = {cell.name: numbers_of(cell.config) for cell in grid}
        cells: dict[Hashable, Cell] = {}
        for numbers, cell in reversed(dense.items()) if self.baseline else ():
            if taken.get(cell.name, numbers) != numbers:  # all entries too, but another way
                name = re.sub("^([ne]1|t[^-]+)-p1-", "dense-", cell.name)
                cell = replace(cell, name=name)
            if cell.name not in taken:
                cells[numbers] = cell
        for cell in grid:
            cells.setdefault(numbers_of(cell.config), cell)
        return list(cells.values())

    @property
    def _delays(self) -> list[dict[str, Any]]:
        """How long clients train in a round, row by row of the plane."""
        if self.local_epochs:
            return [{"temporal": _TYPED, "local_epochs": epochs} for epochs in self.local_epochs]
        if "local_seconds" in self.vary:
            return [{}]
        if (seconds := self.base.local_seconds) is not None:
            return [{"temporal": _TYPED, "local_seconds": seconds}]
        return [{"temporal": n} for n in self.temporal]

    def _fractions(self, chosen: Mapping[str, Any]) -> tuple[float | None, ...]:
        """The fractions at which a combination is run; raises where its method has no place for p.

        Of several methods one that takes none is run at its own.
        """
        method = chosen.get("method", self.base.method)
        if takes_fraction(method) or not self.gradient:
            return self.gradient or (None,)
        if any(map(takes_fraction, self.vary.get("method", ()))):
            return (None,)
        for p in self.gradient:
            if p != 1:
                resolve(method, p)
        return self.gradient


def named_delay(config: RunConfig) -> str:
    """How long clients train in a round, in names of runs: ``n5``, ``e2`` (epochs), ``t0.5``
    (seconds).
    """
    if config.local_seconds is not None:
        return f"t{float(config.local_seconds):g}"
    return f"n{config.temporal}" if config.local_epochs is None else f"e{config.local_epochs}"


def seeds_of(seeds: int | tuple[int, ...]) -> tuple[int, ...]:
    """The seeds of a grid: so many from 0 up, or those that are listed.

    Raises ``UsageError`` for none, and for a list that names a seed twice.
    """
    if isinstance(seeds, tuple):
        if not seeds or len({*seeds}) < len(seeds):
            raise UsageError(f"--seeds is {list(seeds)}: give each seed once, and one at least")
        return seeds
    if seeds < 1:
        raise UsageError(f"--seeds is {seeds}: give a number above 0, or seeds as 0,4")
    return (*range(seeds),)


def in_full(cell: Cell) -> Cell:
    """The cell under a name that has all digits of its fraction."""
    gradient = cell.config.plan.method.gradient
    short = f"{gradient:g}"  # 1 and not 1.0
    exact = short if float(short) == gradient else repr(gradient)
    return replace(cell, name=cell.name.replace(f"-p{short}-s", f"-p{exact}-s", 1))


def numbers_of(config: RunConfig) -> Hashable:
    """All that the numbers of a run depend on and that was chosen: equal for equal settings.

    A learning rate or momentum that is the task's own anyway is not in it. Files of the user's
    count by what they hold now, and a strategy that is defined in Python by itself.
    """
    chosen = config.chosen()
    if "lr" in chosen or "momentum" in chosen:
        from fedsim.settings.plans import optimizer_of_task

        groups = optimizer_of_task(config.plan.task).param_groups
        shared = {n for n in OF_OPTIMIZER if all(g.get(n) == chosen.get(n) for g in groups)}
        chosen = {name: x for name, x in chosen.items() if name not in shared}
    strategy = config.strategy
    in_python = None if isinstance(strategy, str) or strategy.place else strategy
    return tomli_w.dumps({**chosen, contents.CONTENT: contents.code(config)}), in_python


def sweep_to_toml(config: SweepConfig) -> str:
    """The sweep as TOML: its grid, the method, then the settings that differ from the defaults."""
    name, several = "temporal", config.temporal
    if config.local_epochs:
        name, several = "local_epochs", config.local_epochs
    timed = config.base.local_seconds is not None or "local_seconds" in config.vary
    delays = {} if timed else {name: list(several)}
    seeds = config.seeds if isinstance(config.seeds, int) else list(config.seeds)
    values = {
        "method": config.base.method,
        **delays,
        "gradient": list(config.gradient),
        "seeds": seeds,
        "baseline": config.baseline,
        "vary": variations.written_values(config.vary),
    }
    left = {*_CELLS, *config.vary}
    items = config.base.flat().items()
    others = {k: v for k, v in items if k not in left and v != SETTINGS[k].default}
    table = values | tables(others)
    fixed_settings = {k: v for k, v in table.items() if k not in config.vary and v != {}}
    return tomli_w.dumps(versions.stamped(fixed_settings))


def sweep_from_toml(path: Path, *, trust_code: bool = False) -> SweepConfig:
    """A sweep from a TOML file; ``UsageError`` names the file and the offending key.

    ``trust_code``: as ``fedsim.settings.config.from_toml`` has it.
    """
    try:
        values = flat_grid(versions.read_versioned(path), str(path))
        if not trust_code:
            trust_check.check_trust(values, path)
        return sweep_from_flat(values, str(path))
    except PlacedError:
        raise
    except UsageError as error:
        raise PlacedError(f"{path}: {error}") from error


def flat_grid(values: Mapping[str, Any], origin: str, flags: bool = False) -> dict[str, Any]:
    """The settings of a sweep by the names of their flags: ``flat_settings`` and the grid's.

    Raises ``PlacedError`` as ``flat_settings``, and for a seed.
    """
    values = underscored(values, origin)
    if "seed" in values:
        raise PlacedError(
            f"{origin}: seed is {values['seed']!r}; a sweep takes seeds: how many, from 0 up, or a "
            "list"
        )
    grid = {name: values.pop(name) for name in (*GRID, *SWEEP_ONLY) if name in values}
    if not isinstance(vary := grid.get("vary", {}), Mapping):
        raise PlacedError(f"{origin}: vary is {vary!r}; it takes a table of settings: [vary]")
    return flat_settings(values, origin, flags, other_keys=(*GRID, *SWEEP_ONLY)) | grid


def sweep_from_flat(values: Mapping[str, Any], origin: str) -> SweepConfig:
    """A sweep of settings by the names of their flags; ``temporal`` and ``gradient`` are numbers or
    lists of them.
    """
    others = dict(values)
    seeds, baseline = others.pop("seeds", 1), others.pop("baseline", True)
    if isinstance(seeds, (list, tuple)):
        seeds = _whole_numbers(seeds, origin, "seeds")
    if not isinstance(seeds, int | tuple):
        raise PlacedError(f"{origin}: seeds is {seeds!r}; it takes whole numbers: one, or a list")
    if not isinstance(baseline, bool):
        raise PlacedError(f"{origin}: baseline is {baseline!r}; it takes true or false")
    vary = variations.check_values(others.pop("vary", {}), f"{origin}: vary")
    for name in vary:
        if others.get(name) is not None:
            raise PlacedError(f"{origin}: {name} is {others[name]!r} and is varied too: give one")
    flags = {name: others[name] for name in FLAGS if others.get(name) is not None}
    if flags and "strategy" in vary:  # each of the strategies has them
        vary["strategy"] = tuple(with_settings(one, flags) for one in vary["strategy"])
        others = {name: value for name, value in others.items() if name not in flags}
    chosen = next(variations.combinations(vary))
    method = str(spelled(chosen.get("method", others.get("method", "sbc")), "--method"))
    gradient = _numbers(others.pop("gradient", []), origin, "gradient")
    epochs = others.pop("local_epochs", None)
    seconds = others.get("local_seconds", vary.get("local_seconds"))
    works = {"local_seconds": seconds, "local_epochs": epochs, "temporal": others.get("temporal")}
    typed = [f"{name} is {value!r}" for name, value in works.items() if value is not None]
    if len(typed) > 1:
        raise PlacedError(f"{origin}: {' and '.join(typed)}: give one")
    epochs = () if epochs is None else _whole_numbers(epochs, origin, "local_epochs")
    temporal = _whole_numbers(others.pop("temporal", [_TYPED]), origin, "temporal")
    first = {"gradient": gradient[0]} if gradient and takes_fraction(method) else {}
    # The grid's own temporal sparsities are checked cell by cell; the fewest fit any run.
    least = least_steps(chosen.get("strategy", others.get("strategy", "dsgd")))
    delay = {"local_epochs": 1} if epochs else {"temporal": least} if seconds is None else {}
    base = config_from_flat(over({"method": method, **others, **delay, **first}, chosen))
    return SweepConfig(base, temporal, tuple(gradient), seeds, baseline, vary, epochs)


def _whole_numbers(value: Any, origin: str, name: str) -> tuple[int, ...]:
    listed = _numbers(value, origin, name)
    if not listed:
        raise PlacedError(f"{origin}: {name} is []; it takes one number or several")
    if not all(float(n).is_integer() for n in listed):
        raise PlacedError(f"{origin}: {name} is {listed}; it takes whole numbers")
    return tuple(int(n) for n in listed)


def _numbers(value: Any, origin: str, name: str) -> list[float]:
    listed = value if isinstance(value, list | tuple | np.ndarray) else [value]
    listed = [v.item() if isinstance(v, np.generic) else v for v in listed]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in listed):
        raise PlacedError(f"{origin}: {name} is {value!r}; it takes a number or a list of numbers")
    return listed
