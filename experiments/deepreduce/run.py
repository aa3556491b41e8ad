"""DeepReduce's figures: Bloom filters for indices, fitted curves for values.

    fedsim experiment deepreduce --scale short --data DIR

``--only`` takes tasks, rows or both; the results of a task are in a folder of its name. Runs that
are there are not run again; times are measured anew at every call.
"""

from pathlib import Path

import pandas as pd
from torch import Tensor, autograd, nn

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.lengths import DEAR, Length
from experiments.common.scores import learning, rows_of, shown
from experiments.common.tables import of_task, table
from fedsim import Cell, Results, measure
from fedsim.federation import build_model
from fedsim.tasks import get_task

from .figures import FIGURES, has_rows
from .rows import DENSENET, DOZEN, ROWS, predicted_percent

SMOKE = [
    "dense",
    "topr",
    "topr-p0-0.01",
    "topr-p1-0.01",
    "randr-p2-0.1",
    "rle",
    "fit-poly",
    "skcompress",
    "3lc",
]
TASKS = {
    "digits": {"smoke": Length(2, 8, 1, clients=2)},
    "fashion_lenet5": {
        "short": Length(200, 32, 1, evaluations=8),
        "paper": Length(2000, 128, 3, evaluations=8),
    },
    **DEAR,
    "cifar_resnet20": {
        **DEAR["cifar_resnet20"],
        "short": Length(300, 32, 1, 2, 2000, 6, lr=0.02),
    },
    "cifar_densenet40": {
        "short": Length(300, 16, 1, 2, 1000, 3, lr=0.05),
        "paper": Length(234_300, 16, 3),
    },
}
"""A row per task and scale; the paper's own tasks are ResNet-20 and DenseNet40 on CIFAR-10."""
ALL = [name for name in ROWS if name not in DENSENET[1:]]
NAMES = {
    "digits": SMOKE,
    "fashion_lenet5": ALL,
    "cifar_resnet20": ALL,
    "cifar_densenet40": DENSENET,
}
"""The rows of a task; ``DOZEN`` of the others."""
TIMED = ("digits", "fashion_lenet5")
"""Tasks on whose gradient encoding and decoding are timed (Figure 10b)."""
SAMPLES = 128  # of the gradient on which encoding and decoding are timed
PARTS = ("volume", "index", "value", "side")
BITS = {"index": "position", "value": "value", "side": "side", "header": "header"}


