"""Table II of Sattler et al. 2018: final metric and compression ratio of six methods.

    python -m fedsim experiment sbc-table2 --only mnist_lenet5 --data DIR
"""

from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from fedsim import RunConfig, UsageError
from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results import Results
from fedsim.shown import run_shown
from fedsim.sweeps import Cell


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

_LENET5 = {
    "baseline": (0.9946, 1), "dropping": (0.994, 634), "fedavg": (0.994, 500),
    "sbc1": (0.994, 2071), "sbc2": (0.994, 3491), "sbc3": (0.991, 24935),
}  # fmt: skip
PAPER = {"mnist_lenet5": _LENET5, "mnist_lenet5_caffe": _LENET5}
"""Final metric and compression ratio as printed. The Caffe row is the example to the letter."""

SMOKE = {"iterations": 20, "batch_size": 16, "evaluate_every": 10}


def cells(task: str, scale: str, data: str | None) -> dict[str, Cell]:
    """The six runs of one row; ``smoke`` shortens them and their delays to fit."""
    found = {}
    for column in COLUMNS:
        delay = min(column.temporal, SMOKE["iterations"]) if scale == "smoke" else column.temporal
        config = RunConfig(
            task=task, method=column.method, temporal=delay, gradient=column.gradient, data=data
        )
        if scale == "smoke":
            config = replace(config, **SMOKE)
        found[column.name] = Cell(column.name, config)
    return found


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the rows in ``only`` (default: all); 1 if a run failed."""
    rows = only or list(PAPER)
    for row in rows:
        if row not in PAPER:
            raise UsageError(f"--only is {row!r}: rows are {', '.join(PAPER)}")
    return max(_row(row, scale, out / row, jobs, data) for row in rows)


def _row(task: str, scale: str, out: Path, jobs: int, data: str | None) -> int:
    found = cells(task, scale, data)
    results = run_shown(list(found.values()), out, jobs)
    if results is None:
        return 1
    text = compare(task, results)
    write_text(out / "table2.md", text)
    save(figure(results), out / "table2.png")
    print(text)
    return 0


def figure(results: Results) -> Figure:
    """Accuracy over local iterations, and error over a client's upstream bits (log-log)."""
    drawn = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for column in COLUMNS:
        rows = results.rounds.query("run == @column.name")
        bits = (rows["up_content_bits"] / rows["clients"]).cumsum()
        scored = rows["metric"].notna()
        left.plot(rows["iteration"][scored], rows["metric"][scored], label=column.title)
        right.loglog(bits[scored], 1 - rows["metric"][scored], marker=".", label=column.title)
    left.set(xlabel="local iterations", ylabel="accuracy on held-out samples")
    right.set(xlabel="upstream payload per client so far (bit)", ylabel="error (1 - accuracy)")
    left.set_ylim(0.95, 1)
    left.legend(fontsize="small")
    return drawn


def compare(task: str, results: Results) -> str:
    """Ours beside the paper's numbers, as markdown."""
    lines = [
        "| method | n | p | ours | best on the way | paper | content ratio | wire ratio | paper |",
        "| --- " * 9 + "|",
    ]
    for column in COLUMNS:
        run = results.runs.loc[column.name]
        best = results.rounds.query("run == @column.name")["metric"].max()
        metric, ratio = PAPER[task][column.name]
        lines.append(
            f"| {column.title} | {run.temporal} | {run.gradient:g} | {run.metric:.4f} | {best:.4f} "
            f"| {metric:g} | ×{run.ratio_content:.1f} | ×{run.ratio_wire:.1f} | ×{ratio} |"
        )
    return "\n".join(lines) + "\n"
