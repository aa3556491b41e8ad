"""Ours beside the paper's, as tables in Markdown, and the bars of its Figures 2 and 3."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, GREYS, canvas
from experiments.common.tables import sections, table

from . import gajjala
from .quantized_runs import Benchmark

QUANTIZED = ("RD", "TQ", "CNat")
OTHERS = ("fixed", "SHS, fitted", "ANS", "Elias, gaps", "Golomb", "auto")
BARS = {
    "Huffman": COLOURS[0],
    "Elias": GREYS[1],
    "RLE": COLOURS[6],
    "SH": COLOURS[4],
    "SHS": COLOURS[3],
    "RLH": COLOURS[1],
    "ANS": COLOURS[5],
    "Elias, gaps": GREYS[1],
    "Golomb": GREYS[0],
    "auto": COLOURS[2],
}
"""The encoders that are drawn; those that the paper's figures have not are hatched."""
FULL = {
    "resnet20": "ResNet20",
    "vgg16": "VGG16",
    "googlenet": "GoogLeNet",
    "resnet50": "ResNet50",
    "lstm1500": "LSTM",
}
"""The models of full size, and their names in the paper's tables."""
ABREAST = 3  # panels of the figure


def markdown(frame: pd.DataFrame, facts: dict[str, dict[str, Any]]) -> str:
    """Tables 2, 3 and 4, and 1, ours above theirs."""
    flat, apart = frame[frame["lift"] == "flat"], frame[frame["lift"] == "per_tensor"]
    everything = (*gajjala.COLUMNS, *OTHERS)
    parts = {
        "Runs (Table 2)": _runs(frame, facts),
        "Compression ratio, the update as one vector (Tables 3, 4)": table(
            *_ratios(flat, gajjala.COLUMNS), printed()
        ),
        "Compression ratio, other encoders of the same messages": table(*_ratios(flat, OTHERS)),
        "Compression ratio, each tensor with a norm and a table of its own": table(
            *_ratios(apart, everything)
        ),
        "Encoding one gradient that RD has quantized (Table 1)": _times(flat),
    }
    return sections(parts.items())


def short_tables(frame: pd.DataFrame, benchmarks: Mapping[str, Benchmark]) -> dict[str, str]:
    """The README's tables, of fewer columns: the scores, the ratios of the paper's encoders beside
    the paper's, and those of others."""
    flat, lines = frame[frame["lift"] == "flat"], []
    for task, mine in flat.groupby("task", sort=False):
        first, bench = mine.iloc[0], benchmarks[str(task)]
        score, metric = mine.groupby("quantizer")["score"].first(), str(first["metric"])
        trivial = first["trivial"]
        guess = f"{metric} {trivial:.1f}" if metric != "accuracy" else _score(trivial, metric, 4)
        scores = (_score(x, metric, 4) for x in (first["baseline"], *score[list(QUANTIZED)]))
        rates = f"{bench.lr:g}, {bench.lr_tq:g}"
        lines.append([str(task), f"{first['entries']:,}", rates, guess, *scores])
    heading = ("task", "parameters", "rate, of TQ", "most frequent target", "baseline")
    made = {"scores": table((*heading, *QUANTIZED), lines)}
    paper = [[row[0], row[2], *row[4:-2]] for row in printed()]
    for name, encoders, drop in (("ratios", gajjala.COLUMNS, 2), ("others", OTHERS, 0)):
        heads, rows = _ratios(flat, encoders)
        rows = [[row[0], row[2], *row[4 : len(row) - drop]] for row in rows]
        heads = [heads[0], heads[2], *heads[4 : len(heads) - drop]]
        made[name] = table(heads, rows, paper if name == "ratios" else ())
    return made


def _score(value: float, metric: str, digits: int = 5) -> str:
    return f"{100 * value:.2f} %" if metric == "accuracy" else f"{value:.{digits}g}"


def _runs(frame: pd.DataFrame, facts: dict[str, dict[str, Any]]) -> str:
    """Table 2: the runs."""
    lines = []
    for task, fact in facts.items():
        mine = frame[frame["task"] == task].iloc[0]
        lines.append(
            (
                task,
                f"{mine['entries']:,}",
                str(fact["iterations"]),
                str(fact["batch_size"]),
                f"{fact['lr']:g}",
                f"{fact['lr_tq']:g}",
                _score(mine["trivial"], mine["metric"]),
                _score(mine["baseline"], mine["metric"]),
                fact["data"],
            )
        )
    heading = ("task", "parameters", "iterations", "batch", "rate", "rate of TQ")
    return table((*heading, "target frequencies", "baseline", "data"), lines)


