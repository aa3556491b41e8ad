"""The steps that look at a device: on the CPU here, one broken on purpose, the rest goes on."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from compressors import Packet, devicecheck
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


def test_the_exit_status_is_that_of_the_worst_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for well, status in ((True, 0), (False, 1)):
        made = [Step("a", True, "x"), Step("b", well, "y")]
        monkeypatch.setattr(devicecheck, "checks", lambda _, made=made: iter(made))
        assert devicecheck.main(["--device", "cpu"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == "1 steps failed: b"
