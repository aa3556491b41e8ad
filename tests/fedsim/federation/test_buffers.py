"""BatchNorm's statistics: they travel only in messages, are counted, and are nobody else's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from compressors import decompress
from compressors.whole.raw import Raw
from fedsim import RunConfig, Task, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.federation.modelbuffers import ModelBuffers
from fedsim.federation.trainer import Trainer, build_model
from tests.support.asyncruns import NETWORK
from tests.support.models import normed
from tests.support.runs import Memories, clients, payloads, rounds
from tests.support.threes import table

MakeTask = Callable[..., Task]


NAMES = ["1.running_mean", "1.running_var"]
BITS = 8 * 32 + 24  # of eight numbers and a header


def settings(task: Task, **more: Any) -> RunConfig:
    """Six rounds of two local iterations, scored after the third and the sixth."""
    given = {"method": "sbc(0.2)", "temporal": 2, "evaluate_every": 3, "keep_payloads": True}
    return RunConfig.of(task=task.name, **(given | more))


def read(folder: Path, name: str, template: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return decompress(Raw(), (folder / "payloads" / name).read_bytes(), template)


def mean(parts: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """As the server sums: in client order, each with its share."""
    total = {name: torch.zeros_like(x) for name, x in parts[0].items()}
    for part in parts:
        for name, x in part.items():
            total[name] = torch.add(total[name], x, alpha=1 / len(parts))
    return total


def test_the_mean_goes_both_ways_in_messages(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task(build=normed)
    run(settings(task), tmp_path)
    held = ModelBuffers(build_model(task, 0), "").initial
    assert list(held) == NAMES
    for number in range(1, 7):
        free = "-free" if number == 1 else ""
        for client in range(3):
            down = f"round-{number:05d}/client-{client:03d}-down{free}.buffers"
            for name, x in read(tmp_path, down, held).items():
                assert torch.equal(x, held[name])
        ups = [f"round-{number:05d}/client-{client:03d}-up.buffers" for client in range(3)]
        parts = [read(tmp_path, up, held) for up in ups]
        assert not torch.equal(parts[0][NAMES[0]], parts[1][NAMES[0]])  # of different samples
        held = mean(parts)
    final = load_file(tmp_path / "model.safetensors")
    assert {name: x.tolist() for name, x in held.items()} == {n: final[n].tolist() for n in NAMES}
    model = normed()
    model.load_state_dict(final)  # whole: a count of batches is not needed
    frame = rounds(tmp_path)
    assert frame["up_buffer_bits"].tolist() == [3 * BITS] * 6
    assert frame["down_buffer_bits"].tolist() == [0] + [3 * BITS] * 5


def test_local_goes_up_where_the_server_evaluates(make_task: MakeTask, tmp_path: Path) -> None:
    run(settings(make_task(build=normed), buffers="local"), tmp_path)
    stored = sorted(name for name in payloads(tmp_path) if name.endswith(".buffers"))
    assert stored == [
        f"round-{number:05d}/client-{client:03d}-up.buffers"
        for number in (3, 6)
        for client in range(3)
    ]
    frame = rounds(tmp_path)
    assert frame["up_buffer_bits"].tolist() == [0, 0, 3 * BITS, 0, 0, 3 * BITS]
    assert frame["down_buffer_bits"].tolist() == [0] * 6
    assert frame["metric"].notna().tolist() == [False, False, True, False, False, True]


def test_the_server_scores_with_what_arrived(make_task: MakeTask, tmp_path: Path) -> None:
    task = make_task(build=normed)
    summary = run(settings(task), tmp_path).summary
    model = normed()
    model.load_state_dict(load_file(tmp_path / "model.safetensors"))
    data = task.load(None, False)
    with torch.no_grad():
        outputs = model.eval()(data.test_x)
    assert summary["loss"] == pytest.approx(float(task.loss(outputs, data.test_y)), rel=1e-5)


@pytest.mark.parametrize("buffers", ["mean", "local"])
def test_a_client_keeps_what_is_its_own(
    buffers: str, make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = Memories(monkeypatch)
    run(settings(make_task(build=normed), buffers=buffers), tmp_path, callbacks=[memories])
    for number, states in enumerate(memories.rounds, 1):
        for state in states.values():
            assert int(state["buffers/1.num_batches_tracked"]) == 2 * number
            assert ("buffers/1.running_mean" in state) == (buffers == "local")


def test_statistics_are_those_of_a_plain_loop(make_task: MakeTask, tmp_path: Path) -> None:
    """One client, raw: what BatchNorm itself would have after twelve steps, over all rounds."""
    task = make_task(build=normed)
    for buffers in ("mean", "local"):
        config = settings(task, method="raw", clients=1, buffers=buffers)
        run(config, tmp_path / buffers)
        trainer = Trainer(config, ClientData.of(config))
        weights = {n: p.detach().clone() for n, p in trainer.parameters.items()}
        whole = trainer.train(0, weights, {}, 0, 12)
        final = load_file(tmp_path / buffers / "model.safetensors")
        for name in NAMES:
            torch.testing.assert_close(final[name], whole.buffers[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("strategy", ["fedbuff", "fedasync"])
@pytest.mark.parametrize("way", ["mean", "local"])
def test_a_server_that_does_not_wait_mixes_them_as_the_weights(
    strategy: str, way: str, make_task: MakeTask, tmp_path: Path
) -> None:
    """The mean of a full buffer's, or with fedasync a share of each; the last model has it."""
    task = make_task(build=normed)
    size = {"buffer_size": 2} if strategy == "fedbuff" else {}
    more = {"network": NETWORK, "downlink": "sbc(0.2)", "buffers": way, **size}
    run(settings(task, strategy=strategy, **more), tmp_path)
    held = ModelBuffers(build_model(task, 0), "").initial
    full: list[dict[str, torch.Tensor]] = []
    for _, row in clients(tmp_path).iterrows():
        name = f"round-{row['message']:05d}/client-{row['client']:03d}-up.buffers"
        full.append(read(tmp_path, name, held))
        if strategy == "fedasync":
            share = 0.6 * (1 + row["staleness"]) ** -0.5
            held = {n: x + share * (full[-1][n] - x) for n, x in held.items()}
        elif len(full) % 2 == 0:
            held = mean(full[-2:])
    final = load_file(tmp_path / "model.safetensors")
    for name in NAMES:
        torch.testing.assert_close(final[name], held[name], rtol=1e-5, atol=1e-6)
    assert (rounds(tmp_path)["up_buffer_bits"] == 3 * 2 * BITS / 2).all()
    assert (rounds(tmp_path)["down_buffer_bits"] > 0).any() == (way == "mean")


