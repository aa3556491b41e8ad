"""Splitting samples among clients."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from datasets import Dataset
from flwr_datasets.partitioner import IidPartitioner

from fedsim import Clients, Data, RunConfig
from fedsim.federation import ClientData
from fedsim.ground.errors import UsageError
from fedsim.tasks import get_task
from fedsim.tasks.data.partition import check_partition, split

LABELS = np.random.default_rng(0).integers(0, 10, 1003)
SPECS = [
    "iid",
    "contiguous",
    "dirichlet(0.3)",
    "dirichlet(100)",
    "shards(2)",
    "pathological(7)",
    "linear",
    "square",
    "exponential",
]


def joined(parts):
    return np.sort(np.concatenate(parts))


@pytest.mark.parametrize("spec", SPECS)
def test_shape_of_a_split(spec):
    parts = split(LABELS, 4, spec, seed=3)
    assert len(parts) == 4
    for part in parts:
        assert part.dtype == np.int64
        assert len(part) > 0
        assert (np.diff(part) > 0).all()
    together = joined(parts)
    assert len(np.unique(together)) == len(together)
    left_out = len(LABELS) % 8 if spec == "shards(2)" else 0
    assert len(together) == len(LABELS) - left_out


@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "contiguous"])
def test_a_split_follows_from_its_seed(spec):
    first, again, other = (split(LABELS, 4, spec, seed) for seed in (7, 7, 8))
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert any(len(a) != len(b) or (a != b).any() for a, b in zip(first, other, strict=True))


def test_sizes_are_in_proportion_to_the_client_s_number():
    """1,000 samples in shares of 10, 30 and 84.7 parts; the last client has the rest."""
    sizes = {
        spec: [len(part) for part in split(np.zeros(1000, np.int64), 4, spec, seed=1)]
        for spec in ("linear", "square", "exponential")
    }
    assert sizes["linear"] == [100, 200, 300, 400]
    assert sizes["square"] == [33, 133, 300, 534]
    assert sizes["exponential"] == [32, 87, 236, 645]


def test_what_a_client_draws_follows_from_its_number_alone():
    few, many = (split(LABELS, clients, "drawn(20)", seed=3) for clients in (5, 1_000_000))
    assert len(many) == 1_000_000 > len(LABELS)
    for client in range(5):
        assert few[client].tolist() == many[client].tolist()
        assert len(np.unique(many[client])) == 20
    assert many[0].tolist() != many[1].tolist()
    assert split(LABELS, 5, "drawn(20)", seed=4)[0].tolist() != few[0].tolist()
    assert [len(part) for part in few[1:3]] == [20, 20]


def test_a_drawn_client_s_classes_have_the_shares_of_a_dirichlet_distribution():
    """Small ALPHA: most of a client's samples are of one class; great ALPHA: a tenth each."""
    most = {}
    for alpha in ("0.05", "1000"):
        parts = split(LABELS, 300, f"drawn(50, {alpha})", seed=1)
        assert {len(part) for part in parts} == {50}
        most[alpha] = np.mean([np.bincount(LABELS[part]).max() / 50 for part in parts])
    assert most["0.05"] > 0.7 and most["1000"] < 0.25


def test_spaces_are_free():
    check_partition(" dirichlet( 0.3 ) ")


def test_a_client_cannot_draw_more_samples_than_there_are():
    with pytest.raises(UsageError, match=r"draws 1004 samples per client, more than the 1003"):
        split(LABELS, 4, "drawn(1004)", seed=0)


def test_whole_is_everything_for_everybody():
    parts = split(np.arange(3), 5, "whole", seed=0)
    assert [part.tolist() for part in parts] == [[0, 1, 2]] * 5


def test_contiguous_keeps_the_order_and_needs_no_seed():
    parts = split(LABELS, 4, "contiguous", seed=3)
    assert [len(part) for part in parts] == [251, 251, 251, 250]
    assert (np.concatenate(parts) == np.arange(1003)).all()


@pytest.mark.parametrize("spec", SPECS)
def test_global_generators_stay_as_they_are(spec):
    np.random.seed(5)
    before = np.random.get_state()[1].copy()
    split(LABELS, 4, spec, seed=1)
    assert (np.random.get_state()[1] == before).all()


def test_small_alpha_makes_unlike_clients():
    def imbalance(spec):
        parts = split(LABELS, 4, spec, seed=0)
        counts = np.array([np.bincount(LABELS[part], minlength=10) for part in parts])
        return (counts.max(axis=0) / counts.sum(axis=0)).mean()

    assert imbalance("dirichlet(0.1)") > 0.7
    assert imbalance("dirichlet(1000)") < 0.35


def test_shards_hold_few_classes():
    labels = np.repeat(np.arange(10), 100)
    for part in split(labels, 5, "shards(2)", seed=0):
        assert len(part) == 200
        assert len(np.unique(labels[part])) <= 2


def test_pathological_counts_classes():
    labels = np.repeat(np.arange(10), 100)
    parts = split(labels, 10, "pathological(2)", seed=0)
    assert [len(np.unique(labels[part])) for part in parts] == [2] * 10
    assert (joined(parts) == np.arange(1000)).all()


