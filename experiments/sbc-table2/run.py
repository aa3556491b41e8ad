"""Table II of Sattler et al. 2018: final metric and compression ratio of six methods.

    python -m fedsim experiment sbc-table2 --only mnist_lenet5 --data DIR
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parent))  # the figure stands in a file beside this one
from table2_figure import figure

from fedsim import RunConfig
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results import Results
from fedsim.shown import chosen, run_shown
from fedsim.sweeps import Cell
from fedsim.tasks import get_task


@dataclass(frozen=True)
class Column:
    """One method of the table: its point on the plane."""

    name: str
    title: str
    method: str
    temporal: int
    gradient: float | None = None


COLUMNS = (
    Column("baseline", "Baseline", "raw", 1),
    Column("dropping", "Gradient dropping", "gradient_dropping", 1, 0.001),
    Column("fedavg", "Federated averaging", "raw", 500),
    Column("sbc1", "SBC (1)", "sbc", 1, 0.001),
    Column("sbc2", "SBC (2)", "sbc", 10, 0.01),
    Column("sbc3", "SBC (3)", "sbc", 100, 0.01),
)

_SPARED = "by_name('size<1000', sbc(0.3), '*', sbc({p}))"
BESIDE = {
    "char_lstm": (
        Column("sbc2_spared", "SBC (2), biases 30 %", _SPARED, 10, 0.01),
        Column("sbc3_spared", "SBC (3), biases 30 %", _SPARED, 100, 0.01),
    )
}
"""Not in the paper: 30 % of the few biases, where a hundredth of them holds learning up."""

_LENET5 = {
    "baseline": (0.9946, 1), "dropping": (0.994, 634), "fedavg": (0.994, 500),
    "sbc1": (0.994, 2071), "sbc2": (0.994, 3491), "sbc3": (0.991, 24935),
}  # fmt: skip
_RESNET32 = {
    "baseline": (0.926, 1), "dropping": (0.927, 604), "fedavg": (0.919, 1000),
    "sbc1": (0.923, 1530), "sbc2": (0.919, 3430), "sbc3": (0.922, 32300),
}  # fmt: skip
_CHAR = {
    "baseline": (3.635, 1), "dropping": (3.639, 660), "fedavg": (3.904, 1000),
    "sbc1": (3.671, 2572), "sbc2": (3.782, 3958), "sbc3": (4.072, 35201),
}  # fmt: skip
_RESNET50 = {
    "baseline": (0.737, 1), "dropping": (0.739, 601), "fedavg": (0.724, 1000),
    "sbc1": (0.735, 2569), "sbc2": (0.737, 3531), "sbc3": (0.728, 37208),
}  # fmt: skip
_WORD = {
    "baseline": (89.16, 1), "dropping": (89.39, 665), "fedavg": (88.59, 1000),
    "sbc1": (89.32, 2521), "sbc2": (88.47, 3460), "sbc3": (89.31, 34905),
}  # fmt: skip
PAPER = {
    "mnist_lenet5": _LENET5, "mnist_lenet5_caffe": _LENET5,
    "cifar_resnet32": _RESNET32, "char_lstm": _CHAR,
    "imagenet_resnet50": _RESNET50, "word_lstm": _WORD,
}  # fmt: skip
"""Final metric and compression ratio as printed. The Caffe row is the example to the letter."""

LONG = ("imagenet_resnet50", "word_lstm")
"""Rows for a GPU, at the published length only: a processor gets nowhere near it."""

SMOKE_TASK = "digits"
"""What ``smoke`` trains where ``--only`` names no row: it needs no data. The paper has it not."""
SMOKE = {
    "iterations": 8, "batch_size": 8, "clients": 2, "evaluate_every": 2, "test_samples": 100,
}  # fmt: skip
SHORT = {
    "cifar_resnet32": {"iterations": 400, "batch_size": 32, "test_samples": 2000},
    "char_lstm": {"iterations": 2000},
}
"""Rows that take a GPU, or hours, at the published length; the others have it at this scale too."""


def columns(task: str) -> tuple[Column, ...]:
    """The table's six methods, and what stands beside them in the row ``task``."""
    return COLUMNS + BESIDE.get(task, ())


def cells(task: str, scale: str, data: str | None) -> dict[str, Cell]:
    """The runs of one row; a shorter budget shortens delays too."""
    changed = SMOKE if scale == "smoke" else SHORT.get(task, {}) if scale == "short" else {}
    found = {}
    for column in columns(task):
        published = column.temporal
        if column.name == "fedavg" and task in PAPER:
            published = PAPER[task]["fedavg"][1]
        delay = published
        if "iterations" in changed:  # a quarter of the budget at most, so that clients do average
            delay = min(published, max(1, changed["iterations"] // 4))
        config = RunConfig(
            task=task, method=column.method, temporal=delay, gradient=column.gradient, data=data,
            device="cuda" if scale == "paper" and torch.cuda.is_available() else "cpu",
        )  # fmt: skip
        found[column.name] = Cell(column.name, replace(config, **changed))
    return found


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the rows in ``only`` (default: all of the scale; smoke: digits); 1 if a run failed."""
    known = [row for row in PAPER if scale == "paper" or row not in LONG]
    default = [SMOKE_TASK] if scale == "smoke" else None
    rows = chosen(only, known, f"rows of --scale {scale}", default)
    return max(_row(row, scale, out / row, jobs, data) for row in rows)


def _row(task: str, scale: str, out: Path, jobs: int, data: str | None) -> int:
    found = cells(task, scale, data)
    results = run_shown(list(found.values()), out, jobs)
    if results is None:
        return 1
    text = compare(task, results)
    lines = curves(task, results)
    write_text(out / "curves.csv", lines.to_csv(index=False, float_format="%.6g"))
    write_text(out / "table2.md", text)
    save(figure(task, lines), out / "table2.png")
    print(text)
    return 0


def curves(task: str, results: Results) -> pd.DataFrame:
    """A row an evaluation: metric and the payload that a client had sent, by method."""
    tables = []
    for column in columns(task):
        rows = results.rounds[results.rounds["run"] == column.name]
        table = pd.DataFrame(
            {
                "method": column.title, "temporal": column.temporal, "gradient": column.gradient,
                "iteration": rows["iteration"], "metric": rows["metric"],
                "up_bits": (rows["up_content_bits"] / rows["clients"]).cumsum(),
            }
        )  # fmt: skip
        tables.append(table.dropna(subset="metric"))
    return pd.concat(tables)


def compare(task: str, results: Results) -> str:
    """Ours beside the paper's numbers, as markdown."""
    lines = [
        "| method | n | p | ours | best on the way | paper | content ratio | wire ratio | paper |",
        "| --- " * 9 + "|",
    ]
    for column in columns(task):
        run = results.runs.loc[column.name]
        scores = results.rounds.query("run == @column.name")["metric"]
        best = scores.max() if get_task(task).higher_is_better else scores.min()
        metric, ratio = _printed(task, column.name)
        lines.append(
            f"| {column.title} | {run.temporal} | {run.gradient:g} | {run.metric:.4f} | {best:.4f} "
            f"| {metric} | ×{run.ratio_content:.1f} | ×{run.ratio_wire:.1f} | {ratio} |"
        )
    return "\n".join(lines) + "\n"


def _printed(task: str, name: str) -> tuple[str, str]:
    """The paper's metric and ratio; dashes for what it has not."""
    if name not in PAPER.get(task, {}):
        return "–", "–"
    metric, ratio = PAPER[task][name]
    return f"{metric:g}", f"×{ratio}"
