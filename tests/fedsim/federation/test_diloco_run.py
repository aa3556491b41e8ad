"""Streaming DiLoCo, by hand: two clients, two fragments, a merge after the first of two steps."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.optim import SGD

from compressors import Raw, parse
from fedsim import Data, RunConfig, SweepConfig, UsageError, load, run
from fedsim.federation.clientdata import ClientData
from fedsim.network import parse as parse_network
from fedsim.runs.sweep import shared_digest
from fedsim.show.times import priced
from strategies import DiLoCo, RoundInfo, Uplink
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import clients, model, small

TARGETS = torch.tensor([[16.0, 32.0], [0.0, 0.0]])
HAND = [(6.0, 0.0), (6.0, 15.0), (7.8125, 15.0), (7.8125, 15.90625)]
"""The server's parameters a and b after rounds 1 to 4, where a client steps half-way to its target.

Client 0, with targets 16 and 32, has (12, 24) after round 1. In round 2 it steps to (14, 28),
merges a: (14 + 6) / 2 = 10, and steps to (13, 30); b becomes 0 + (30 + 0) / 2. In round 3 it steps
to (14.5, 31), merges b: (31 + 15) / 2 = 23, and steps to (15.25, 27.5), while client 1 steps to
(0.75, 0), merges 7.5 and steps to (0.375, 3.75): a becomes 6 + (9.25 - 5.625) / 2.
"""


class Pair(nn.Module):
    """Two layers of a parameter each, which are the output for any input."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
        for p in self.parameters():
            nn.init.zeros_(p)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.a(x), self.b(x)], 1)


def half_squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum(1).mean() / 2


def squares(outputs: Tensor, targets: Tensor) -> Tensor:
    return (outputs - targets).square().sum()


@pytest.fixture
def pair(make_task: Any) -> str:
    return pair_of(make_task)


def pair_of(make_task: Any, **fields: Any) -> str:
    x = torch.ones(2, 1)
    data = Data(x, TARGETS, x, TARGETS, "by hand")
    task = make_task(
        build=Pair,
        load=lambda folder, download: data,
        loss=half_squares,
        metric=squares,
        optimizer=lambda parameters: SGD(parameters, lr=0.5),
        clients=2,
        batch_size=1,
        higher_is_better=False,
        **fields,
    )
    return str(task.name)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_model_is_that_by_hand(pair: str, number: int, tmp_path: Path) -> None:
    config = RunConfig.of(
        task=pair,
        method="fragments(raw, 2)",
        temporal=2,
        rounds=number,
        strategy="diloco(server_lr=1, momentum=0)",
    )
    assert sorted(len(shard) for shard in ClientData.of(config).shards) == [1, 1]
    run(config, tmp_path, progress=False)
    weights = load_file(tmp_path / "model.safetensors")
    assert (float(weights["a.weight"]), float(weights["b.weight"])) == HAND[number - 1]
    messages = clients(tmp_path)  # 24 bits of header, one for the fragment, a float, whole bytes
    assert {*messages["up_wire_bits"]} == {64}
    assert {*messages["down_wire_bits"]} == ({0, 64} if number > 1 else {0})


def test_the_learning_rate_goes_on_after_the_merge(make_task: Any, tmp_path: Path) -> None:
    """Half the rate from step 2 on: client 0 steps to 8 and to 8 + (16 - 8) / 4."""
    task = pair_of(make_task, lr_steps=((1, 0.5),))
    config = RunConfig.of(
        task=task,
        method="fragments(raw, 2)",
        temporal=2,
        rounds=1,
        strategy="diloco(server_lr=1, momentum=0)",
    )
    run(config, tmp_path, progress=False)
    assert float(load_file(tmp_path / "model.safetensors")["a.weight"]) == 5.0


