"""Partitions by name from flwr-datasets, from a CSV file, from a function of the user's."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset
from flwr_datasets import partitioner as flower

from fedsim import Clients, Evaluation, RunConfig
from fedsim.federation import ClientData
from fedsim.ground.errors import PlacedError, UsageError
from fedsim.runs.verify.permissions import Permissions
from fedsim.settings.trust_check import check_trust as check_trusted
from fedsim.tasks.data.filesplits import check_shards
from fedsim.tasks.data.flowersplits import ROWS
from fedsim.tasks.data.partition import check_partition, split

LABELS = np.repeat(np.arange(4), 25)
NAMED = {
    "ContinuousPartitioner(strictness=1)": 4,
    "DirichletPartitioner(alpha=(1, 2, 3, 4), min_partition_size=2, self_balancing=true)": 4,
    "DistributionPartitioner(distribution_array=((1, 2), (3, 4), (5, 6), (7, 8)), "
    "num_unique_labels_per_partition=2, preassigned_num_samples_per_label=1)": 4,
    "ExponentialPartitioner()": 4,
    "GroupedNaturalIdPartitioner(group_size=2)": 2,
    "IidPartitioner()": 4,
    "InnerDirichletPartitioner(alpha=0.5)": 4,
    "LinearPartitioner()": 4,
    "NaturalIdPartitioner()": 4,
    "PathologicalPartitioner(num_classes_per_partition=2, class_assignment_mode=deterministic)": 4,
    "ShardPartitioner(shard_size=10)": 4,
    "SizePartitioner(partition_sizes=(10, 20, 30))": 3,
    "SquarePartitioner()": 4,
}


@pytest.mark.parametrize("spec", NAMED)
def test_every_partitioner_of_rows_can_be_named(spec):
    check_partition(spec)
    feature = np.arange(100) / 100.0
    parts, again = (split(LABELS, NAMED[spec], spec, 3, feature) for _ in range(2))
    assert [p.tolist() for p in parts] == [p.tolist() for p in again]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together)
    if spec.startswith("Size"):
        assert [len(part) for part in parts] == [10, 20, 30]
    if spec.startswith("Continuous"):  # strictly by the feature: stretches
        assert [part.tolist() for part in parts] == np.arange(100).reshape(4, 25).tolist()


def test_the_list_of_partitioners_is_that_of_flwr_datasets():
    others = {"Partitioner", "IdToSizeFncPartitioner"}
    rows = {name for name in flower.__all__ if not name.startswith("Vertical")} - others
    assert {*ROWS} == rows == {spec.partition("(")[0] for spec in NAMED}


def test_a_named_partitioner_deals_as_that_of_flwr_datasets():
    order = np.random.default_rng(3).permutation(100)
    theirs = flower.ShardPartitioner(4, "label", shard_size=10, shuffle=False, seed=3)
    theirs.dataset = Dataset.from_dict({"label": LABELS[order], "sample": order})
    for i, part in enumerate(split(LABELS, 4, "ShardPartitioner(shard_size=10)", 3)):
        assert part.tolist() == sorted(theirs.load_partition(i)["sample"])


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("NaturalIdPartitioner()", "makes 4 partitions, and --clients is 3"),
        ("SizePartitioner(partition_sizes=(60, 60, 60))", "flwr-datasets says"),
    ],
)
def test_a_partitioner_that_these_data_cannot_have(spec, words):
    with pytest.raises(UsageError, match=words):
        split(LABELS, 3, spec, 0)


def test_a_run_goes_by_the_mean_of_the_inputs():
    spec = "ContinuousPartitioner(strictness=1)"
    shards = ClientData.of(RunConfig(clients=Clients(3, partition=spec))).shards
    by_rank = ClientData.of(RunConfig(clients=Clients(3, partition="feature"))).shards
    shared = [len(np.intersect1d(a, b)) / len(a) for a, b in zip(shards, by_rank, strict=True)]
    assert min(shared) > 0.98  # samples of equal brightness at a cut


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, text: str) -> str:
    (folder / "split.csv").write_text(text)
    return "split.csv"


def run(partition: str, clients: int = 2, **settings) -> RunConfig:
    return RunConfig(clients=Clients(clients, partition=partition), **settings)


def test_a_file_says_who_holds_what(folder):
    (folder / "split.csv").write_text("index, client\n7,1\n3,0\n\n5,1\n")
    config = run("split.csv")
    assert [part.tolist() for part in ClientData.of(config).shards] == [[3], [5, 7]]


def test_a_run_of_a_file_is_named_by_what_the_file_holds(folder):
    text = "client,index\n0,3\n1,7\n"
    first = run(written(folder, text)).digest
    (folder / "there").mkdir()
    (folder / "there" / "other.csv").write_text(text)
    assert run("there/other.csv").digest == first
    old = run("split.csv")
    assert run(written(folder, text + "1,8\n")).digest != first
    with pytest.raises(UsageError, match="--partition is 'split.csv': the file has changed"):
        ClientData.of(old)


@pytest.mark.parametrize(
    ("text", "clients", "words"),
    [
        ("client,sample\n0,1\n", 1, "give client,index"),
        ("client,index\n0,1\n1,9999\n", 2, "line 3 is '1,9999'; .* from 0 to "),
        ("client,index\n0,1\n1,-1\n", 2, "line 3 is '1,-1'"),
        ("client,index\n0,1.5\n", 1, "line 2 is '0,1.5'"),
        ("client,index\n0,1\n1,1\n", 2, "clients 0 and 1 both have the sample 1"),
        ("client,index\n0,1\n0,1\n", 1, "client 0 has the sample 1 twice"),
        ("client,index\n0,1\n2,5\n", 3, "client 1 of 3 has no samples"),
        ("client,index\n0,1\n1,5\n", 4, "2 clients, and --clients is 4; give --clients 2"),
    ],
)
def test_a_file_that_cannot_be_is_refused(folder, text, clients, words):
    with pytest.raises(UsageError, match=f"--partition is 'split.csv': .*{words}"):
        ClientData.of(run(written(folder, text), clients))


def test_a_file_that_is_not_there_is_refused_at_once(folder):
    with pytest.raises(UsageError, match="'none.csv': none.csv cannot be read"):
        run("none.csv")


DEAL = """
import numpy as np

