"""Triton that is installed and does not work: one kernel is tried, then the host does the work."""

import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import compress, device, parse, segments
from compressors.kernels.gpu import language, select, tried
from compressors.kernels.gpu.language import interpreted
from tests.support.gpu import DEVICE, needs_triton, taken
from tests.support.markdown import blocks

pytestmark = needs_triton
ROOT = Path(__file__).parents[3]
UPDATE = {"w": torch.tensor([0.0, 3.0, 1.0, 0.5], device=DEVICE)}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Nothing was tried yet, nor is what a test found remembered."""
    tried.cause.cache_clear(), tried.works.cache_clear()
    yield
    tried.cause.cache_clear(), tried.works.cache_clear()


def broken(*_: Any, **__: Any) -> None:
    raise RuntimeError("at 3:4\nFailed to find C compiler. Please specify via CC")


def test_kernels_work_here() -> None:
    assert tried.cause(DEVICE) == "" and tried.works(DEVICE)


@pytest.mark.parametrize("text", ["sbc(0.25)", "cnat"])
def test_a_kernel_that_raises_leaves_the_work_to_the_host(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = compress(parse(text), {n: x.cpu() for n, x in UPDATE.items()})[0].payload
    monkeypatch.setattr(tried, "launch", broken)
    with taken(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = [compress(parse(text), UPDATE)[0].payload for _ in range(3)]
    assert found == [expected] * 3
    (said,) = (str(one.message) for one in told)
    assert said == (
        f"Triton does not work on {UPDATE['w'].device} (RuntimeError: Failed to find C compiler. "
        "Please specify via CC): the CPU makes the messages of updates there, with the same bytes"
    )


@pytest.mark.skipif(not interpreted(), reason="the page is for a machine without a GPU")
def test_the_page_tries_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def launch(kernel: Any, *given: Any, **constants: Any) -> None:
        started.append(kernel)
        language.launch(kernel, *given, **constants)

    monkeypatch.setattr(select, "launch", launch)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    (page,) = (b for b in blocks(ROOT / "docs" / "gpu.md") if b.language == "python")
    exec(page.text, {})
    assert len(started) > 5
    assert "cpu" in segments.CPU_DEVICES and "cpu" not in device.GPU_DEVICES


@pytest.mark.slow
@pytest.mark.processes
def test_whether_kernels_are_interpreted_is_known() -> None:
    for told, found in (("1", "True"), ("0", "False")):
        child = "from compressors.kernels.gpu.language import interpreted; print(interpreted())"
        done = subprocess.run(
            [sys.executable, "-c", child],
            cwd=ROOT,
            text=True,
            check=True,
            capture_output=True,
            env={"TRITON_INTERPRET": told},
        )
        assert done.stdout.strip() == found


def test_the_least_torch_has_what_kernels_use() -> None:
    """``tl.histogram`` takes a mask since Triton 3.4, which came with torch 2.8."""
    written = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted, nodes = written["project"]["dependencies"], written["dependency-groups"]["node"]
    assert "torch>=2.8" in wanted and "torch>=2.8" in nodes
