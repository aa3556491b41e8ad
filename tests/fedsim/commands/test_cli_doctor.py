"""``fedsim doctor``: one screen, what to do about what is missing, and the exit status."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import devicecheck
from compressors.devicecheck import Step
from fedsim.runs import machine
from fedsim.runs.machine import LOOKS, MachinePart
from tests.support.commands import Typed

NAMES = ("fedsim", "Python", "numpy", "torch", "numba", "flwr", "ray", "telemetry", "GPU",
         "triton", "C compiler", "compiled loops", "data sets", "disk", "cores",
         "memory")  # fmt: skip


def test_a_screen_with_every_part(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    said = typed("doctor")
    assert (said.code, said.err) == (0, "")
    assert all(f"\n{name} " in f"\n{said.out}" for name in NAMES)
    assert torch.__version__.split("+")[0] in said.out
    assert said.out.endswith("Runs work on this machine.\n")
    assert len(said.out.splitlines()) < 40
    parts = json.loads(typed("doctor", "--json").out)
    assert [part["name"] for part in parts] == list(LOOKS)
    assert all(set(part) == {"name", "status", "advice", "lacking"} for part in parts)


def test_what_every_run_needs_decides(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise machine.PackageNotFoundError if name == "flwr" else ImportError("libx.so\nmore")

    monkeypatch.setattr(machine, "LOOKS", {name: LOOKS[name] for name in ("numpy", "flwr")})
    monkeypatch.setattr(machine, "version", lambda name: absent(name) if name == "flwr" else "9.9")
    monkeypatch.setattr(machine, "import_module", absent)
    said = typed("doctor")
    assert said.code == 1
    assert "cannot be imported (ImportError: libx.so)" in said.out
    assert "-> install it again: `pip install --force-reinstall numpy==9.9`" in said.out
    assert "flwr            missing\n                -> install fedsim's dependencies" in said.out
    assert said.out.endswith("Runs do not work here: see numpy, flwr.\n")
    assert typed("doctor", "--json").code == 1


def test_a_part_that_cannot_be_looked_at_leaves_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> MachinePart:
        raise OSError("no such file")

    monkeypatch.setattr(machine, "LOOKS", {"memory": broken, "Python": LOOKS["Python"]})
    memory, python = machine.machine()
    assert memory.status == "OSError: no such file" and not memory.lacking
    assert python.status.startswith("3.")


@pytest.mark.parametrize("version", ["1.41.9", "1.42.0", "2.0.1"])
def test_a_flower_that_is_newer_than_tested_is_told(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "version", lambda name: version)
    part = LOOKS["flwr"]("flwr")
    newer = version != "1.41.9"
    assert ("newer than 1.41, the newest that fedsim was tested with" in part.status) == newer
    assert ("`pip install 'flwr==1.41.*'`" in part.advice) == newer and not part.lacking


def test_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(name: str) -> MachinePart:
        return LOOKS[name](name)

    monkeypatch.setattr(machine.shutil, "which", lambda name: None)
    assert "install gcc" in look("C compiler").advice
    monkeypatch.setattr(machine, "find_spec", lambda name: None)
    assert "fedsim-lab[ray]" in look("ray").advice and not look("ray").lacking
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    assert "set FEDSIM_DATA" in look("data sets").advice
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path / "none"))
    assert "to the folder that holds" in look("data sets").advice
    (tmp_path / "MNIST" / "raw").mkdir(parents=True)
    monkeypatch.setenv("FEDSIM_DATA", str(tmp_path))
    assert look("data sets").status.startswith("digits, MNIST (in ")
    assert look("data sets").advice.startswith("for Fashion-MNIST, CIFAR-10")
    monkeypatch.setattr(machine, "_LEAST_DISK", 1e9)
    assert "--out" in look("disk").advice
    monkeypatch.setattr(machine, "_LEAST_MEMORY", 1e9)
    assert "--workers" in look("memory").advice


OFF = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.mark.parametrize(
    ("given", "first", "found", "advised"),
    [
        (
            {},
            False,
            "off: fedsim has set FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0",
            "FLWR_TELEMETRY_ENABLED=0 RAY_USAGE_STATS_ENABLED=0",
        ),
        (OFF, False, "off: FLWR_TELEMETRY_ENABLED=0 in the environment", ""),
        (OFF, True, "off: FLWR_TELEMETRY_ENABLED=0 in the environment", ""),
        ({}, True, "on: Flower's (flwr was imported before fedsim", "FLWR_TELEMETRY_ENABLED=0"),
        (
            OFF | {"FLWR_TELEMETRY_ENABLED": "1"},
            False,
            "on: Flower's (FLWR_TELEMETRY_ENABLED=1",
            "export FLWR_TELEMETRY_ENABLED=0`",
        ),
        (
            OFF | {"RAY_USAGE_STATS_ENABLED": "1"},
            False,
            "on: Ray's (RAY_USAGE_STATS_ENABLED=1",
            "export RAY_USAGE_STATS_ENABLED=0`",
        ),
    ],
)
def test_telemetry_is_on_or_off_and_why(
    given: dict[str, str], first: bool, found: str, advised: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine.quiet, "ENVIRONMENT", given)
    monkeypatch.setattr(machine.quiet, "FLOWER_FIRST", first)
    part = LOOKS["telemetry"]("telemetry")
    assert part.status.startswith(found) and not part.lacking
    assert advised in part.advice and bool(advised) == bool(part.advice)


def test_a_gpu_and_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda i: "a GPU")
    assert LOOKS["GPU"]("GPU").status == "a GPU"
    monkeypatch.setattr("compressors.kernels.gpu.tried.cause", lambda device: "no compiler")
    triton = LOOKS["triton"]("triton")
    assert triton.status.endswith("does not work: no compiler") and "C compiler" in triton.advice


def test_a_device_is_looked_at_after_the_machine(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "LOOKS", {"Python": LOOKS["Python"]})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for well in (True, False):
        steps = [Step("versions", True, "torch"), Step("waits", well, "a wait")]
        monkeypatch.setattr(devicecheck, "checks", lambda _, steps=steps: iter(steps))
        said = typed("doctor", "--device", "cuda")
        assert said.code == int(not well)
        assert "ok      versions: torch\n" in said.out
    assert "FAILED  waits: a wait\n1 steps failed: waits\n" in said.out


def test_without_cuda_it_says_so_before_any_work(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(machine, "machine", lambda: 1 / 0)
    said = typed("doctor", "--device", "cuda")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("fedsim: --device is 'cuda': there is no CUDA here: torch ")
    assert "give cpu, cuda, cuda:1, ..." in typed("doctor", "--device", "tpu").err
    assert "--json" in typed("doctor", "--device", "cuda", "--json").err
