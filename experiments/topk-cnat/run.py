"""Tables 2 and 3 of Horváth et al. 2022: top-k with and without C_nat, and other compressors.

    python -m fedsim experiment topk-cnat --scale short --data DIR

``--only`` takes tasks, rows or both; the results of a task are in a folder of its name.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))  # the module beside this file
from task_lengths import DEAR, Length, split_only

from fedsim.files import write_text
from fedsim.plot import save
from fedsim.shown import run_shown
from fedsim.sweeps import Cell
from fedsim.units import FRACTIONS

MASKING = {"topk": "off"}  # SBC's habit, not this paper's; the other methods leave no entry out
SMOKE = ["topk-0.39", "topk-cnat-0.39", "sign", "powersgd-2"]
TASKS = {
    "digits": {"smoke": Length(3, 8, 1)},
    "fashion_lenet5": {"short": Length(600, 32, 2), "paper": Length(2000, 128, 3)},
    **DEAR,
}  # fmt: skip
"""A row a task and scale; the paper's own task is ResNet-18 on CIFAR-10."""

TITLES = {
    "digits": "8x8 digits, small CNN", "fashion_lenet5": "Fashion-MNIST, LeNet5",
    "cifar_resnet20": "CIFAR-10, ResNet-20",
    "char_lstm": "Shakespeare, LSTM",
}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A method of the tables; ``volume`` and ``accuracy`` in per cent, as the paper prints them."""

    name: str
    title: str
    method: str
    volume: float
    accuracy: float
    spread: float


Printed = tuple[float, float, float]
"""Volume, accuracy and its spread, in per cent, as the paper prints them."""


def _topk(k: float, plain: Printed, nat: Printed) -> list[Row]:
    """Top-k of k per cent, without and with natural compression of what is sent."""
    text = f"ef(per_tensor(topk({k / 100:g}) | {{}} | golomb))"
    return [
        Row(f"topk-{k:g}", f"top-k {k:g} %", text.format("float32"), *plain),
        Row(f"topk-cnat-{k:g}", f"top-k {k:g} %, C_nat", text.format("cnat"), *nat),
    ]


TABLE2 = (
    *_topk(0.39, (0.78, 93.72, 0.07), (0.48, 93.93, 0.26)),
    *_topk(1.56, (3.12, 94.21, 0.06), (1.95, 94.47, 0.13)),
    *_topk(6.25, (12.5, 93.93, 0.53), (7.81, 94.13, 0.26)),
)
TABLE3 = (
    Row("sgd", "no compression", "raw", 100, 93.69, 0.32),
    Row("sign", "SignSGD", "sign(0.001)", 3.12, 93.47, 0.29),
    Row("ef-sign", "EF-SignSGD", "ef_sign", 3.12, 93.81, 0.06),
    _topk(2.5, (0, 0, 0), (3.12, 94.28, 0.12))[1],
    Row("powersgd-2", "PowerSGD rank 2", "powersgd(2)", 0.74, 94.26, 0.22),
    _topk(0.6, (0, 0, 0), (0.74, 94.23, 0.01))[1],
    Row("powersgd-7", "PowerSGD rank 7", "powersgd(7)", 2.36, 94.24, 0.09),
    _topk(1.9, (0, 0, 0), (2.36, 94.25, 0.10))[1],
)
ROWS = {row.name: row for row in TABLE2 + TABLE3}


def cells(task: str, names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run a method and seed."""
    size = TASKS[task][scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            size.config(
                task, ROWS[name].method, seed, data, MASKING.get(name.partition("-")[0], "auto")
            ),
        )
        for name in names
        for seed in range(size.seeds)
    ]


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks and rows in ``only`` (default: all; smoke: digits); 1 if a run failed."""
    smoke = scale == "smoke"
    known = [name for name, sizes in TASKS.items() if scale in sizes]
    tasks, names = split_only(only, known, ROWS)
    tasks = tasks or known[: 1 if smoke else None]
    names = names or (SMOKE if smoke else list(ROWS))
    return max(_task(t, cells(t, names, scale, data), out / t, jobs) for t in tasks)


def _task(task: str, found: list[Cell], out: Path, jobs: int) -> int:
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    frame = collect(results.runs)
    frame.to_csv(out / "tables.csv", index=False)
    text = f"{task}: {results.runs['data_source'].iloc[0]}\n\n{markdown(frame)}"
    write_text(out / "tables.md", text)
    save(figure(task, frame), out / "tables.png")
    print(text)
    return 0


def collect(runs: pd.DataFrame) -> pd.DataFrame:
    """A row a method: its score over seeds (accuracy in per cent, or perplexity), and volumes.

    Volumes are in per cent of dense float32, of whole messages (``wire``) and of payloads without
    headers and BatchNorm's statistics (``content``).
    """
    rows = []
    metric = runs["metric_name"].iloc[0]
    scores = runs["metric"] * (100 if metric in FRACTIONS else 1)
    for name, row in ROWS.items():
        chosen = [str(cell).rpartition("-seed")[0] == name for cell in runs.index]
        mine = runs[chosen]
        if mine.empty:
            continue
        rows.append(
            {
                "name": name,
                "title": row.title,
                "method": mine["method"].iloc[0],
                "seeds": len(mine),
                "metric": metric,
                "score": scores[chosen].mean(),
                "score_spread": scores[chosen].std(ddof=0),
                "wire_percent": 100 / mine["ratio_wire"].mean(),
                "content_percent": 100 / mine["ratio_content"].mean(),
                "paper_accuracy_percent": row.accuracy,
                "paper_accuracy_spread": row.spread,
                "paper_volume_percent": row.volume,
            }
        )
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """Both tables, ours beside the paper's."""
    lines, metric = [], frame["metric"].iloc[0]
    for number, rows in ((2, TABLE2), (3, TABLE3)):
        lines += [
            f"Table {number}", "",
            f"| method | wire volume | content | {metric} | paper: volume | paper: accuracy |",
            "| --- " * 6 + "|",
        ]  # fmt: skip
        for row in rows:
            for mine in frame[frame["name"] == row.name].to_dict("records"):
                lines.append(
                    f"| {row.title} | {mine['wire_percent']:.3g} % | "
                    f"{mine['content_percent']:.3g} % | {_score(mine)} | "
                    f"{row.volume:g} % | {row.accuracy:.2f} ± {row.spread:.2f} |"
                )
        lines.append("")
    return "\n".join(lines)