def test_other_floats_are_refused(make_task: MakeTask) -> None:
    task = make_task(build=lambda: nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3).double()))
    config = settings(task)
    with pytest.raises(UsageError, match=r"running_mean.*float64.*float32"):
        Trainer(config, ClientData.of(config))


def test_what_is_in_no_state_dict_does_not_travel() -> None:
    layer = nn.BatchNorm1d(2)
    layer.register_buffer("table", torch.ones(3), persistent=False)
    assert ModelBuffers(layer, "").names == ("running_mean", "running_var")


def test_buffers_travel_beside_the_model(make_task: Any, tmp_path: Path) -> None:
    """A byte takes a second: 24 + 4 weights of the first layer, 4 + 4 of the norm, 12 + 3 of the
    last; 8 statistics."""
    task = make_task(build=normed, clients=1)
    common = {"method": "raw", "temporal": 1, "iterations": 2, "keep_payloads": True}
    run(RunConfig.of(task=task.name, network="up=8bit, down=8bit, compute=0s", **common), tmp_path)
    lengths = {name: len(data) for name, data in payloads(tmp_path).items()}
    for name in ("round-00001/client-000-up", "round-00002/client-000-up"):
        assert lengths[f"{name}.bin"] == 51 * 4 + 3 and lengths[f"{name}.buffers"] == 8 * 4 + 3
    assert table(tmp_path)["sim_seconds"].tolist() == [207 + 35, 2 * (207 + 35)]
