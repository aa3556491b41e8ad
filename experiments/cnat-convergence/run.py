"""Fig. 5, 7, 13 to 15, 19 and 20 of Horváth et al. 2022: training with and without C_nat.

    python -m fedsim experiment cnat-convergence --data DIR
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedsim import RunConfig
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results import Results
from fedsim.shown import chosen, run_shown
from fedsim.sweeps import Cell

POINTS = 1.0
"""Percentage points of accuracy within which two methods count as equal."""

SMOOTH = 10
"""Rounds over which training losses are averaged."""


@dataclass(frozen=True)
class Method:
    """A line of the figures; ``nat``: C_nat at the clients, on norms too, and at the server."""

    title: str
    method: str
    nat: bool = False


METHODS = {
    "none": Method("none", "raw"),
    "cnat": Method("C_nat", "cnat", nat=True),
    "sparse": Method("S_q", "bernoulli(0.1) | float32"),
    "sparse-cnat": Method("S_q, C_nat", "bernoulli(0.1) | cnat", nat=True),
    "dsta": Method("D_sta, 128 levels", "dither(128)"),
    "dsta-cnat": Method("D_sta, 128 levels, C_nat", "dither(128, norm_code=cnat)", nat=True),
    "dnat": Method("D_nat, 8 levels", "natural_dither(8)"),
    "dnat-cnat": Method(
        "D_nat, 8 levels, C_nat", "dither(8, '2', 'natural', norm_code=cnat)", nat=True
    ),
}


@dataclass(frozen=True)
class Pair:
    """Two lines that a figure compares: what it says of the second."""

    figure: str
    plain: str
    other: str


PAIRS = (
    Pair("5, 13 to 15", "none", "cnat"),
    Pair("19, 20", "sparse", "sparse-cnat"),
    Pair("19, 20", "dsta", "dnat-cnat"),
    Pair("7", "dsta", "dnat"),
    Pair("7", "dsta-cnat", "dnat-cnat"),
    Pair("7", "dsta", "dsta-cnat"),
    Pair("7", "dnat", "dnat-cnat"),
)
PANELS = {
    "Fig. 5, 13 to 15": ("none", "cnat"),
    "Fig. 19, 20": ("none", "cnat", "sparse", "sparse-cnat", "dsta", "dnat-cnat"),
    "Fig. 7": ("dsta", "dsta-cnat", "dnat", "dnat-cnat"),
}
STYLES = {
    "none": ("black", "-"), "cnat": ("black", "--"),
    "sparse": ("#d55e00", "-"), "sparse-cnat": ("#d55e00", "--"),
    "dsta": ("#0072b2", "-"), "dsta-cnat": ("#0072b2", "--"),
    "dnat": ("#009e73", "-"), "dnat-cnat": ("#009e73", "--"),
}  # fmt: skip


@dataclass(frozen=True)
class Length:
    """How long a task is trained at a scale; ``every``: rounds between evaluations."""

    iterations: int
    batch_size: int
    clients: int
    seeds: int
    every: int


TASKS = {
    "digits": {"smoke": Length(2, 8, 2, 1, 2), "short": Length(200, 32, 2, 3, 20)},
    "fashion_lenet5": {"short": Length(200, 32, 2, 3, 40)},
}
"""A row a task; ``paper`` is the task's own length."""


