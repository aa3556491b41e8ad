"""Tasks from what `flwr_datasets.FederatedDataset` loads, here a folder of two CSV files."""

from pathlib import Path

import numpy as np
import pytest
import torch
from flwr_datasets import FederatedDataset
from flwr_datasets.partitioner import NaturalIdPartitioner, SizePartitioner
from torch import nn

from fedsim import Clients, RunConfig
from fedsim.federation import ClientData
from fedsim.ground.errors import DataError, UsageError
from fedsim.tasks import Task, from_hub
from fedsim.tasks.datacache import load_data

SITES = ("oslo", "rome", "lima")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty rows of three sites and twelve that are held out."""
    made = tmp_path_factory.mktemp("hub")
    for split, count in (("train", 60), ("test", 12)):
        rows = [f"{i},{i % 7},{i % 2},{SITES[i % 3]}" for i in range(count)]
        (made / f"{split}.csv").write_text("\n".join(["a,b,label,site", *rows]) + "\n")
    return made


class Joined(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, a, b):
        return self.layer(torch.stack([a, b], 1).float())


def task(folder: Path, **options) -> Task:
    cache = {"cache_dir": str(folder.parent / "cache")}
    usual = {"name": "sites", "inputs": ["a", "b"], "load": cache, "clients": 3}
    return from_hub(str(folder), Joined, **(usual | options))


def shards(of: Task, **clients):
    return ClientData.of(RunConfig(task=of, clients=Clients(**clients))).shards


def rows(of: Task):
    """The number in column a of each sample of each client."""
    held = ClientData.of(RunConfig(task=of))
    return [held.data.train_x["a"][torch.from_numpy(part)].tolist() for part in held.shards]


def test_clients_hold_the_partitions_of_flower(folder):
    partitioners = {"train": NaturalIdPartitioner("site")}
    cache = str(folder.parent / "cache")
    theirs = FederatedDataset(dataset=str(folder), partitioners=partitioners, cache_dir=cache)
    mine = rows(task(folder, partitioner=NaturalIdPartitioner("site")))
    assert [sorted(part) for part in mine] == [
        sorted(theirs.load_partition(i)["a"]) for i in range(3)
    ]
    assert sorted(map(len, mine)) == [20, 20, 20]


def test_a_partition_may_be_a_function_of_the_rows_or_a_text(folder):
    def deal(train):
        a = np.array(train["a"][:])
        return [np.flatnonzero(a < 10), np.flatnonzero(a >= 50)]

    assert [sorted(part) for part in rows(task(folder, partitioner=deal, clients=2))] == [
        [*range(10)],
        [*range(50, 60)],
    ]
    assert [*map(len, shards(task(folder, partitioner="linear")))] == [10, 20, 30]
    assert [
        *map(
            len, shards(task(folder), partition="SizePartitioner(partition_sizes=(5, 6))", count=2)
        )
    ] == [5, 6]


def test_what_is_held_out_is_in_no_client_s_part(folder):
    sizes = task(folder, partitioner=SizePartitioner([10, 20, 30]), test=0.25, shuffle=False)
    found = [sorted(map(int, part)) for part in rows(sizes)]
    held_out = ClientData.of(RunConfig(task=sizes)).data.test_x["a"].tolist()
    assert [
        sorted({*found[i]} | {x for x in map(int, held_out) if lo <= x < hi})
        for i, (lo, hi) in enumerate([(0, 10), (10, 30), (30, 60)])
    ] == [[*range(10)], [*range(10, 30)], [*range(30, 60)]]
    assert len(held_out) == 15 and sum(map(len, found)) == 45


def test_any_split_may_be_the_one_that_is_held_out(folder):
    data = load_data(task(folder, train="test", test="train"), None, False).data
    assert (data.train_count, data.test_count) == (12, 60)


def test_the_partition_is_part_of_what_the_data_are(folder):
    one, other, same = (
        load_data(task(folder, partitioner=SizePartitioner(sizes)), None, False).content
        for sizes in ([10, 20, 30], [20, 10, 30], [10, 20, 30])
    )
    assert one == same != other


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"partitioner": 3}, "partitioner is of type int; give a partitioner of flwr-datasets"),
        ({"partitioner": "iidd"}, "unknown split 'iidd'"),
        ({"partitioner": "iid", "partition": "linear"}, "'iid', 'linear'"),
        ({"clents": 3}, "unknown option 'clents' .*mean clients"),
        ({"test": 1.5}, "test is 1.5"),
    ],
)
def test_options_that_cannot_be_are_refused_before_the_data_are_read(folder, options, words):
    with pytest.raises(UsageError, match=f"{words}"):
        task(folder, **options)


def test_data_that_cannot_be_are_refused(folder):
    def outside(train):
        return [[0, 1], [60]]

    for options, words in (
        ({"test": "valid"}, "no split 'valid' .*train, test"),
        ({"test": "train"}, "test is 'train', .* train, test"),
        ({"train": "all"}, "split 'all', cannot be loaded"),
        ({"partitioner": NaturalIdPartitioner("town")}, "cannot deal 60 rows .*a, b, label, site"),
        ({"label": "species"}, "label is 'species'"),
    ):
        with pytest.raises(DataError, match=words):
            load_data(task(folder, **options), None, False)
    for options, words in (
        ({"partitioner": SizePartitioner([30, 30])}, "has 2 clients, and --clients is 3"),
        ({"partitioner": outside, "clients": 2}, "client 1 has the sample 60; .* 0 to 59"),
        ({"partitioner": lambda train: [[0, 1], [1]], "clients": 2}, "both have the sample 1"),
        ({"partitioner": lambda train: [[0, 1], []], "clients": 2}, "client 1 of 2 has no samples"),
    ):
        with pytest.raises(UsageError, match=f"--partition is 'fixed': .*{words}"):
            shards(task(folder, **options))
    with pytest.raises(UsageError, match="task digits have no shards of their own"):
        ClientData.of(RunConfig(clients=Clients(partition="fixed")))
