"""The README's tables: fewer columns than ``results/tables.md`` has."""

from collections.abc import Mapping, Sequence

import pandas as pd

from experiments.common.tables import table

from . import gajjala
from .quantized_runs import Benchmark
from .tables import OTHERS

QUANTIZED = ("RD", "TQ", "CNat")


def short_tables(frame: pd.DataFrame, benchmarks: Mapping[str, Benchmark]) -> dict[str, str]:
    """The scores, the ratios of the paper's encoders beside the paper's, and those of others."""
    flat = frame[frame["lift"] == "flat"]
    heading = ("model", "quantizer")
    beyond = _ratios(flat, OTHERS, ("zeros_percent", "entropy_ratio"))
    return {
        "scores": _scores(flat, benchmarks),
        "ratios": table((*heading, *gajjala.COLUMNS), _ratios(flat, gajjala.COLUMNS), _printed()),
        "others": table((*heading, *OTHERS, "zeros", "entropy"), beyond),
    }


def _score(value: float, metric: str) -> str:
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.4g}"


def _scores(frame: pd.DataFrame, benchmarks: Mapping[str, Benchmark]) -> str:
    lines = []
    for task, mine in frame.groupby("task", sort=False):
        first, bench = mine.iloc[0], benchmarks[str(task)]
        score, metric = mine.groupby("quantizer")["score"].first(), str(first["metric"])
        trivial = first["trivial"]
        guess = f"{metric} {trivial:.1f}" if metric != "accuracy" else _score(trivial, metric)
        found = (_score(x, metric) for x in (first["baseline"], *score[list(QUANTIZED)]))
        rates = f"{bench.lr:g}, {bench.lr_tq:g}"
        lines.append([str(task), f"{first['entries']:,}", rates, guess, *found])
    heading = ("task", "parameters", "rate, of TQ", "most frequent target", "baseline")
    return table((*heading, *QUANTIZED), lines)


def _ratios(
    frame: pd.DataFrame, names: Sequence[str], more: Sequence[str] = ()
) -> list[list[str]]:
    """A line per task and quantizer: the encoders' ratios, then the columns ``more``."""
    lines = []
    for (task, quantizer), group in frame.groupby(["task", "quantizer"], sort=False):
        ratio = group.set_index("encoder")["ratio"]
        rest = [
            f"{group[name].iloc[0]:.1f} %" if "percent" in name else f"{group[name].iloc[0]:.4g}"
            for name in more
        ]
        lines.append([str(task), str(quantizer), *(f"{ratio[name]:.4g}" for name in names), *rest])
    return lines


def _printed() -> list[list[str]]:
    """Tables 3 and 4 as the paper has them."""
    return [[f"{row.model}, paper", row.quantizer, *map(str, row.ratios)] for row in gajjala.RATIOS]
