"""Frozen parameters: they follow from the task and the seed, and neither end sends them."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from fedsim import RunConfig, UsageError, load, run
from fedsim.federation.trainer import build_model
from fedsim.network import parse
from fedsim.show.times import priced
from strategies.algorithms import ALGORITHMS
from tests.strategies.test_algorithms import NEEDS
from tests.support.runs import clients, rounds
from tests.support.together import Together

FROZEN, TRAINED = 6 * 4 + 4, 4 * 3 + 3


def partly() -> nn.Module:
    """Of 43 entries the last 15 are trained."""
    made = nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 3))
    for p in made[0].parameters():
        p.requires_grad_(False)
    return made


@pytest.mark.parametrize("downlink", ["raw", "cnat"])
@pytest.mark.parametrize("width", [1, 3])
def test_what_is_trained_travels(
    downlink: str, width: int, make_task: Any, tmp_path: Path, together: Together
) -> None:
    together(width)
    task = make_task(build=partly)
    config = RunConfig.of(task=task.name, method="raw", temporal=1, downlink=downlink)
    summary = run(config, tmp_path).summary
    messages = clients(tmp_path)
    assert set(messages["up_wire_bits"]) == {32 * TRAINED + 24}
    later = messages[messages["round"] > 1]["down_wire_bits"]
    assert set(later) == {32 * TRAINED + 24 if downlink == "raw" else 24 + 9 * TRAINED + 1}
    assert (summary["parameters"], summary["trained_parameters"]) == (FROZEN + TRAINED, TRAINED)
    assert summary["up_share"] == 1 and summary["ratio_content"] == 1
    layers = pd.read_parquet(tmp_path / "layers.parquet")
    assert set(layers["tensor"]) == {"2.weight", "2.bias"}


def mostly() -> nn.Module:
    """13,006 frozen entries, of which one bit each would be seen, and 21 that are trained."""
    frozen = nn.Sequential(nn.Linear(6, 1000), nn.Tanh(), nn.Linear(1000, 6)).requires_grad_(False)
    return nn.Sequential(frozen, nn.Linear(6, 3))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_algorithm_sends_what_is_frozen(name: str, make_task: Any, tmp_path: Path) -> None:
    """What goes beside the model (control variates, velocities) is of what is trained too."""
    given = {"method": "raw", "iterations": 4, "temporal": 2} | NEEDS.get(name, {})
    if name == "permk":
        given["method"] = "permk(3)"  # clients of the task
    if name == "fedrep":
        given["temporal"] = 2
    personal = {"fedper", "fedbabu", "fedrep"}
    own = "layers='*.bias'" + ", head_steps=1" * (name == "fedrep")
    given["strategy"] = f"{name}({own})" if name in personal else name
    task = make_task(build=mostly)
    run(RunConfig.of(task=task.name, **given), tmp_path, progress=False)
    messages = clients(tmp_path)
    ways = ["down"] if name == "fetchsgd" else ["up", "down"]  # a sketch is as large as it is asked
    for way in ways:
        assert messages[f"{way}_wire_bits"].max() < 13_000
    kept, first = load_file(tmp_path / "model.safetensors"), build_model(task, 0).state_dict()
    lacks = {"1.bias"} if name in personal else set()  # which the server does not have
    assert {*kept} == {*first} - lacks
    assert all(torch.equal(x, first[n]) == n.startswith("0.") for n, x in kept.items())


def test_the_clock_and_the_price_count_what_is_trained(make_task: Any, tmp_path: Path) -> None:
    """15 entries are 504 bits: 5.04 s up, and 2.52 s down from the second round on."""
    network, task = "up=100bit, down=200bit, latency=1s, compute=1s", make_task(build=partly)
    config = RunConfig(task=task.name, method="raw", temporal=1, iterations=3, network=network)
    run(config, tmp_path)
    again = priced(load(tmp_path), parse(network))
    for rows in (pd.read_parquet(tmp_path / "rounds.parquet"), again):
        assert rows["sim_seconds"].tolist() == pytest.approx([8.04, 10.56, 10.56])


def test_the_model_is_whole_at_the_end(make_task: Any, tmp_path: Path) -> None:
    task = make_task(build=partly)
    config = RunConfig(task=task.name, method="raw", temporal=1)
    run(config, tmp_path)
    assert len(rounds(tmp_path))
    kept, first = load_file(tmp_path / "model.safetensors"), build_model(task, 0).state_dict()
    assert sorted(kept) == sorted(first)
    assert all(torch.equal(kept[n], first[n]) for n in ("0.weight", "0.bias"))
    assert not torch.equal(kept["2.weight"], first["2.weight"])


def test_a_model_of_frozen_parameters_is_refused(make_task: Any, tmp_path: Path) -> None:
    task = make_task(build=lambda: nn.Linear(6, 3).requires_grad_(False))
    with pytest.raises(UsageError, match="a model without parameters to train"):
        run(RunConfig(task=task.name, method="raw"), tmp_path)
