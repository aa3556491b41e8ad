"""The benchmark of the kernels for a GPU: what it runs and refuses, not how fast anything is."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support.gpu import DEVICE, needs_triton, taken

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


SCRIPT = "gpu"


@pytest.mark.slow
@needs_triton
def test_every_work_is_timed_and_printed(bench: Any) -> None:
    shapes = {"w": (5, 40), "b": (7,)}
    with taken():
        text, goals = bench.report(DEVICE, [300], 1, shapes, bench.Steps())
    assert "Ten messages:" in text and "aten::" in text
    rows = text.splitlines()[4:11]
    assert all(row.count("|") == 10 for row in rows)
    assert "| 300 entries, exact top-k, p = 0.01 |" in text
    assert "| 2 tensors, 207 entries, sbc(0.01): to bytes |" in text
    asked = [target.what for target in goals]
    assert len(asked) == 4 and "300 entries: cnat to packed 9 bits against a copy" in asked
    table = bench.targets(goals)
    assert all(
        row.count("|") == 5 and row.split(" | ")[-1] in ("yes |", "no |") for row in table[2:]
    )


@pytest.fixture
def messages(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", [*sys.path, str(BENCHMARKS)])
    yield importlib.import_module("gpu_messages")
    sys.modules.pop("gpu_messages", None)


@pytest.mark.slow
@needs_triton
def test_every_row_about_messages_is_there(
    messages: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "CLIENTS", 2)
    monkeypatch.setattr(messages, "LENET5", {"w": (3, 4)})
    monkeypatch.setattr(messages, "ENCODED", {"sbc(0.01)": 0.8, "raw": 15.0})
    with taken():
        steps, shapes = bench.Steps(), {"w": (5, 40), "b": (7,)}
        so_far = list[int]()
        rows, goals = messages.run(
            DEVICE, 1, steps, lambda lines, goals: so_far.append(len(goals)), {300: 0.1}, shapes
        )
    assert not steps.failed and so_far == [3, 4, 5]
    assert sum(row.startswith("| 2 tensors, `") for row in rows) == 4
    assert any(goal.line().startswith("| 300 entries: exact top-k | at most") for goal in goals)


def test_messages_without_a_gpu(messages: Any, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert messages.main([]) == 1
    assert "Nothing was run" in capsys.readouterr().out


@needs_triton
def test_what_is_timed_as_cnat_is_cnat(bench: Any) -> None:
    x = torch.randn(300, device=DEVICE)
    words = bench.packed_cnat(x)()
    bits = np.unpackbits(words.cpu().numpy().view(np.uint8))[: 9 * 300]
    assert bits[:300].tolist() == (x < 0).cpu().tolist()
    exponents = bits[300:].reshape(300, 8) @ (1 << np.arange(7, -1, -1))
    powers = x.abs().log2().cpu().numpy()
    assert (abs(exponents - 127 - powers) <= 1).all()  # the power below or above


@needs_triton
def test_a_selection_that_differs_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any, layout: Any, k: Any, sides: int) -> Any:
        places = bench_largest(x, layout, k, sides)
        places.positions[0] = places.positions[-1]
        return places

    bench_largest = bench.largest_of_segments
    monkeypatch.setattr(bench, "largest_of_segments", wrong)
    with pytest.raises(SystemExit, match="differs from torch.topk"):
        bench.agree(torch.arange(500.0, device=DEVICE))


def test_tables_are_written_as_they_come(bench: Any, tmp_path: Path) -> None:
    """The device may be taken away at any time."""
    steps, file = bench.Steps(), tmp_path / "gpu.md"
    page, goal = bench.Page("H200", steps, file), bench.Target("a round", 3.0, 2.0, "ms")
    page.put("Rounds", ["| 1 |"], [])
    page.put("Rounds", ["| 1 | 2 |"], [goal])
    assert file.read_text(encoding="utf-8").splitlines() == [
        *("H200", "", *bench.targets([goal])),
        *("", "Rounds:", "", "| 1 | 2 |"),
    ]
    steps.do("late", lambda: 1 / 0)
    page.put("Messages", ["| 3 |"], [])
    assert file.read_text(encoding="utf-8").endswith("| 3 |\n\n1 steps failed: late\n")


def test_without_a_gpu_it_says_so(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main(["--all"]) == 1
    assert capsys.readouterr().out.startswith("There is no GPU here")


def test_the_page_has_the_goals_as_they_were_measured() -> None:
    root, names = Path(__file__).parents[2], ("docs/gpu.md", "benchmarks/gpu_h200.md")
    page, tables = ((root / name).read_text(encoding="utf-8") for name in names)
    rows = [line for line in tables.splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(rows) == 7 and "\n".join(rows) in page
