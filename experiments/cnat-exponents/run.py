"""Fig. 21 of Horváth et al. 2022: which exponents the gradients of a training run have.

    python -m fedsim experiment cnat-exponents --data DIR
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.progress import track
from torch import Tensor

from compressors import Natural
from fedsim import Task
from fedsim.batches import Batches
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.shown import chosen
from fedsim.tasks import get_task
from fedsim.trainer import build_model

TASKS = ("digits", "mnist_lenet5", "fashion_lenet5")
"""Another task is one name more."""

SCALES = {"smoke": (20, 8, 5), "short": (300, 32, 10), "paper": (2000, 128, 10)}
"""Iterations, batch size, and iterations between two gradients that are counted."""

KINDS = {"gradient": "gradients", "update": "the task's optimizer's steps"}
LEAST = -149  # of float32, denormals included
WINDOW = Natural(8)
LOST = 1e-9
"""Share of the squared norm that a smaller window may leave below it."""


@dataclass(frozen=True)
class Found:
    """What one task's run showed: a row a kind and exponent, and a row a kind."""

    histogram: pd.DataFrame
    facts: pd.DataFrame


def exponents(values: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Entries of each exponent floor(log2 |x|), from ``LEAST`` to 127, and their sums of squares.

    Example:
        >>> counts, squares = exponents(torch.tensor([0.0, 1.0, -1.5, 0.25]))
        >>> counts[0 - LEAST], counts[-2 - LEAST], counts.sum(), squares[0 - LEAST]
        (2, 1, 3, 3.25)
    """
    found = values.detach().numpy().ravel().astype(np.float64)
    found = found[found != 0]
    place = np.frexp(found)[1] - 1 - LEAST
    size = 128 - LEAST
    return np.bincount(place, minlength=size), np.bincount(place, found**2, minlength=size)


def gradients(task: Task, scale: str, folder: Path | None) -> Iterator[tuple[str, Tensor]]:
    """(kind, values) of one client that trains with the task's optimizer, as it goes."""
    iterations, size, every = SCALES[scale]
    data, model = task.load(folder, False), build_model(task, 0)
    weights = list(model.parameters())
    optimizer = task.optimizer(weights)
    batches = Batches(np.arange(len(data.train_x)), size, 0, 0)
    for number in track(range(iterations), task.name, transient=True):
        index = batches.at(number)
        loss = task.loss(model(data.train_x[index]), data.train_y[index])
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
    for kind, values in gradients(get_task(name), scale, folder):
        some, powers = exponents(values)
        counts[kind] += some
        squares[kind] += powers
        entries[kind] += values.numel()
    exponent = np.arange(LEAST, 128)
    histogram = pd.concat(
        pd.DataFrame(
            {"task": name, "kind": kind, "exponent": exponent, "entries": counts[kind],
             "square": squares[kind]}
        )[counts[kind] > 0]
        for kind in KINDS
    )  # fmt: skip
    rows = [_facts(name, kind, histogram, entries[kind]) for kind in KINDS]
    return Found(histogram, pd.DataFrame(rows))


def _holds(bits: int) -> int:
    """Exponents in a code of that many bits: one is the sign's, one pattern means zero."""
    return (1 << bits - 1) - 1


def _facts(name: str, kind: str, histogram: pd.DataFrame, entries: int) -> dict:
    mine = histogram[histogram["kind"] == kind]
    e, counts = mine["exponent"].to_numpy(), mine["entries"].to_numpy()
    share = counts / counts.sum()
    square = mine["square"].to_numpy() / mine["square"].sum()
    inside = (e >= WINDOW.lowest) & (e < WINDOW.highest)
    # Rounding up may take the largest to one exponent more, which a smaller window holds too.
    below = {b: square[e <= e.max() + 1 - _holds(b)].sum() for b in range(2, 10)}
    return {
        "task": name, "kind": kind, "entries": entries,
        "zeros_percent": 100 * (1 - counts.sum() / entries),
        "least": e.min(), "largest": e.max(),
        "median": int(e[np.searchsorted(share.cumsum(), 0.5)]),
        "below_window_percent": 100 * share[e < WINDOW.lowest].sum(),
        "above_window_percent": 100 * share[e >= WINDOW.highest].sum(),
        "square_outside_percent": 100 * square[~inside].sum(),
        "fewest_bits": min((b for b, lost in below.items() if lost < LOST), default=9),
        "entropy_bits": float(-(share * np.log2(share)).sum()),
    }  # fmt: skip


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Counts for the tasks in ``only`` (default: all; smoke: digits)."""
    names = chosen(only, TASKS, "tasks", ["digits"] if scale == "smoke" else None)
    torch.set_num_threads(1)
    found = [record(name, scale, Path(data) if data else None) for name in names]
    histogram = pd.concat(f.histogram for f in found)
    facts = pd.concat(f.facts for f in found)
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "exponents.csv", histogram.to_csv(index=False, float_format="%.4g"))
    write_text(out / "facts.csv", facts.to_csv(index=False, float_format="%.4g"))
    text = markdown(facts)
    write_text(out / "tables.md", text)
    save(figure(histogram), out / "exponents.png")
    print(text)
    return 0


def markdown(facts: pd.DataFrame) -> str:
    """A row a task and kind."""
    lines = [
        "| task | values | zeros | exponents | median | below 2^-63 | 2^63 and above "
        "| of the squared norm outside | entropy of the exponent | bits that would do |",
        "| --- " * 10 + "|",
    ]
    for row in facts.to_dict("records"):
        lines.append(
            f"| {row['task']} | {KINDS[row['kind']]} | {row['zeros_percent']:.1f} % "
            f"| {row['least']} to {row['largest']} | {row['median']} "
            f"| {row['below_window_percent']:.3g} % | {row['above_window_percent']:.3g} % "
            f"| {row['square_outside_percent']:.1g} % | {row['entropy_bits']:.2f} bit "
            f"| {row['fewest_bits']} |"
        )
    return "\n".join(lines) + "\n"


def figure(histogram: pd.DataFrame) -> Figure:
    """A panel a task: share of the values that are not zero, by exponent."""
    names = list(dict.fromkeys(histogram["task"]))
    drawn = Figure(figsize=(4 * len(names) + 0.5, 3.4), layout="constrained")
    panels = drawn.subplots(1, len(names), squeeze=False, sharey=True)[0]
    for axes, name in zip(panels, names, strict=True):
        _panel(axes, histogram[histogram["task"] == name])
        axes.set_title(name, fontsize=10)
    panels[0].set_ylabel("share of values that are not zero")
    handles, labels = panels[0].get_legend_handles_labels()
    drawn.legend(handles, labels, fontsize=9, loc="outside lower center", ncols=3, frameon=False)
    return drawn


def _panel(axes: Axes, histogram: pd.DataFrame) -> None:
    for kind, colour in zip(KINDS, ("#0072b2", "#d55e00"), strict=True):
        mine = histogram[histogram["kind"] == kind].set_index("exponent")["entries"]
        share = mine / mine.sum()
        axes.step(share.index, share, where="mid", label=KINDS[kind], color=colour, lw=1.4)
        for end in (mine.index.min(), mine.index.max()):
            axes.axvline(end, color=colour, ls=":", lw=0.9)
    axes.axvspan(WINDOW.lowest, WINDOW.highest, color="grey", alpha=0.15, label="8 bits hold this")
    axes.set(xlim=(LEAST, 128), yscale="log", xlabel="exponent of |x|; dotted: its ends")
