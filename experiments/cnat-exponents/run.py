"""Fig. 21 of Horváth et al. 2022: which exponents the gradients of a training run have.

Run: ``fedsim experiment cnat-exponents --data DIR``
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from rich.progress import track
from torch import Tensor, nn

from compressors import Natural, derive
from experiments.common.figures import canvas
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.tables import table
from fedsim import Data, Results, Task
from fedsim.federation import Batches, build_model, evenly_spread
from fedsim.tasks import get_task

TASKS = ("digits", "mnist_lenet5", "fashion_lenet5", "cifar_resnet20")
"""Another task is one name more."""

SCALES = {"smoke": (20, 8, 5), "short": (300, 32, 10), "paper": (2000, 128, 10)}
"""Iterations, batch size, and iterations between two gradients that are counted."""

KINDS = {"gradient": "gradients", "update": "the task's optimizer's steps"}
LEAST = -149  # of float32, denormals included
WINDOW = Natural(8)
COLUMNS = (
    "task",
    "values",
    "zeros",
    "exponents",
    "median",
    "below 2^-63",
    "2^63 and above",
    "of the squared norm outside",
    "entropy of the exponent",
    "bits that would do",
)
ACROSS = 2
"""Panels in a row of the figure."""
SCORED = 2000
LOST = 1e-9
"""Share of the squared norm that a smaller window may leave below it."""


@dataclass(frozen=True)
class Found:
    """What one task's run showed: a row per kind and exponent, a row per kind, and the data."""

    histogram: pd.DataFrame
    facts: pd.DataFrame
    source: str


