"""Fig. 5, 7, 13 to 15, 19 and 20 of Horváth et al. 2022: training with and without C_nat.

    python -m fedsim experiment cnat-convergence --data DIR
"""

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this file
from convergence_figure import figure
from convergence_rows import METHODS, PAIRS, PANELS, TASKS, cells

from fedsim.files import write_text
from fedsim.plot import save
from fedsim.results.load import Results
from fedsim.runs.launch import chosen, run_shown
from fedsim.runs.sweep import Cell

__all__ = ["METHODS", "PAIRS", "PANELS", "collect", "compare", "curves", "main", "markdown"]

POINTS = 1.0
"""Percentage points of accuracy within which two methods count as equal."""

SMOOTH = 10
"""Rounds over which training losses are averaged."""


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks in ``only`` (default: all of the scale; smoke: digits); 1 if one failed."""
    known = {name: found for name in TASKS if (found := cells(name, scale, data))}
    default = ["digits"] if scale == "smoke" else None
    names = chosen(only, known, f"tasks of --scale {scale}", default)
    return max(_task(name, known[name], out / name, jobs) for name in names)


def _task(task: str, found: list[Cell], out: Path, jobs: int) -> int:
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    frame, lines = collect(results), curves(results)
    compared = compare(frame)
    for name, table in (("methods", frame), ("pairs", compared), ("curves", lines)):
        write_text(out / f"{name}.csv", table.to_csv(index=False, float_format="%.6g"))
    text = f"{task}: {results.runs['data_source'].iloc[0]}\n\n{markdown(frame, compared)}"
    write_text(out / "tables.md", text)
    save(figure(task, lines), out / "convergence.png")
    print(text)
    return 0


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its means over seeds in ``results``."""
    frames = {name: pd.read_csv(results / name / "methods.csv") for name in TASKS}
    return {name: markdown(frame, compare(frame)) for name, frame in frames.items()}


def _of(name: str, runs: pd.Index | pd.Series) -> list[bool]:
    """Which of the runs, called ``METHOD-seedN``, are of the method ``name``."""
    return [str(run).rpartition("-seed")[0] == name for run in runs]


def collect(results: Results) -> pd.DataFrame:
    """A row a method: means over seeds; bits are whole messages an entry and round.

    ``loss_above_none``: how much more the training loss is than that of no compression, on the
    same batches, as a mean over all rounds.
    """
    plain = results.rounds[_of("none", results.rounds["run"])]["train_loss"].mean()
    rows = []
    for name, one in METHODS.items():
        mine = results.runs[_of(name, results.runs.index)]
        if mine.empty:
            continue
        sent = mine["parameters"] * mine["rounds"]
        rounds = results.rounds[results.rounds["run"].isin(mine.index)]
        ends = rounds["round"] > rounds["round"].max() - SMOOTH
        rows.append(
            {
                "name": name, "title": one.title, "method": one.method, "seeds": len(mine),
                "accuracy_percent": 100 * mine["metric"].mean(),
                "accuracy_spread": 100 * mine["metric"].std(ddof=1),
                "train_loss": rounds.loc[ends, "train_loss"].mean(),
                "loss_above_none": rounds["train_loss"].mean() - plain,
                "up_bits_per_entry": (mine["up_wire_bits"] / sent).mean(),
                # The model of the last round needs no way down.
                "down_bits_per_entry": (
                    mine["down_wire_bits"] / mine["parameters"] / (mine["rounds"] - 1)
                ).mean(),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def curves(results: Results) -> pd.DataFrame:
    """A row a method and ten rounds, means over seeds: mean training loss, accuracy at the end.

    ``accuracy_percent`` is empty where there was no evaluation.
    """
    tables = []
    for name in METHODS:
        mine = results.rounds[_of(name, results.rounds["run"])]
        if mine.empty:
            continue
        blocks = mine.groupby((mine["round"] - 1) // SMOOTH)
        table = blocks.agg(iteration=("iteration", "max"), train_loss=("train_loss", "mean"))
        table["accuracy_percent"] = 100 * blocks["metric"].mean()  # over what is not empty
        table.insert(0, "name", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def compare(frame: pd.DataFrame) -> pd.DataFrame:
    """A row a pair: how many points the second loses, and how many times fewer bits it sends."""
    by = frame.set_index("name")
    rows = []
    for pair in PAIRS:
        if not {pair.plain, pair.other} <= {*by.index}:
            continue
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
        "| method | accuracy | training loss at the end | above none's, mean of all rounds "
        "| bits an entry, up | down |",
        "| --- " * 6 + "|",
    ]
    for row in frame.to_dict("records"):
        spread = f" ± {row['accuracy_spread']:.2f}" if row["seeds"] > 1 else ""
        lines.append(
            f"| {row['title']} | {row['accuracy_percent']:.2f}{spread} "
            f"| {row['train_loss']:.3f} | {row['loss_above_none']:+.4f} "
            f"| {row['up_bits_per_entry']:.2f} | {row['down_bits_per_entry']:.2f} |"
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