def test_natural_deals_whole_sources():
    parts = split(LABELS, 4, "natural", seed=0)
    owners = [{*LABELS[part].tolist()} for part in parts]
    assert sorted(len(own) for own in owners) == [2, 2, 3, 3]
    assert set.union(*owners) == {*range(10)} and sum(map(len, owners)) == 10
    assert (joined(parts) == np.arange(1003)).all()
    each = split(LABELS, 10, "natural", seed=0)
    assert all(len(np.unique(LABELS[part])) == 1 for part in each)
    others = split(LABELS, 4, "natural", seed=1)
    assert [part.tolist() for part in others] != [part.tolist() for part in parts]


def test_feature_cuts_the_rising_samples():
    """By hand: six samples by rising feature are 3, 0, 5, 1, 4, 2."""
    feature = np.array([0.1, 0.4, 0.9, 0.0, 0.5, 0.3])
    parts = split(np.zeros(6, int), 3, "feature", 0, feature)
    assert [part.tolist() for part in parts] == [[0, 3], [1, 5], [2, 4]]


def test_inputs_that_are_one_number_each_are_a_feature():
    x = torch.tensor([0.1, 0.4, 0.9, 0.0])
    data = Data(x, x.long(), x, x.long(), "made up")
    task = replace(get_task("digits"), name="numbers", load=lambda folder, download: data)
    shards = ClientData.of(RunConfig(task=task, clients=Clients(2, partition="feature"))).shards
    assert [part.tolist() for part in shards] == [[0, 3], [1, 2]]


def test_clients_of_a_run_are_unlike_by_brightness():
    shards = ClientData.of(RunConfig(clients=Clients(3, partition="feature"))).shards
    x = ClientData.of(RunConfig()).data.train_x.flatten(1).mean(1).numpy()
    ends = [(x[shard].min(), x[shard].max()) for shard in shards]
    assert ends[0][1] <= ends[1][0] and ends[1][1] <= ends[2][0]
    with pytest.raises(UsageError, match="task digits have no source to go by"):
        ClientData.of(RunConfig(clients=Clients(partition="natural")))


@pytest.mark.parametrize("spec", ["dirichlet(0.3)", "pathological(2)", "drawn(5, 0.3)"])
def test_targets_that_are_no_classes(spec):
    with pytest.raises(UsageError, match=r"goes by classes, and a label is 0\.5; .*shards\(NUMBER"):
        split(np.arange(10) / 2 + 0.5, 2, spec, 0)
    assert sum(len(part) for part in split(np.arange(10) % 2.0, 2, "dirichlet(9)", 0)) == 10


@pytest.mark.parametrize(
    ("spec", "clients", "words"),
    [
        ("iid", 0, "--clients is 0: .* 1003"),
        ("iid", 1004, "--clients is 1004: .* 1003"),
        ("shards(300)", 4, r"'shards\(300\)': it cuts 4 x 300 .* 1003 samples"),
        ("pathological(11)", 4, r"'pathological\(11\)': .* from 1 to 10"),
        ("pathological(2)", 4, r"leaves 5 of 10 classes to nobody.*pathological\(7\)"),
        ("dirichlet(0.01)", 900, r"'dirichlet\(0.01\)': it cannot be made for 900 clients.*drawn"),
        ("natural", 11, "at most 10, for --partition natural deals whole sources"),
    ],
)
def test_a_split_that_these_labels_cannot_have(spec, clients, words):
    with pytest.raises(UsageError, match=words):
        split(LABELS, clients, spec, seed=0)
    with pytest.raises(UsageError, match=r"shape \(3, 2\)"):  # labels are one per sample
        split(np.zeros((3, 2), dtype=np.int64), 2, "iid", seed=0)


def test_missing_flwr_datasets_is_said(monkeypatch):
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(UsageError, match="flwr-datasets.*\n.*pip install flwr-datasets"):
        split(LABELS, 4, "shards(2)", seed=0)
    assert len(split(LABELS, 4, "iid", seed=0)) == 4  # needs no labels, and no package


@pytest.mark.parametrize("clients", [1, 4, 7])
def test_iid_deals_as_flwr_datasets_does(clients):
    order = np.random.default_rng(3).permutation(len(LABELS))
    flower = IidPartitioner(clients)
    flower.dataset = Dataset.from_dict({"sample": order})
    for number, part in enumerate(split(LABELS, clients, "iid", seed=3)):
        assert part.tolist() == sorted(flower.load_partition(number)["sample"])


@pytest.mark.slow
def test_a_split_asks_no_hub_and_leaves_the_environment():
    code = """
import os, socket
import numpy as np
from fedsim.tasks.data.partition import check_partition, split
asked, before = [], dict(os.environ)
socket.socket.connect = socket.getaddrinfo = lambda *given, **named: asked.append(given)
split(np.random.default_rng(0).integers(0, 10, 1003), 4, "dirichlet(0.3)", 7)
assert not asked and dict(os.environ) == before
from huggingface_hub import constants
assert not constants.HF_HUB_OFFLINE  # a caller may ask the hub afterwards
"""
    environment = {k: v for k, v in os.environ.items() if k != "HF_HUB_OFFLINE"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
