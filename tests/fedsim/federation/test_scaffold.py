"""SCAFFOLD by hand, in a run of its own task, and what of it is charged."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.optim import SGD

from compressors import Raw, parse
from fedsim import Data, RunConfig, run
from strategies import Scaffold, build
from tests.support.runs import Memories, rounds, small


class Number(nn.Module):
    """One weight w, which every sample pulls to its target: the loss is (w - y)^2 / 2."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.w * x[:, 0]


def data(folder: Any, download: bool) -> Data:
    """Two stretches of samples: the first client's target is 0 and the second client's is 8."""
    x, y = torch.ones(8, 1), torch.tensor([0.0] * 4 + [8.0] * 4)
    return Data(x, y, x, y, "made up")


@pytest.fixture
def two(make_task: Any) -> Any:
    """A task of two clients, learning rate 1/2: all numbers are dyadic."""
    return make_task(
        build=Number,
        load=data,
        optimizer=lambda p: SGD(p, lr=0.5),
        clients=2,
        iterations=4,
        loss=lambda out, y: (out - y).square().mean() / 2,
        partition="contiguous",
        metric=lambda out, y: (out - y).square().sum(),
    )


def test_two_rounds_by_hand(two: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Round 1: client 1 goes 0, 4, 6 and has c = -6; the server has w = 3 and c = -3.

    Round 2: client 0, pulled by +3 and corrected by -3, stays and has c = 3. Client 1, corrected by
    3, goes 3, 4, 4.5 and has c = -6 + 3 - 1.5 = -4.5. The server has w = 3.75, c = -0.75.
    """
    memories = Memories(monkeypatch)
    config = RunConfig(task=two.name, method="raw", temporal=2, strategy="scaffold")
    run(config, tmp_path, callbacks=[memories])
    owns = [[float(state[c]["rule/own/w"]) for c in (0, 1)] for state in memories.rounds]
    assert owns == [[0.0, -6.0], [3.0, -4.5]]
    last = load_file(tmp_path / "model.safetensors")
    assert {n: float(x) for n, x in last.items()} == {"w": 3.75}
    assert load_file(tmp_path / "final" / "memory.safetensors")["server/weights/control/w"] == -0.75


def test_both_ways_are_compressed_and_charged(tmp_path: Path) -> None:
    """Messages hold twice the tensors; with raw sending they have twice the bits."""
    settings: dict[str, Any] = {"momentum": 0, "lr": 0.05, "partition": "dirichlet(0.5)"}
    for name, more in (("dsgd", {}), ("scaffold", {"strategy": "scaffold"})):
        run(small(method="raw", **settings, **more), tmp_path / name)
    one, other = rounds(tmp_path / "dsgd"), rounds(tmp_path / "scaffold")
    for column in ("up_content_bits", "down_content_bits", "up_sent"):
        assert (other[column] == 2 * one[column]).all()
    assert other["metric"].iloc[-1] > 0.5
    shares = [
        json.loads((tmp_path / n / "summary.json").read_text())["up_share"]
        for n in ("dsgd", "scaffold")
    ]
    assert shares == [1, 1]


def test_downlinks_that_send_all_sooner_or_later_are_taken() -> None:
    """The uplink may leave out what it does: c moves by what was decoded, and so does c_i."""
    for down in ("raw", "float32", "sbc(0.1)", "ef(cnat)", "by_name('*.bias', raw, '*', sbc(0.1))"):
        small(method="cnat", strategy="scaffold", momentum=0, downlink=down)
    with pytest.raises(ValueError, match=r"downlink is .*cnat.*give raw"):
        build(Scaffold(), Raw(), parse("cnat"), clients=2)