STEP = 2


def deal(labels, clients, seed):
    return [np.flatnonzero(labels == client)[::STEP] for client in range(clients)]


def late(labels, clients, seed):
    return labels[seed + 10**9]
"""


def test_a_function_deals_the_samples(folder):
    (folder / "mine.py").write_text(DEAL)
    config = run("mine.py:deal", 10)
    held = ClientData.of(config)
    y = held.data.train_y.numpy()
    assert [part.tolist() for part in held.shards] == [
        np.flatnonzero(y == c)[::2].tolist() for c in range(10)
    ]
    (folder / "mine.py").write_text(DEAL.replace("STEP = 2", "STEP = 3"))
    assert run("mine.py:deal", 10).digest != config.digest
    for name, words in (("late", "IndexError"), ("none", "'none' is not there")):
        with pytest.raises(UsageError, match=words):
            ClientData.of(run(f"mine.py:{name}", 10))


def test_a_function_that_only_settings_name_is_not_executed():
    with pytest.raises(PlacedError, match="its partition is 'mine.py:deal@0123456789abcdef'"):
        check_trusted({"partition": "mine.py:deal@0123456789abcdef"}, "run.toml")
    check_trusted({"partition": "mine.py:deal@0123456789abcdef"}, "run.toml", ["mine.py:deal"])


def test_a_folder_of_a_stranger_s_opens_no_file_of_a_partition(folder):
    for name, words in (("other.csv", "--file other.csv"), ("mine.py:deal", "--own mine.py:deal")):
        (folder / "run").mkdir(exist_ok=True)
        (folder / "run" / "config.toml").write_text(f'partition = "{name}@0123456789abcdef"\n')
        with pytest.raises(UsageError, match=f"its partition .*{words}"):
            Permissions().values(folder / "run" / "config.toml")


def test_validation_takes_its_samples_out_of_given_shards(folder):
    rows = "".join(f"{i % 2},{i}\n" for i in range(100))
    whole = ClientData.of(run(written(folder, f"client,index\n{rows}"))).shards
    config = run("split.csv", evaluation=Evaluation(validation=0.5))
    for all_of_it, left in zip(whole, ClientData.of(config).shards, strict=True):
        assert 0 < len(left) < len(all_of_it) and {*left} < {*all_of_it}
    single = run(written(folder, "client,index\n0,0\n1,1\n"), evaluation=config.evaluation)
    with pytest.raises(UsageError, match=r"--validation is 0\.5: it takes all 1 samples of client"):
        for seed in range(20):
            ClientData.of(single.but(seed=seed))


def test_shards_are_whole_numbers():
    for parts, words in (
        ([[0.5]], "float64"),
        ([[[1]]], r"shape \(1, 1\)"),
        ({0: [1]}, "it gives a dict"),
    ):
        with pytest.raises(UsageError, match=f"mine: .*{words}"):
            check_shards(parts, 3, 1, "mine")
