"""The benchmark of training on a GPU: what it compares and prints, not how fast anything is."""

from typing import Any

import pytest
import torch

from fedsim import TASKS
from fedsim.tasks.tasklist import LISTED
from tests.support.tape import TapeRecorder

SCRIPT = "gpu_training"


def test_bits_are_compared_task_by_task(bench: Any) -> None:
    """A tape repeats no reading of Adam's count, as a graph would not on a CPU."""
    names = ["digits", "mnist_2nn", "mnist_lenet5"]
    lines = bench.equal_bits("cpu", TapeRecorder(), 2, names)
    assert lines[2:4] == [f"| {name} | equal bits |" for name in names[:2]]
    assert "| no: the update of" in lines[4]


def test_random_samples_have_the_shape_of_every_task(bench: Any) -> None:
    for name in {*LISTED} - {"digits"}:
        data = bench.of_random_data(TASKS[name], 2).load(None, False)
        assert data.train_count == 16


@pytest.mark.slow
def test_every_row_is_measured(bench: Any) -> None:
    case = bench.Case("LeNet5", bench.LeNet5, 28, 1, 2, steps=2, batch=4)
    wide = {"augmented": bench.Case("net", bench.grouped_resnet20, 32, 3, 2, 2, 4, augmented=True)}
    cases = {"small": (case, 1e9)} | {k: (c, 0) for k, c in wide.items()}
    so_far = list[int]()
    lines, goals = bench.rounds(
        "cpu", 1, cases, written=lambda lines, goals: so_far.append(len(goals))
    )
    assert so_far == [2, 4]
    rows = {line.split(" | ")[0].strip("| "): line for line in lines}
    assert {"a loop in PyTorch", "`torch.func.vmap`", "fedsim, `sbc(0.01)`"} <= rows.keys()
    assert rows["fedsim, training alone, together"].count(".") == 2  # milliseconds of both
    assert [goal.line().endswith("| yes |") for goal in goals[::2]] == [True, False]


def test_without_a_gpu_it_says_so(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main([]) == 1
    assert capsys.readouterr().out.startswith("There is no GPU here")
