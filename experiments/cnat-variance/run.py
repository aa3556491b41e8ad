"""Figures 1, 16, 17 and 18 of Horváth et al. 2022: what bits buy in variance, measured.

    fedsim experiment cnat-variance

Every point is a vector of standard normal entries that was encoded, decoded from the
bytes, and compared with itself; bits are the payload's. With ``--only cifar_resnet20,char_lstm
--data DIR`` a few methods are measured on a real update of these instead, in a folder ``real``.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from rich.progress import track

from compressors import compress, decompress, parse
from experiments.common.frame import Asked, Experiment, Shown
from fedsim import Cell, Results
from fedsim.measure.theory import bound

from .figures import figure, real_figure
from .real_updates import METHODS, MODELS, cells, last_update, real_table

ENTRIES = {"smoke": (10_000, 10_000, 1), "short": (1_000_000, 100_000, 3)}
ENTRIES["paper"] = (1_000_000, 100_000, 10)
"""Entries of figure 1 and of figures 16 to 18, and draws of each method's noise."""

_SHARES = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
_LEVELS = tuple(2**k - 1 for k in range(1, 13))  # 2 s + 1 symbols fill their bits
_NATURAL = (1, 3, 7, 15, 31)
FAMILIES: dict[str, tuple[str, ...]] = {
    "none": ("float32",),
    "C_nat": ("cnat", "cnat(8)"),
    "S_q": tuple(f"bernoulli({q:g}) | float32" for q in _SHARES),
    "C_nat after S_q": tuple(f"bernoulli({q:g}) | cnat" for q in _SHARES),
    "D_sta, p = 2": tuple(f"dither({s})" for s in _LEVELS),
    "D_sta, p = inf": tuple(f"dither({s}, norm='inf')" for s in _LEVELS),
    "D_nat, p = 2": tuple(f"natural_dither({s})" for s in _NATURAL),
    "D_nat, p = inf": tuple(f"natural_dither({s}, norm='inf')" for s in _NATURAL),
    "C_nat after D_sta, p = 2": tuple(f"then(dither({s}), cnat)" for s in (63, 511, 4095)),
}
RIVALS = tuple(range(1, 13))
"""s of figures 16 to 18."""


@dataclass(frozen=True)
class Point:
    """What one method did to one vector, averaged over its draws."""

    bits_per_entry: float
    variance: float  # E ||C(x) - x||^2 / ||x||^2
    spread: float  # its sample standard deviation over the draws; NaN of one


def measure(method: str, x: torch.Tensor, draws: int) -> Point:
    """Encodes and decodes ``x`` with ``draws`` different seeds."""
    compressor, update = parse(method), {"x": x}
    norm, errors, bits = float(x.double().square().sum()), [], 0
    for seed in range(draws):
        packet, _ = compress(compressor, update, seed=seed)
        got = decompress(compressor, packet.payload, update)["x"]
        errors.append(float((got.double() - x.double()).square().sum()) / norm)
        bits += 8 * len(packet.payload)
    variances = torch.tensor(errors, dtype=torch.float64)
    spread = float(variances.std()) if draws > 1 else math.nan
    return Point(bits / draws / x.numel(), float(variances.mean()), spread)


def first(entries: int, draws: int) -> pd.DataFrame:
    """Figure 1: a row per method and setting."""
    x, rows = normal(entries, 1), []
    todo = [(family, method) for family, methods in FAMILIES.items() for method in methods]
    for family, method in track(todo, "figure 1", transient=True):
        point = measure(method, x, draws)
        worst = bound(parse(method), entries)
        rows.append(
            {
                "figure": "1",
                "family": family,
                "method": method,
                "entries": entries,
                "bits_per_entry": point.bits_per_entry,
                "omega": point.variance,
                "omega_spread": point.spread,
                "omega_bound": worst.omega,
            }
        )
    return pd.DataFrame(rows)


def rivals(entries: int, draws: int) -> pd.DataFrame:
    """Figures 16 to 18: natural dithering beside standard with u = s and u = 2^(s - 1) levels."""
    x, rows = normal(entries, 2), []
    for s in track(RIVALS, "figures 16 to 18", transient=True):
        for family, method in (
            ("D_nat, s", f"natural_dither({s})"),
            ("D_sta, u = s", f"dither({s})"),
            ("D_sta, u = 2^(s-1)", f"dither({2 ** (s - 1)})"),
        ):
            point = measure(method, x, draws)
            rows.append(
                {
                    "figure": "16-18",
                    "family": family,
                    "method": method,
                    "entries": entries,
                    "s": s,
                    "bits_per_entry": point.bits_per_entry,
                    "omega": point.variance,
                    "omega_spread": point.spread,
                    "omega_bound": bound(parse(method), entries).omega,
                }
            )
    return pd.DataFrame(rows)


def normal(entries: int, seed: int) -> torch.Tensor:
    """Standard normal entries."""
    return torch.randn(entries, generator=torch.Generator().manual_seed(seed))


def real(task: str, x: torch.Tensor, draws: int) -> pd.DataFrame:
    """A row per method: its variance on the update ``x``, and on as many normal entries."""
    drawn, rows = normal(x.numel(), 3), []
    for method in METHODS:
        point, usual = measure(method, x, draws), measure(method, drawn, draws)
        rows.append(
            {
                "task": task,
                "method": method,
                "entries": x.numel(),
                "zeros_percent": 100 * float((x == 0).float().mean()),
                "bits_per_entry": point.bits_per_entry,
                "omega": point.variance,
                "omega_spread": point.spread,
                "omega_normal": usual.variance,
                "omega_bound": bound(parse(method), x.numel()).omega,
            }
        )
    return pd.DataFrame(rows)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table: the variances on real updates."""
    return {"real": real_table(pd.read_csv(results / "real" / "real.csv"))}


def runs(asked: Asked) -> list[Cell]:
    """Those of the models that are named, or all where runs are listed; else none is needed."""
    names = asked.rows or ([] if asked.jobs else list(MODELS))
    return cells(names, asked.scale, asked.data)


def show(asked: Asked, results: Results | None) -> Shown:
    """Figures 1 and 16 to 18, or the variances on real updates."""
    entries, fewer, draws = ENTRIES[asked.scale]
    if results is None:
        name, draw = "variance", figure
        frame = pd.concat([first(entries, draws), rivals(fewer, draws)])
    else:
        name, draw = "real", real_figure
        taken = [(run.name, last_update(run, asked.out)) for run in runs(asked)]
        frame = pd.concat([real(task, update, draws) for task, update in taken])
    print(frame.to_string(index=False, float_format="%.4g"))
    return Shown({name: frame}, figures={name: draw(frame)})


EXPERIMENT = Experiment(
    show,
    runs,
    rows=lambda scale: MODELS,
    what="models",
    folder=lambda asked: "real" if asked.rows or not asked.jobs else "",
)
