"""The benchmark of the kernels for a GPU: what it runs and refuses, not how fast anything is."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from tests.support.gpu import DEVICE, needs_triton, taken

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The script as a module."""
    with patch.object(sys, "path", [*sys.path, str(BENCHMARKS)]):
        yield importlib.import_module("gpu")
    sys.modules.pop("gpu")


@needs_triton
def test_every_work_is_timed_and_printed(bench: Any) -> None:
    shapes = {"w": (5, 40), "b": (7,)}
    with taken():
        text = bench.report(DEVICE, [300], 1, shapes)
    rows = text.splitlines()[4:]
    assert len(rows) == 6
    assert all(row.count("|") == 10 for row in rows)
    assert "| 300 entries, exact top-k, p = 0.01 |" in text
    assert "| 2 tensors, 207 entries, sbc(0.01): to bytes |" in text


@needs_triton
def test_a_selection_that_differs_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any, layout: Any, k: Any, sides: int) -> Any:
        found = bench_largest(x, layout, k, sides)
        found.positions[0] = found.positions[-1]
        return found

    bench_largest = bench.largest
    monkeypatch.setattr(bench, "largest", wrong)
    with pytest.raises(SystemExit, match="differs from torch.topk"):
        bench.agree(torch.arange(500.0, device=DEVICE))


def test_without_a_gpu_it_says_so(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    bench.main(["--all"])
    assert capsys.readouterr().out.startswith("There is no GPU here")


def test_the_update_of_resnet50(bench: Any) -> None:
    pytest.importorskip("torchvision")
    shapes = bench.resnet50()
    assert len(shapes) == 161
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 25_557_032