def length(task: str, scale: str) -> Length | None:
    """None where the task has no such scale."""
    if scale != "paper":
        return TASKS[task].get(scale)
    plan = RunConfig(task=task, temporal=1).plan
    return Length(plan.iterations, plan.batch_size, plan.clients, 3, plan.iterations // 20)


def cells(task: str, size: Length, data: str | None) -> list[Cell]:
    """A run a method and seed."""
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task=task, method=one.method, downlink="cnat" if one.nat else "raw", temporal=1,
                seed=seed, iterations=size.iterations, batch_size=size.batch_size,
                clients=size.clients, evaluate_every=size.every, data=data,
            ),
        )
        for name, one in METHODS.items()
        for seed in range(size.seeds)
    ]  # fmt: skip


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks in ``only`` (default: all of the scale); 1 if a run failed."""
    known = {name: size for name in TASKS if (size := length(name, scale))}
    names = chosen(only, known, f"tasks of --scale {scale}")
    return max(_task(n, cells(n, known[n], data), out / n, jobs) for n in names)


def _task(task: str, found: list[Cell], out: Path, jobs: int) -> int:
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    frame = collect(results)
    compared = compare(frame)
    write_text(out / "methods.csv", frame.to_csv(index=False, float_format="%.6g"))
    write_text(out / "pairs.csv", compared.to_csv(index=False, float_format="%.6g"))
    text = f"{task}: {results.runs['data_source'].iloc[0]}\n\n{markdown(frame, compared)}"
    write_text(out / "tables.md", text)
    save(figure(task, results), out / "convergence.png")
    print(text)
    return 0


def collect(results: Results) -> pd.DataFrame:
    """A row a method: means over seeds; bits are whole messages an entry and round."""
    rows = []
    for name, one in METHODS.items():
        mine = results.runs[[str(run).rpartition("-seed")[0] == name for run in results.runs.index]]
        sent = mine["parameters"] * mine["rounds"]
        rounds = results.rounds[results.rounds["run"].isin(mine.index)]
        ends = rounds["round"] > rounds["round"].max() - SMOOTH
        rows.append(
            {
                "name": name, "title": one.title, "method": one.method, "seeds": len(mine),
                "accuracy_percent": 100 * mine["metric"].mean(),
                "accuracy_spread": 100 * mine["metric"].std(ddof=0),
                "train_loss": rounds.loc[ends, "train_loss"].mean(),
                "up_bits_per_entry": (mine["up_wire_bits"] / sent).mean(),
                # The model of the last round needs no way down.
                "down_bits_per_entry": (
                    mine["down_wire_bits"] / mine["parameters"] / (mine["rounds"] - 1)
                ).mean(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def compare(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a pair: how many points the second loses, and how many times fewer bits it sends."""
    by = frame.set_index("name")
    rows = []
    for pair in PAIRS:
        plain, other = by.loc[pair.plain], by.loc[pair.other]
        change = other["accuracy_percent"] - plain["accuracy_percent"]
        rows.append(
            {
                "figure": pair.figure, "without": pair.plain, "with": pair.other,
                "points": change,
                "up_saving": plain["up_bits_per_entry"] / other["up_bits_per_entry"],
                "down_saving": plain["down_bits_per_entry"] / other["down_bits_per_entry"],
                "holds": bool(change >= -POINTS),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame, compared: pd.DataFrame) -> str:
    """The methods, then the pairs."""
    lines = [
        "| method | accuracy | training loss at the end | bits an entry, up | down |",
        "| --- " * 5 + "|",
    ]
    for row in frame.to_dict("records"):
        lines.append(
            f"| {row['title']} | {row['accuracy_percent']:.2f} ± {row['accuracy_spread']:.2f} "
            f"| {row['train_loss']:.3f} | {row['up_bits_per_entry']:.2f} "
            f"| {row['down_bits_per_entry']:.2f} |"
        )
    lines += [
        "", "| figure | from | to | accuracy, points | fewer bits up | down | as good? |",
        "| --- " * 7 + "|",
    ]  # fmt: skip
    for row in compared.to_dict("records"):
        lines.append(
            f"| {row['figure']} | {METHODS[row['without']].title} | {METHODS[row['with']].title} "
            f"| {row['points']:+.2f} | ×{row['up_saving']:.2f} | ×{row['down_saving']:.2f} "
            f"| {'yes' if row['holds'] else 'no'} |"
        )
    return "\n".join(lines) + "\n"


def figure(task: str, results: Results) -> Figure:
    """A column a figure of the paper: training loss above, held-out accuracy below."""
    drawn = Figure(figsize=(4.2 * len(PANELS), 6), layout="constrained")
    panels = drawn.subplots(2, len(PANELS), sharex=True, sharey="row")
    for (title, names), (top, bottom) in zip(PANELS.items(), panels.T, strict=True):
        for name in names:
            _lines(top, bottom, name, results.rounds)
        top.set_title(title, fontsize=10)
        bottom.set_xlabel("iterations (a round each)")
        bottom.legend(fontsize=8, loc="lower right")
        for axes in (top, bottom):
            axes.grid(alpha=0.25)
    panels[0, 0].set_ylabel(f"training loss (mean of {SMOOTH} rounds)")
    panels[1, 0].set_ylabel("held-out accuracy (%)")
    drawn.suptitle(f"{task}: mean over seeds; dashed: with C_nat", fontsize=10, x=0.02, ha="left")
    return drawn


def _lines(top: Axes, bottom: Axes, name: str, rounds: pd.DataFrame) -> None:
    colour, line = STYLES[name]
    mine = rounds[rounds["run"].str.rpartition("-seed")[0] == name]
    means = mine.groupby("iteration")[["train_loss", "metric"]].mean()
    loss = means["train_loss"].rolling(SMOOTH, min_periods=1).mean()
    top.plot(loss.index, loss, color=colour, ls=line, lw=1.2)
    scored = means["metric"].dropna()
    bottom.plot(
        scored.index, 100 * scored, color=colour, ls=line, lw=1.4, marker=".",
        label=METHODS[name].title,
    )  # fmt: skip
