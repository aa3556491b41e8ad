"""A grid over the plane of temporal and gradient sparsity: which cells, and as TOML."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from compressors import Compressor
from fedsim.ground.errors import PlacedError, UsageError, names_told
from fedsim.settings.config import SETTINGS, RunConfig, flattened, read_toml, tables, underscored
from fedsim.settings.config import from_flat as config_from_flat
from fedsim.settings.methods import Method, resolve, spelled, takes_fraction
from fedsim.settings.strategies import of_reference

GRID = ("temporal", "gradient", "seeds")
_CELLS = ("temporal", "gradient", "seed")  # settings that the grid gives each cell

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
    def of(cls, config: RunConfig) -> "Cell":
        """The cell of a config, named for its place on the plane: fractions to six digits."""
        return cls(_name(config, f"{config.plan.method.gradient:g}"), config)


@names_told
@dataclass(frozen=True)
class SweepConfig:
    """A grid: every combination of temporal sparsity, gradient sparsity and seed.

    Args:
        base: all other settings; its temporal, gradient and seed are not used.
        temporal: local iterations per round.
        gradient: fractions of entries sent; () for a method that carries its own.
        seeds: how many seeds, from 0 up.
        baseline: whether the dense cell (1, 1), sent raw both ways, is run too where the grid lacks
            it.

    Example:
        >>> base = RunConfig(method="sbc", gradient=0.01)
        >>> [cell.name for cell in SweepConfig(base, (10,), (0.01,)).cells()]
        ['n1-p1-s0', 'n10-p0.01-s0']
    """

    base: RunConfig
    temporal: tuple[int, ...] = (10,)
    gradient: tuple[float, ...] = ()
    seeds: int = 1
    baseline: bool = True

    @classmethod
    def of(cls, **values: Any) -> "SweepConfig":
        """A grid: ``temporal``, ``gradient``, ``seeds``, and a run's settings as ``RunConfig.of``.

        Example:
            >>> len(SweepConfig.of(temporal=[1, 10], gradient=[1, 0.1], method="sbc").cells())
            4
        """
        return from_flat(flat_grid(values, "SweepConfig.of", flags=True), "SweepConfig.of")

    def cells(self) -> list[Cell]:
        """The dense reference first, then the grid in order; each cell once."""
        if self.seeds < 1:
            raise UsageError(f"--seeds is {self.seeds}: give a number above 0")
        cells: dict[str, Cell] = {}
        grid, fractions = [], dict[str, set[float]]()
        for seed in range(self.seeds):
            for n in self.temporal:
                for p in self.gradient or (None,):
                    method = self.base.method
                    if p not in (None, 1) and not takes_fraction(method):
                        method = resolve(method, p).text  # raises: no place for p
                    config = replace(self.base, method=method, temporal=n, gradient=p, seed=seed)
                    grid.append(Cell.of(config))
                    fraction = config.plan.method.gradient
                    fractions.setdefault(grid[-1].name, set()).add(fraction)
        # All digits of the fraction where six of them name several.
        grid = [cell if len(fractions[cell.name]) == 1 else in_full(cell) for cell in grid]
        taken = {cell.name: _sends(cell) for cell in grid}
        # Votes and switches take codes, and raw is not a code: their reference is the mean.
        reference = self.base.but(
            method="raw", downlink=None, temporal=1, gradient=None, label=None, catch_up=False,
            strategy=of_reference(self.base.strategy),
        )  # fmt: skip
        for seed in range(self.seeds if self.baseline else 0):
            cell = Cell.of(replace(reference, seed=seed))
            if cell.name not in taken:
                cells[cell.name] = cell
            elif taken[cell.name] != _sends(cell):  # all entries too, but another way
                cells[f"dense-s{seed}"] = replace(cell, name=f"dense-s{seed}")
        for cell in grid:
            cells.setdefault(cell.name, cell)
        return list(cells.values())


def _name(config: RunConfig, gradient: str) -> str:
    return f"n{config.temporal}-p{gradient}-s{config.seed}"


def in_full(cell: Cell) -> Cell:
    """The cell under a name that has all digits of its fraction."""
    gradient = cell.config.plan.method.gradient
    short = f"{gradient:g}"  # 1 and not 1.0
    exact = short if float(short) == gradient else repr(gradient)
    return replace(cell, name=_name(cell.config, exact))


def _sends(cell: Cell) -> tuple[Method, Compressor]:
    """How a cell's messages are made, up and down."""
    return cell.config.plan.method, cell.config.plan.downlink


def to_toml(config: SweepConfig) -> str:
    """The sweep as TOML: its grid, the method, then the settings that differ from the defaults."""
    values = {
        "method": config.base.method, "temporal": list(config.temporal),
        "gradient": list(config.gradient), "seeds": config.seeds, "baseline": config.baseline,
    }  # fmt: skip
    given = config.base.flat().items()
    rest = {k: v for k, v in given if k not in _CELLS and v != SETTINGS[k].default}
    return tomli_w.dumps(values | tables(rest))


def from_toml(path: Path) -> SweepConfig:
    """A sweep from a TOML file; ``UsageError`` names the file and the offending key."""
    try:
        return from_flat(flat_grid(read_toml(path), str(path)), str(path))
    except PlacedError:
        raise
    except UsageError as error:
        raise PlacedError(f"{path}: {error}") from error


def flat_grid(values: Mapping[str, Any], origin: str, flags: bool = False) -> dict[str, Any]:
    """The settings of a sweep by the names of their flags: a run's (``flattened``) and the grid's.

    Raises ``PlacedError`` as ``flattened``, and for a seed.
    """
    values = underscored(values, origin)
    if "seed" in values:
        raise PlacedError(
            f"{origin}: seed is {values['seed']!r}; a sweep takes seeds, how many, from 0 up"
        )
    grid = {name: values.pop(name) for name in (*GRID, "baseline") if name in values}
    return flattened(values, origin, flags, beside=(*GRID, "baseline")) | grid


def from_flat(values: Mapping[str, Any], origin: str) -> SweepConfig:
    """A sweep of settings by the names of their flags; ``temporal`` and ``gradient`` are numbers or
    lists of them.
    """
    rest = dict(values)
    seeds, baseline = rest.pop("seeds", 1), rest.pop("baseline", True)
    if not isinstance(seeds, int) or not isinstance(baseline, bool):
        raise PlacedError(f"{origin}: seeds takes a whole number and baseline true or false")
    method = str(spelled(rest.get("method", "sbc"), "--method"))
    gradient = _numbers(rest.pop("gradient", []), origin, "gradient")
    temporal = _numbers(rest.pop("temporal", [10]), origin, "temporal")
    first = {"gradient": gradient[0]} if gradient and takes_fraction(method) else {}
    # The grid's own temporal sparsities are checked cell by cell; one iteration fits any run.
    base = config_from_flat({"method": method, **rest, "temporal": 1, **first})
    if not temporal:
        raise PlacedError(f"{origin}: temporal is []; it takes one number or several")
    if not all(float(n).is_integer() for n in temporal):
        raise PlacedError(f"{origin}: temporal is {temporal}; it takes whole numbers")
    return SweepConfig(base, tuple(int(n) for n in temporal), tuple(gradient), seeds, baseline)


def _numbers(value: Any, origin: str, name: str) -> list[float]:
    listed = value if isinstance(value, list | tuple | np.ndarray) else [value]
    listed = [v.item() if isinstance(v, np.generic) else v for v in listed]
    if any(isinstance(v, bool) or not isinstance(v, int | float) for v in listed):
        raise PlacedError(f"{origin}: {name} is {value!r}; it takes a number or a list of numbers")
    return listed
