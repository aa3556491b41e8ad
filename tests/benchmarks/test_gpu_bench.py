"""The benchmark of the kernels for a GPU: what it runs and refuses, not how fast anything is."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from fedsim import TASKS
from tests.support.gpu import DEVICE, needs_triton, taken

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    """The script as a module."""
    with patch.object(sys, "path", [*sys.path, str(BENCHMARKS)]):
        yield importlib.import_module("gpu")
    for name in ("gpu", "gpu_training", "stack", "targets"):
        sys.modules.pop(name, None)


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


@needs_triton
def test_what_is_timed_as_cnat_is_cnat(bench: Any) -> None:
    x = torch.randn(300, device=DEVICE)
    words = bench.packed_cnat(x)()
    bits = np.unpackbits(words.cpu().numpy().view(np.uint8))[: 9 * 300]
    assert bits[:300].tolist() == (x < 0).cpu().tolist()
    exponents = bits[300:].reshape(300, 8) @ (1 << np.arange(7, -1, -1))
    powers = x.abs().log2().cpu().numpy()
    assert (abs(exponents - 127 - powers) <= 1).all()  # the power below or above


@pytest.mark.parametrize(("value", "met"), [(4.9, "no"), (5.0, "yes")])
def test_a_target_that_was_met(bench: Any, value: float, met: str) -> None:
    least = bench.Target("a gain", value, 5.0, least=True).line()
    assert least == f"| a gain | at least 5 times | {value:.3g} times | {met} |"
    most = bench.Target("a time", 10 - value, 5.0, "ms").line()
    assert most.startswith("| a time | at most 5 ms |") and most.endswith(f"| {met} |")


@pytest.mark.slow
def test_what_training_gains_is_measured(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU, with small models in the place of theirs."""
    known = set(TASKS)
    with patch.object(sys, "path", [*sys.path, str(BENCHMARKS)]):
        training = importlib.import_module("gpu_training")
    models = training.stack.MODELS
    monkeypatch.setattr(training, "LENET5", models[0])
    monkeypatch.setattr(training, "RESNET20", models[5])
    spent, goals = training.report("cpu", 1)
    assert spent.startswith("Training was measured in ")
    assert [target.bound for target in goals] == [10.0, 20.0, 1.0, 10.0]
    assert all(target.value > 0 for target in goals)
    for name in set(TASKS) - known:
        del TASKS[name]


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


def test_without_a_gpu_it_says_so(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.main(["--all"]) == 1
    assert capsys.readouterr().out.startswith("There is no GPU here")


def test_a_step_that_fails_is_told_and_the_rest_goes_on(
    bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done: list[str] = []

    def program(words: list[str], **_: Any) -> None:
        done.append(words[2])
        if words[2] != "fedsim":
            raise bench.subprocess.CalledProcessError(1, words)

    def broken(*_: Any) -> Any:
        raise RuntimeError("a kernel failed")

    x = torch.zeros(3)
    works = [bench.Work("one", broken, key="copy"), bench.Work("two", lambda: x, key="reading")]
    monkeypatch.setattr(bench, "absent", lambda device: "")
    monkeypatch.setattr(bench.torch, "device", lambda name: DEVICE)
    monkeypatch.setattr(bench.subprocess, "run", program)
    monkeypatch.setattr(bench.shutil, "which", lambda name: None)
    fakes = {"agree": None, "works": works, "messages": [], "resnet50": {"w": (3,)}, "profiled": ""}
    for name, made in fakes.items():
        monkeypatch.setattr(bench, name, lambda *_, made=made: made)
    monkeypatch.setattr(bench, "training", broken)
    out = tmp_path / "gpu.md"
    assert bench.main(["--all", "--entries", "3", "--repeats", "1", "--out", str(out)]) == 1
    assert done == ["compressors.devicecheck", "pytest", "fedsim", "fedsim", "--held"]
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAILED")]
    told = ["doctor", "the kernels' tests", "one", "a run on 1 % of the GPU", "training"]
    assert [line.split(":")[0].removeprefix("FAILED  ") for line in failed] == told
    text = out.read_text()
    assert "| 3 entries, one | failed |" in text and "| 3 entries, two | 0.0" in text
    assert text.endswith(f"\n5 steps failed: {', '.join(told)}\n")


def test_the_page_has_the_goals_as_they_were_measured() -> None:
    root, names = Path(__file__).parents[2], ("docs/gpu.md", "benchmarks/gpu_h200.md")
    page, tables = ((root / name).read_text(encoding="utf-8") for name in names)
    rows = [line for line in tables.splitlines() if line.endswith(("| yes |", "| no |"))]
    assert len(rows) == 11 and "\n".join(rows) in page


def test_the_update_of_resnet50(bench: Any) -> None:
    pytest.importorskip("torchvision")
    shapes = bench.resnet50()
    assert len(shapes) == 161
    assert sum(torch.Size(shape).numel() for shape in shapes.values()) == 25_557_032
