"""The steps that look at a device: on the CPU here, one broken on purpose, the rest goes on."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from compressors import Packet, devicecheck
from compressors.device import write
from compressors.devicecheck import METHODS, Step, absent, checks
from compressors.kernels.gpu import tried
from tests.support.gpu import DEVICE, needs_triton, taken

pytestmark = needs_triton
SMALL = ((9, 7), (11,))


def steps() -> dict[str, Step]:
    with taken():
        return {step.name: step for step in checks(DEVICE, SMALL, messages=3, entries=300)}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(devicecheck, "REPEATS", 1)
    monkeypatch.setattr(devicecheck, "ROUNDS", 2)
    tried.cause.cache_clear(), tried.works.cache_clear()
    yield
    tried.cause.cache_clear(), tried.works.cache_clear()


@pytest.mark.slow
def test_every_step_goes_well_and_says_what_it_found() -> None:
    found = steps()
    assert all(step.well and step.result for step in found.values()), found
    assert len(METHODS) >= 12 and len(found) == len(METHODS) + 6
    assert "torch.topk" in found["pace of top-k"].result
    assert torch.__version__ in found["versions"].result


@pytest.mark.slow
def test_a_message_that_differs_fails_its_step_and_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = devicecheck.compress

    def wrong(method: Any, update: Any, *more: Any) -> Any:
        packet, state = made(method, update, *more)
        if method == devicecheck.parse("cnat") and devicecheck.kernels.GPU_DEVICES:
            packet = Packet(packet.payload[:-1] + b"?", packet.sent, packet.spans)
        return packet, state

    monkeypatch.setattr(devicecheck, "compress", wrong)
    found = steps()
    assert [name for name, step in found.items() if not step.well] == ["equal bytes: cnat"]
    assert found["equal bytes: cnat"].result == (
        "RuntimeError: round 1: the message differs from the host's"
    )


def test_a_device_without_kernels_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(tried, "launch", broken)
    monkeypatch.setattr(devicecheck, "METHODS", ())
    with pytest.warns(RuntimeWarning, match="no C compiler"):
        found = steps()
    assert not found["kernels"].well and "no C compiler" in found["kernels"].result
    assert found["3 equal messages: sbc(0.01)"].well  # by the host


def test_messages_that_change_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = devicecheck.compress
    seeds = iter(range(9))
    monkeypatch.setattr(
        devicecheck, "compress", lambda method, update, *_: made(method, update, None, next(seeds))
    )
    with pytest.raises(RuntimeError, match="3 different messages of one update"):
        devicecheck._again(torch.device("cpu"), {"w": torch.ones(40)}, "qsgd(7)", 3)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the doctor looks at the GPU that is there")
def test_only_the_places_that_say_so_may_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU is made up: its modes are noted, and what is on it lies on the CPU."""
    modes: list[Any] = []
    asked: list[Any] = []
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(devicecheck, "_on", lambda device, update: update)
    fetched = devicecheck.fetch

    def fetch(*tensors: Tensor) -> Any:
        asked.append(modes[-1])
        return fetched(*tensors)

    monkeypatch.setattr(devicecheck, "fetch", fetch)
    before = write.fetch
    with taken():
        said = devicecheck._waits(torch.device("cuda"), {"w": torch.randn(300)})
    assert said == "none but those that are meant"
    assert asked == ["default"] * 5 and modes[0] == "error" and modes[-1] == 0
    monkeypatch.undo()
    vars(write)["fetch"] = before


def test_without_cuda_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert "install one for CUDA" in absent(torch.device("cuda"))
    monkeypatch.setattr(torch.version, "cuda", "13.2")
    assert "nvidia-smi" in absent(torch.device("cuda"))
    monkeypatch.setattr(devicecheck, "checks", lambda *_: 1 / 0)  # no work
    assert devicecheck.main([]) == 1
    assert capsys.readouterr().out.startswith("There is no CUDA here: torch ")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "mps"])
def test_other_names_are_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        devicecheck.main(["--device", name])
    assert ended.value.code == 2
    assert f"--device is {name!r}: give cpu, cuda, cuda:1, ..." in capsys.readouterr().err


def test_the_pace_is_taken_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[torch.device]()
    monkeypatch.setattr(devicecheck, "on", lambda device: asked.append(device) or nullcontext())
    devicecheck._pace(DEVICE, 300)
    assert asked and {*asked} == {DEVICE}


def test_the_exit_status_is_that_of_the_worst_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for well, status in ((True, 0), (False, 1)):
        made = [Step("a", True, "x"), Step("b", well, "y")]
        monkeypatch.setattr(devicecheck, "checks", lambda _, made=made: iter(made))
        assert devicecheck.main(["--device", "cpu"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == "1 steps failed: b"