def cells(task: str, names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per method and seed, without momentum masking: that is not of this paper."""
    size = TASKS[task][scale]
    return [
        Cell(f"{name}-seed{seed}", size.config(task, ROWS[name].method, seed, data, "off"))
        for seed in range(size.seeds)
        for name in names
    ]


def runs(asked: Asked) -> list[Cell]:
    """The runs of a task: of the rows that are named, or of those that it has."""
    names = asked.rows or NAMES.get(asked.task, DOZEN)
    return cells(asked.task, names, asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """Scores, volumes and times of a task, its curves, and the figures whose rows are there."""
    frame, curves = collect(results.runs, asked.task, asked.folder), learning(results)
    if asked.task in TIMED:
        frame = frame.merge(times(results.runs, asked), on="name")
    text = of_task(asked.task, results, markdown(frame))
    figures = {name: draw(frame, curves) for name, draw in FIGURES.items() if has_rows(name, frame)}
    return Shown({"tables": frame, "curves": curves}, {"tables": text}, figures)


EXPERIMENT = Experiment.of_tasks(show, runs, TASKS, ROWS)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its scores and volumes in ``results``."""
    named = [name for name, sizes in TASKS.items() if "short" in sizes]
    frames = {name: pd.read_csv(results / name / "tables.csv") for name in named}
    return {name: markdown(frame, short=True) for name, frame in frames.items()}


def collect(runs: pd.DataFrame, name_of_task: str, data: Path | None) -> pd.DataFrame:
    """A row per method: score over seeds, bits sent per client in all, and shares of dense float32.

    ``score`` is accuracy in per cent, or perplexity. ``*_percent`` of wire, index, value, side,
    header and buffer are per cent of 32 bits per entry and iteration. ``wire`` is the updates'
    whole messages; ``buffer`` is BatchNorm's statistics, beside them in messages of their own.
    ``predicted_percent`` is the formulas' volume of a Bloom filter with its values.
    """
    task, metric = get_task(name_of_task), runs["metric_name"].iloc[0]
    samples = task.load(data, False)
    sizes = [x.numel() for x in build_model(task, 0, samples).parameters()]
    rows = []
    for name, mine in runs.groupby(rows_of(runs.index), sort=False):
        row = ROWS[str(name)]
        dense_bits = 32 * mine["parameters"].iloc[0] * mine["iterations"].iloc[0]
        bloom = row.policy and row.policy != "naive"
        score = shown(mine["metric"], metric)
        bits = {
            "wire": (mine["up_wire_bits"] - mine["up_buffer_bits"]).mean(),
            "buffer": mine["up_buffer_bits"].mean(),
        }
        bits |= {part: mine[f"up_{column}_bits"].mean() for part, column in BITS.items()}
        rows.append(
            {
                "name": name,
                "title": row.title,
                "method": mine["method"].iloc[0],
                "figures": " ".join(map(str, row.figures)),
                "sparsifier": row.sparsifier,
                "policy": row.policy,
                "eps": row.eps,
                "seeds": len(mine),
                "iterations": mine["iterations"].iloc[0],
                "metric": metric,
                "score": score.mean(),
                "score_spread": score.std(ddof=1),
                "ratio_wire": mine["ratio_wire"].mean(),
                "sent_percent": 100 * mine["up_sent"].mean() / (dense_bits / 32),
                **{f"{part}_bits": count for part, count in bits.items()},
                **{f"{part}_percent": 100 * count / dense_bits for part, count in bits.items()},
                "predicted_percent": predicted_percent(row, sizes) if bloom else float("nan"),
            }
        )
    order = {name: i for i, name in enumerate(ROWS)}
    return pd.DataFrame(rows).sort_values("name", key=lambda names: names.map(order))


def gradient(task_name: str, data: Path | None) -> dict[str, Tensor]:
    """The gradient of the task's model, as initialised, over its first training samples."""
    task = get_task(task_name)
    model, samples = build_model(task, 0), task.load(data, False)
    named: dict[str, nn.Parameter] = dict(model.named_parameters())
    loss = task.loss(model(samples.train_x[:SAMPLES]), samples.train_y[:SAMPLES])
    return dict(zip(named, autograd.grad(loss, list(named.values())), strict=True))


def times(runs: pd.DataFrame, asked: Asked) -> pd.DataFrame:
    """Milliseconds to encode and decode one update, by method: the median of repeats, one thread.

    The rows are those of ``runs``; each message is the method's first, memory included.
    """
    names = list(dict.fromkeys(rows_of(runs.index)))
    methods = {name: ROWS[name].method for name in names}
    repeat = 1 if asked.scale == "smoke" else 15
    update = gradient(asked.task, asked.folder)
    measured = measure(update, list(methods.values()), repeat=repeat)
    if (measured["error"] != "").any():
        raise RuntimeError("; ".join(measured["error"]))
    by_method = measured.set_index("method")
    times = by_method.loc[list(methods.values()), ["compress_ms", "decompress_ms"]]
    return times.set_axis(["encode_ms", "decode_ms"], axis=1).assign(name=names)


def markdown(frame: pd.DataFrame, short: bool = False) -> str:
    """Every row: score, volume, its parts and what the formulas say, and times if measured.

    ``short``: with a digit more, and without headers and times.
    """
    timed = ("encode ms", "decode ms") if "encode_ms" in frame and not short else ()
    more = () if short else ("header",)
    lines = []
    for row in frame.to_dict("records"):
        digits = {"predicted": 4, "header": 2}
        named = ("wire", "index", "value", "side", *more, "predicted")
        parts = [(row[f"{name}_percent"], 4 if short else digits.get(name, 3)) for name in named]
        percents = ["" if pd.isna(part) else f"{part:.{places}g} %" for part, places in parts]
        taken = [f"{row[name.replace(' ', '_')]:.2f}" for name in timed]
        lines.append([row["title"], f"{row['score']:.2f}", *percents, *taken])
    return table(("method", frame["metric"].iloc[0], *PARTS, *more, "formula", *timed), lines)