@pytest.mark.parametrize(
    ("compute", "overlap", "seconds"),
    [
        # 64 bits take a second each way. Round 1 has no download: 2 steps, and the upload.
        ("1s", "on", [3, 3, 3, 3]),  # max(1, 1 + 1) + 1: step 1 is over before the download
        ("4s", "on", [9, 8, 8, 8]),  # max(4, 2) + 4: step 1 covers both messages
        ("4s", "off", [9, 10, 10, 10]),  # 2 + 2 * 4
    ],
)
def test_steps_overlap_messages(
    pair: str, compute: str, overlap: str, seconds: list[float], tmp_path: Path
) -> None:
    network = f"up=64bit, down=64bit, compute={compute}, overlap={overlap}"
    config = RunConfig.of(
        task=pair,
        method="fragments(raw, 2)",
        strategy="diloco",
        temporal=2,
        rounds=4,
        network=network,
        checkpoint_every=1,
    )
    with pytest.raises(Stopped):
        run(config, tmp_path, progress=False, callbacks=[stop_after(3)])
    rows = run(config, tmp_path, progress=False).rounds
    assert rows["sim_seconds"].tolist() == seconds
    parts = [f"sim_{part}_seconds" for part in ("download", "compute", "upload", "waiting")]
    assert rows[parts].sum(axis=1).tolist() == seconds
    if overlap == "on":
        with pytest.raises(UsageError, match="overlap=on"):
            priced(load(tmp_path), parse_network(network))


def test_a_sweep_has_a_reference_without_delay() -> None:
    sweep = SweepConfig.of(
        strategy="diloco(tau=2)",
        method="fragments(raw, 3)",
        downlink="fragments(fp4, 3)",
        temporal=[5],
        network="4g, compute=20ms, overlap=on",
    )
    reference, cell = (one.config for one in sweep.cells())
    assert (reference.strategy, str(reference.network)) == ("dsgd", "4g, compute=20ms")
    assert (cell.strategy, cell.temporal) == ("diloco(tau=2)", 5)
    assert shared_digest(sweep) == shared_digest(replace(sweep, temporal=(5, 9)))


@pytest.mark.parametrize("method", ["sparseloco(0.1)", "fragments(sparseloco(0.1), 1)"])
def test_one_fragment_without_delay_is_diloco(method: str, tmp_path: Path) -> None:
    small_runs = {
        "nesterov": small(strategy="nesterov", method="sparseloco(0.1)"),
        "diloco": small(strategy="diloco(tau=0, alpha=0)", method=method),
    }
    for name, config in small_runs.items():
        run(config, tmp_path / name, progress=False)
    assert model(tmp_path / "nesterov") == model(tmp_path / "diloco")


def test_a_velocity_waits_for_its_fragment() -> None:
    rule, method = DiLoCo(server_lr=1.0, momentum=0.5), parse("fragments(raw, 2)")
    weights = {"a.w": torch.zeros(1), "b.w": torch.zeros(1)}
    memory, moves = {}, []
    for number in (1, 2, 3):
        update = {name: torch.zeros(1) for name in weights}
        update["b.w" if number == 2 else "a.w"] = torch.ones(1)
        ups = {0: Uplink(b"", {}, update, {})}
        info = RoundInfo(number, 0, 1, method)
        delta, memory = rule.step(ups, memory, weights, info)
        assert delta is not None
        moves.append([float(x) for x in delta.values()])
    assert moves == [[1.5, 0.0], [0.0, 1.5], [1.75, 0.0]]  # a: 1 + 0.5 (0.5 * 1 + 1)


def test_a_model_with_buffers_is_refused(make_task: Any, tmp_path: Path) -> None:
    task = make_task(build=lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))
    with pytest.raises(UsageError, match="--strategy is 'diloco'.*buffers"):
        run(small(strategy="diloco", task=task.name), tmp_path, progress=False)


def test_any_downlink_goes_with_whole_updates() -> None:
    assert isinstance(small(strategy="diloco").plan.downlink, Raw)
    assert small(strategy="diloco", downlink="sbc(0.1)").plan.algorithm == DiLoCo()