def exponents(values: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Entries of each exponent floor(log2 |x|), from ``LEAST`` to 127, and their sums of squares.

    Example:
        >>> counts, squares = exponents(torch.tensor([0.0, 1.0, -1.5, 0.25]))
        >>> counts[0 - LEAST], counts[-2 - LEAST], counts.sum(), squares[0 - LEAST]
        (2, 1, 3, 3.25)
    """
    entries = values.detach().numpy().ravel().astype(np.float64)
    entries = entries[entries != 0]
    place = np.frexp(entries)[1] - 1 - LEAST
    size = 128 - LEAST
    return np.bincount(place, minlength=size), np.bincount(place, entries**2, minlength=size)


def gradients(task: Task, data: Data, model: nn.Module, scale: str) -> Iterator[tuple[str, Tensor]]:
    """(kind, values) of one client that trains with the task's optimizer, as it goes."""
    iterations, size, every = SCALES[scale]
    weights = list(model.parameters())
    optimizer = task.optimizer(weights)
    batches = Batches(np.arange(len(data.train_x)), size, 0, 0)
    for number in track(range(iterations), task.name, transient=True):
        noise = torch.Generator().manual_seed(derive(0, "step", 0, number))
        x, y = data.batch(batches.at(number), noise)  # CIFAR's is cropped and flipped
        loss = task.loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        before = [w.detach().clone() for w in weights]
        optimizer.step()
        if number % every == every - 1:
            for old, w in zip(before, weights, strict=True):
                if w.grad is not None:
                    yield "gradient", w.grad
                    yield "update", w - old


def record(name: str, scale: str, folder: Path | None) -> Found:
    """Trains the task once and counts the exponents of what it meets."""
    size = 128 - LEAST
    counts = {kind: np.zeros(size, np.int64) for kind in KINDS}
    squares = {kind: np.zeros(size) for kind in KINDS}
    entries = dict.fromkeys(KINDS, 0)
    task = get_task(name)
    data = task.load(folder, False)
    model = build_model(task, 0)
    for kind, values in gradients(task, data, model, scale):
        some, powers = exponents(values)
        counts[kind] += some
        squares[kind] += powers
        entries[kind] += values.numel()
    exponent = np.arange(LEAST, 128)
    histogram = pd.concat(
        pd.DataFrame(
            {
                "task": name,
                "kind": kind,
                "exponent": exponent,
                "entries": counts[kind],
                "square": squares[kind],
            }
        )[counts[kind] > 0]
        for kind in KINDS
    )
    rows = [_facts(name, kind, histogram, entries[kind]) for kind in KINDS]
    facts = pd.DataFrame(rows).assign(**learned(task, data, model))
    return Found(histogram, facts, data.source)


@torch.no_grad()
def learned(task: Task, data: Data, model: nn.Module) -> dict[str, float]:
    """Accuracy of the model on ``SCORED`` held-out samples, and of always naming one class."""
    model.eval()
    chosen, right = evenly_spread(len(data.test_x), SCORED), 0.0
    for index in chosen.split(task.evaluation_batch):
        right += float(task.metric(model(data.test_x[index]), data.test_y[index]))
    most = int(torch.bincount(data.test_y[chosen]).max())
    return {
        "accuracy_percent": 100 * right / len(chosen),
        "one_class_percent": 100 * most / len(chosen),
    }


def _facts(name: str, kind: str, histogram: pd.DataFrame, entries: int) -> dict:
    mine = histogram[histogram["kind"] == kind]
    e, counts = mine["exponent"].to_numpy(), mine["entries"].to_numpy()
    share = counts / counts.sum()
    square = mine["square"].to_numpy() / mine["square"].sum()
    inside = (e >= WINDOW.lowest) & (e < WINDOW.highest)
    # Rounding up may take the largest to one exponent more, which a smaller window holds too.
    # A code of b bits holds so many: one bit is the sign's, one pattern means zero.
    holds = {b: (1 << b - 1) - 1 for b in range(2, 10)}
    below = {b: square[e <= e.max() + 1 - count].sum() for b, count in holds.items()}
    return {
        "task": name,
        "kind": kind,
        "entries": entries,
        "zeros_percent": 100 * (1 - counts.sum() / entries),
        "least": e.min(),
        "largest": e.max(),
        "median": int(e[np.searchsorted(share.cumsum(), 0.5)]),
        "below_window_percent": 100 * share[e < WINDOW.lowest].sum(),
        "above_window_percent": 100 * share[e >= WINDOW.highest].sum(),
        "square_outside_percent": 100 * square[~inside].sum(),
        "fewest_bits": min((b for b, lost in below.items() if lost < LOST), default=9),
        "entropy_bits": float(-(share * np.log2(share)).sum()),
    }


def show(asked: Asked, results: Results | None) -> Shown:
    """Counts for the tasks that are asked for."""
    torch.set_num_threads(1)
    names = asked.rows or TASKS
    records = [record(name, asked.scale, asked.folder) for name in names]
    histogram = pd.concat(f.histogram for f in records)
    facts = pd.concat(f.facts for f in records)
    sources = (f"{name}: {f.source}\n" for name, f in zip(names, records, strict=True))
    ends = (
        f"{row['task']}: accuracy at the end {row['accuracy_percent']:.1f} %, of always naming one "
        f"class {row['one_class_percent']:.1f} %\n"
        for row in facts[facts["kind"] == "gradient"].to_dict("records")
    )
    text = "".join([markdown(facts), "\n", *ends, "\n", *sources])
    tables = {"exponents": histogram, "facts": facts}
    digits = dict.fromkeys(tables, 4)
    return Shown(tables, {"tables": text}, {"exponents": figure(histogram)}, digits)


EXPERIMENT = Experiment(
    show,
    rows=lambda scale: TASKS,
    default=lambda scale: ["digits"] if scale == "smoke" else None,
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table, from what was counted."""
    return {"facts": markdown(pd.read_csv(results / "facts.csv"))}


def markdown(facts: pd.DataFrame) -> str:
    """A row per task and kind."""
    lines = [
        [
            row["task"],
            KINDS[row["kind"]],
            f"{row['zeros_percent']:.1f} %",
            f"{row['least']} to {row['largest']}",
            str(row["median"]),
            f"{row['below_window_percent']:.3g} %",
            f"{row['above_window_percent']:.3g} %",
            f"{row['square_outside_percent']:.1g} %",
            f"{row['entropy_bits']:.2f} bit",
            str(row["fewest_bits"]),
        ]
        for row in facts.to_dict("records")
    ]
    return table(COLUMNS, lines)


def figure(histogram: pd.DataFrame) -> Figure:
    """A panel per task: share of the values that are not zero, by exponent."""
    names = list(dict.fromkeys(histogram["task"]))
    rows = -(-len(names) // ACROSS)
    across = min(len(names), ACROSS)
    drawn = canvas(4.6 * across, 2.9 * rows + 0.5)
    panels = drawn.subplots(rows, across, squeeze=False, sharey=True, sharex=True)
    looks = (("#0072b2", "-"), ("#d55e00", "--"))
    for axes, name in zip(panels.flat, names, strict=False):
        for kind, (colour, line) in zip(KINDS, looks, strict=True):
            own = histogram[(histogram["task"] == name) & (histogram["kind"] == kind)]
            share = own.set_index("exponent")["entries"] / own["entries"].sum()
            look = {"label": KINDS[kind], "color": colour, "ls": line, "lw": 1.4}
            axes.step(share.index, share, where="mid", **look)
            for end in (share.index.min(), share.index.max()):
                axes.axvline(end, color=colour, ls=":", lw=0.9)
        axes.axvspan(
            WINDOW.lowest, WINDOW.highest, color="grey", alpha=0.15, label="8 bits hold this"
        )
        axes.set(xlim=(LEAST, 128), yscale="log")
        axes.set_title(name, fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("exponent of |x|; dotted: its ends")
    for axes in panels[:, 0]:
        axes.set_ylabel("share of values not zero")
    handles, labels = panels[0, 0].get_legend_handles_labels()
    drawn.legend(handles, labels, fontsize=9, loc="outside lower center", ncols=3, frameon=False)
    return drawn
