"""Runs in stages: what counts as ended, and what the same call tries again."""

from pathlib import Path
from typing import Any

import pytest

from experiments.common import staged
from fedsim import Cell, RunConfig, RunFailed, UsageError

CELL = Cell("one", RunConfig.of(method="raw", task="digits", temporal=1, iterations=1))


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        ("round 3: the weights are not finite", 1),
        ("round 13: client 2: train-loss is inf: it is a finite number", 1),
        ("no space left on device", 2),
    ],
)
def test_a_diverged_run_has_ended_and_another_failure_is_tried_again(
    error: str, tries: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summaries: dict[Path, dict[str, Any]] = {}
    asked: list[str] = []

    def run(cells: list[Cell], folder: Path, **more: Any) -> None:
        asked.extend(cell.name for cell in cells)
        for cell in cells:
            summaries[folder / "cells" / cell.name] = {"status": "failed", "error": error}

    monkeypatch.setattr(staged, "run_cells", run)
    monkeypatch.setattr(staged, "ended", summaries.get)
    runs = staged.Runs(tmp_path, 1)
    for _ in range(2):
        if tries == 1:
            runs.run([CELL, CELL], "trials")
        else:
            with pytest.raises(RunFailed, match=f"one: {error}"):
                runs.run([CELL], "trials")
    assert asked == ["one"] * tries
    if tries == 1:
        assert runs.curve(CELL, "trials").losses == ()


def test_a_run_of_that_name_with_other_settings_is_refused(tmp_path: Path) -> None:
    """And the summary has all runs that are wanted, of earlier calls too."""
    runs = staged.Runs(tmp_path, 1)
    for cells in ([CELL], [CELL, Cell("two", CELL.config.but(seed=1))]):
        runs.run(cells, "trials")
    assert (tmp_path / "trials" / "summary.csv").read_text().count("\n") == 3
    for other in (CELL.config.but(seed=1), CELL.config.but(iterations=2, evaluate_every=2)):
        with pytest.raises(UsageError, match="results of other settings|cannot be extended"):
            runs.run([Cell("one", other)], "trials")
    assert runs.summary(CELL, "trials")["iterations"] == 1