def _score(row: dict) -> str:
    spread = f" ± {row['score_spread']:.2f}" if row["seeds"] > 1 else ""
    return f"{row['score']:.2f}{spread}"


def figure(task: str, frame: pd.DataFrame) -> Figure:
    """The score over volume, ours and the paper's, one marker a family of methods."""
    drawn = Figure(figsize=(9, 3.8), layout="constrained")
    ours, theirs = drawn.subplots(1, 2)
    families = (("topk-cnat", "top-k, C_nat", "o"), ("topk-", "top-k", "s"), ("", "others", "^"))
    columns = (
        (ours, "content_percent", "score", "score_spread"),
        (theirs, "paper_volume_percent", "paper_accuracy_percent", "paper_accuracy_spread"),
    )
    for axes, volume, score, spread in columns:
        left = frame
        for prefix, label, marker in families:
            mine = left[left["name"].str.startswith(prefix)]
            left = left.drop(mine.index)
            axes.errorbar(
                mine[volume], mine[score], mine[spread], marker=marker, linestyle="",
                label=label, capsize=2,
            )  # fmt: skip
            if not prefix:
                for one in mine.to_dict("records"):
                    axes.annotate(
                        one["title"], (one[volume], one[score]), fontsize=7,
                        textcoords="offset points", xytext=(4, -9),
                    )  # fmt: skip
        axes.set(xscale="log", xlabel="upstream volume (% of dense float32)", ylabel="accuracy (%)")
    metric = frame["metric"].iloc[0]
    ours.set_ylabel(f"{metric} (%)" if metric in FRACTIONS else f"{metric} (lower is better)")
    ours.set_title(f"here: {TITLES[task]}", fontsize=10)
    theirs.set_title("paper: CIFAR-10, ResNet-18", fontsize=10)
    ours.legend(fontsize="small")
    return drawn
