"""Tables 2 and 3 of Horváth et al. 2022: top-k with and without C_nat, and other compressors.

    python -m fedsim experiment topk-cnat --scale short --data DIR

``--only`` takes tasks, rows or both; the results of a task are in a folder of its name.
"""

import sys
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))  # the modules beside this file
from run_curves import learning
from task_lengths import DEAR, Length, split_only
from topk_rows import FITTED, ROWS
from topk_tables import collect, figure, markdown, matched

from fedsim.files import write_text
from fedsim.plot import save
from fedsim.runs.launch import run_shown
from fedsim.runs.sweep import Cell

MASKING = {"topk": "off"}  # SBC's habit, not this paper's; the other methods leave no entry out
SMOKE = ["topk-0.39", "topk-cnat-0.39", "sign", "powersgd-2"]
TASKS = {
    "digits": {"smoke": Length(3, 8, 1)},
    "fashion_lenet5": {"short": Length(600, 32, 2), "paper": Length(2000, 128, 3)},
    **DEAR,
}  # fmt: skip
"""A row a task and scale; the paper's own task is ResNet-18 on CIFAR-10."""


def cells(task: str, names: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run a method and seed."""
    size, found = TASKS[task][scale], []
    for name in names:
        method = FITTED.get((task, name), ROWS[name].method)
        masking = MASKING.get(name.partition("-")[0], "auto")
        for seed in range(size.seeds):
            config = size.config(task, method, seed, data, masking)
            found.append(Cell(f"{name}-seed{seed}", config))
    return found


def main(scale: str, only: list[str] | None, out: Path, jobs: int, data: str | None) -> int:
    """Runs the tasks and rows in ``only`` (default: all; smoke: digits); 1 if a run failed."""
    smoke = scale == "smoke"
    known = [name for name, sizes in TASKS.items() if scale in sizes]
    tasks, names = split_only(only, known, ROWS)
    tasks = tasks or known[: 1 if smoke else None]
    names = names or (SMOKE if smoke else list(ROWS))
    return max(_task(t, cells(t, names, scale, data), out / t, jobs) for t in tasks)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, a task each, from its scores and volumes in ``results``."""
    named = [name for name, sizes in TASKS.items() if "short" in sizes]
    frames = {name: pd.read_csv(results / name / "tables.csv") for name in named}
    return {name: markdown(matched(frame)) for name, frame in frames.items()}


def _task(task: str, found: list[Cell], out: Path, jobs: int) -> int:
    results = run_shown(found, out, jobs)
    if results is None:
        return 1
    frame = collect(results.runs)
    frame.to_csv(out / "tables.csv", index=False)
    curves = learning(results).to_csv(index=False, float_format="%.6g")
    write_text(out / "curves.csv", curves)
    text = f"{task}: {results.runs['data_source'].iloc[0]}\n\n{markdown(frame)}"
    write_text(out / "tables.md", text)
    save(figure(task, frame), out / "tables.png")
    print(text)
    return 0