def _ratios(frame: pd.DataFrame, names: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The heading, and a line per task and quantizer, with the ratios of the encoders ``names``."""
    heading = ["model", "baseline", "quantizer", "quantized", *names, "zeros", "entropy"]
    lines = []
    for (task, quantizer), group in frame.groupby(["task", "quantizer"], sort=False):
        first, ratio = group.iloc[0], group.set_index("encoder")["ratio"]
        baseline, score = (_score(first[name], first["metric"]) for name in ("baseline", "score"))
        cells = [f"{ratio[name]:.4g}" for name in names]
        rest = [f"{first['zeros_percent']:.1f} %", f"{first['entropy_ratio']:.4g}"]
        lines.append([str(task), baseline, str(quantizer), score, *cells, *rest])
    return heading, lines


def printed() -> list[list[str]]:
    """Tables 3 and 4 as the paper has them, in the columns of the first table."""
    return [
        [
            f"{row.model}, paper",
            f"{row.baseline:g}",
            row.quantizer,
            f"{row.score:g}",
            *map(str, row.ratios),
            "–",
            "–",
        ]
        for row in gajjala.RATIOS
    ]


def _times(frame: pd.DataFrame) -> str:
    lines = []
    timed = frame[(frame["quantizer"] == "RD") & frame["encode_seconds"].notna()]
    for task, group in timed.groupby("task", sort=False):
        by = group.set_index("encoder")
        entries, taken = by["entries"].iloc[0], by["encode_seconds"]
        lines += _time_lines(str(task), entries, [taken[n] for n in (*gajjala.COLUMNS, *OTHERS)])
    for model, seconds in gajjala.SECONDS.items():
        lines += _time_lines(f"{model}, paper", gajjala.PARAMETERS[model], seconds)
    return table(("model", "unit", *gajjala.COLUMNS, *OTHERS), lines)


def gradient_table(frame: pd.DataFrame) -> str:
    """Table 1 at full size, ours above theirs: ratios, and nanoseconds per entry to encode."""
    lines, blank = [], ["–"] * len(OTHERS)
    for task, group in frame.groupby("task", sort=False):
        by, model = group.set_index("encoder"), FULL[str(task)]
        ratios = {r.model: r.ratios for r in gajjala.RATIOS if r.quantizer == "RD"}.get(model, ())
        paper = [1e9 * seconds / gajjala.PARAMETERS[model] for seconds in gajjala.SECONDS[model]]
        for unit, column, theirs in (("x", "ratio", ratios), ("ns", "encode_ns", paper)):
            mine = by[column][[*gajjala.COLUMNS, *OTHERS]]
            shown = (f"{value:.3g}" if value < 999.5 else f"{value:.0f}" for value in mine)
            lines.append([str(task), unit, *shown])
            published = [f"{value:.0f}" for value in theirs] or ["–"] * len(gajjala.COLUMNS)
            lines.append([f"{model}, paper", unit, *published, *blank])
    return table(("model", "unit", *gajjala.COLUMNS, *OTHERS), lines)


def sample_table(frame: pd.DataFrame) -> str:
    """Footnote 3: what a sample costs, per cent of Huffman's length, by model, encoder and size."""
    wide = frame.pivot(index=["task", "encoder"], columns="sample", values="extra_percent")
    order = frame[["task", "encoder"]].drop_duplicates()
    lines = [
        [task, encoder, *(f"{x:.2f}" for x in wide.loc[(task, encoder)])]
        for task, encoder in order.itertuples(index=False)
    ]
    return table(("model", "encoder", *(f"{n:,} symbols" for n in wide.columns)), lines)


def _time_lines(model: str, entries: int, seconds: Sequence[float]) -> list[list[str]]:
    """Seconds, and nanoseconds per entry; dashes for encoders that are not there."""
    blank = ["–"] * (len(gajjala.COLUMNS) + len(OTHERS) - len(seconds))
    return [
        [model, "s", *(f"{s:.3g}" for s in seconds), *blank],
        [model, "ns per entry", *(f"{1e9 * s / entries:.3g}" for s in seconds), *blank],
    ]


def figure(frame: pd.DataFrame) -> Figure:
    """What a message takes, a panel per task, a group of bars per quantizer."""
    mine = frame[(frame["lift"] == "flat") & frame["encoder"].isin(list(BARS))]
    tasks = list(dict.fromkeys(mine["task"]))
    lines, across = -(-len(tasks) // ABREAST), min(ABREAST, len(tasks))
    drawn = canvas(max(6.5, 4.2 * across), 0.8 + 3.8 * lines)
    panels = drawn.subplots(lines, across, squeeze=False)
    for axes, task in zip_longest(panels.flat, tasks):
        if task is None:
            axes.set_axis_off()
            continue
        _bars(axes, mine[mine["task"] == task])
        axes.set_title(task, fontsize=10)
    for axes in panels[:, 0]:
        axes.set_ylabel("data volume of a message (kB)")
    shown = panels[0, 0].get_legend_handles_labels()
    drawn.legend(*shown, loc="outside lower center", ncols=6, fontsize=8)
    return drawn


def _bars(axes: Axes, frame: pd.DataFrame) -> None:
    quantizers = list(dict.fromkeys(frame["quantizer"]))
    width = 0.9 / len(BARS)
    for i, (encoder, colour) in enumerate(BARS.items()):
        mine = frame[frame["encoder"] == encoder].set_index("quantizer")
        kilobytes = 4 * mine["entries"] / mine["ratio"] / 1000
        axes.bar(
            [place + (i - (len(BARS) - 1) / 2) * width for place in range(len(quantizers))],
            kilobytes[quantizers],
            width,
            color=colour,
            label=encoder,
            edgecolor="white",
            linewidth=0.3,
            hatch="///" if encoder in OTHERS else None,
        )
    dense = 4 * frame["entries"].iloc[0] / 1000
    axes.axhline(dense, color="black", linestyle=":", linewidth=1, label="float32")
    axes.set(yscale="log", xticks=range(len(quantizers)), xticklabels=quantizers)
    axes.grid(axis="y", alpha=0.3)
