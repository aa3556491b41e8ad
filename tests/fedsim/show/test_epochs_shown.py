"""A sweep over local epochs: its cells, its tables and its page call the delay E."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, SweepConfig, load, run, sweep
from fedsim.results.labels import VARIANT
from fedsim.show.curves import curve_lines
from fedsim.show.planes import planes
from fedsim.show.style import cell_label
from fedsim.show.tables import summary_texts


@pytest.mark.slow
def test_a_sweep_over_local_epochs(make_task: Any, tmp_path: Path) -> None:
    task = make_task(partition="linear")
    grid = SweepConfig.of(
        task=task,
        method="topk({p}) | float32 | golomb",
        rounds=2,
        local_epochs=[1, 3],
        gradient=[0.5, 0.1],
        evaluate_every=1,
        seeds=2,
    )
    sweep(grid, tmp_path / "sweep", progress=False)
    results = load(tmp_path / "sweep")
    assert VARIANT not in results.runs.columns
    assert results.runs["local_epochs"].tolist() == results.runs["temporal"].tolist()
    (plane,) = planes(results.runs).values()
    assert (plane.temporals, plane.symbol) == ((1, 3), "E") and plane.done.min() == 2
    assert summary_texts(results.runs)[0][0] == "E"
    labels = {cell_label(line.cell) for line in curve_lines(results.rounds, "iteration", "metric")}
    assert labels == {
        "E = 1, p = 1 (dense)",
        *(f"E = {e}, p = {p}" for e in (1, 3) for p in ("0.5", "0.1")),
    }
    page = (tmp_path / "sweep" / "report.html").read_text(encoding="utf-8")
    body = page[page.index("<body>") :]
    assert "local epochs per round E" in body and "communication delay" not in body
    assert "E = 3" in body and "n = 3" not in body and "n = 1" not in body


def test_epochs_beside_iterations_are_told_apart(make_task: Any, tmp_path: Path) -> None:
    """Cells of n = 1 and of E = 1: the epochs are a setting in which they differ, and n is n."""
    task, names = make_task(partition="linear"), {"n": {"temporal": 1}, "e": {"local_epochs": 1}}
    for name, how in names.items():
        run(RunConfig.of(task=task, method="raw", rounds=2, **how), tmp_path / name, progress=False)
    runs = load(*(tmp_path / name for name in names)).runs
    assert set(runs[VARIANT]) == {"", "local_epochs = 1"}
    assert summary_texts(runs)[0][0] != "E" and len({*runs["label"]}) == 2
