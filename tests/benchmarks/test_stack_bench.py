"""The benchmark of stacks: what it compares and prints, not how fast anything is."""

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fedsim import TASKS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The script as a module, with two of its models; the tasks are as before afterwards."""
    known = set(TASKS)
    with patch.object(sys, "path", [*sys.path, str(BENCHMARKS)]):
        module = importlib.import_module("stack")
    monkeypatch.setattr(module, "MODELS", (module.MODELS[0], module.MODELS[5]))
    yield module
    sys.modules.pop("stack")
    for name in set(TASKS) - known:
        del TASKS[name]


def test_every_model_has_a_row(bench: Any, tmp_path: Path) -> None:
    bench.main(["--clients", "2", "3", "--repeats", "1", "--out", str(tmp_path / "table.md")])
    lines = (tmp_path / "table.md").read_text(encoding="utf-8").splitlines()
    assert [line.split(" | ")[0] for line in lines[4:]] == ["| logistic regression", "| digits CNN"]
    assert lines[2].count("|") == lines[4].count("|") == 5


def test_updates_that_differ_are_not_timed(bench: Any) -> None:
    trainer, stack, jobs = bench.made(bench.MODELS[0], 2, "cpu")
    updates = stack.train(jobs)
    wrong = [replace(x, update={n: 2 * u for n, u in x.update.items()}) for x in updates]
    with pytest.raises(SystemExit, match="differs by more than a hundredth"):
        bench.agree(wrong, updates)


@pytest.mark.parametrize("wrong", [["--clients", "1"], ["--repeats", "0"]])
def test_what_it_takes(bench: Any, wrong: list[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(wrong)
