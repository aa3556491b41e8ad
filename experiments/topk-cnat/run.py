"""Tables 2 and 3 of Horváth et al. 2022: top-k with and without C_nat, and other compressors.

    python -m fedsim experiment topk-cnat --scale short
"""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from fedsim import RunConfig
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.shown import chosen, run_shown
from fedsim.sweeps import Cell

MASKING = {"topk": "off"}  # SBC's habit, not this paper's; the other methods leave no entry out
SMOKE = ["topk-0.39", "topk-cnat-0.39", "sign", "powersgd-2"]
SCALES = {
    "smoke": ("digits", 3, 8, 1),
    "short": ("fashion_lenet5", 600, 32, 2),
    "paper": ("fashion_lenet5", 2000, 128, 3),
}
"""Task, local iterations, batch size, seeds; the paper's own task is ResNet-18 on CIFAR-10."""


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


def cells(names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run a method and seed."""
    task, iterations, batch_size, seeds = SCALES[scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task=task, method=ROWS[name].method, temporal=1, seed=seed, data=data,
                iterations=iterations, batch_size=batch_size, evaluate_every=-(-iterations // 10),
                momentum_masking=MASKING.get(name.partition("-")[0], "auto"),
            ),
        )
        for name in names
        for seed in range(seeds)
    ]  # fmt: skip


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the methods in ``only`` (default: all); 1 if a run failed."""
    names = chosen(only, ROWS, default=SMOKE if scale == "smoke" else None)
    found = cells(names, scale, data)
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    frame = collect(results.runs)
    frame.to_csv(out / "tables.csv", index=False)
    text = markdown(frame)
    write_text(out / "tables.md", text)
    save(figure(frame, SCALES[scale][0]), out / "tables.png")
    print(text)
    return 0


def collect(runs: pd.DataFrame) -> pd.DataFrame:
    """A row a method: accuracy over seeds, and volume relative to dense float32, in per cent."""
    rows = []
    for name, row in ROWS.items():
        mine = runs[[str(cell).rpartition("-seed")[0] == name for cell in runs.index]]
        if mine.empty:
            continue
        rows.append(
            {
                "name": name,
                "title": row.title,
                "method": mine["method"].iloc[0],
                "seeds": len(mine),
                "accuracy_percent": 100 * mine["metric"].mean(),
                "accuracy_spread": 100 * mine["metric"].std(ddof=0),
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
    lines = []
    for number, rows in ((2, TABLE2), (3, TABLE3)):
        lines += [
            f"Table {number}", "",
            "| method | wire volume | accuracy | paper: volume | paper: accuracy |",
            "| --- " * 5 + "|",
        ]  # fmt: skip
        for row in rows:
            for mine in frame[frame["name"] == row.name].to_dict("records"):
                lines.append(
                    f"| {row.title} | {mine['wire_percent']:.3g} % | "
                    f"{mine['accuracy_percent']:.2f} ± {mine['accuracy_spread']:.2f} | "
                    f"{row.volume:g} % | {row.accuracy:.2f} ± {row.spread:.2f} |"
                )
        lines.append("")
    return "\n".join(lines)


def figure(frame: pd.DataFrame, task: str) -> Figure:
    """Accuracy over volume, ours and the paper's, one marker a family of methods."""
    drawn = Figure(figsize=(9, 3.8), layout="constrained")
    ours, theirs = drawn.subplots(1, 2)
    families = (("topk-cnat", "top-k, C_nat", "o"), ("topk-", "top-k", "s"), ("", "others", "^"))
    columns = (
        (ours, "wire_percent", "accuracy_percent", "accuracy_spread"),
        (theirs, "paper_volume_percent", "paper_accuracy_percent", "paper_accuracy_spread"),
    )
    for axes, volume, accuracy, spread in columns:
        left = frame
        for prefix, label, marker in families:
            mine = left[left["name"].str.startswith(prefix)]
            left = left.drop(mine.index)
            axes.errorbar(
                mine[volume], mine[accuracy], mine[spread], marker=marker, linestyle="",
                label=label, capsize=2,
            )  # fmt: skip
            if not prefix:
                for one in mine.to_dict("records"):
                    axes.annotate(
                        one["title"], (one[volume], one[accuracy]), fontsize=7,
                        textcoords="offset points", xytext=(4, -9),
                    )  # fmt: skip
        axes.set(xscale="log", xlabel="upstream volume (% of dense float32)", ylabel="accuracy (%)")
    ours.set_title(f"here: {task}", fontsize=10)
    theirs.set_title("paper: CIFAR-10, ResNet-18", fontsize=10)
    ours.legend(fontsize="small")
    return drawn
