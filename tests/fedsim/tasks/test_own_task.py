"""Tasks of a user's own: given in Python, under 40 lines, to runs, sweeps and other processes."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fedsim import TASKS, Clients, Data, RunConfig, SweepConfig, Task, UsageError, run
from fedsim.federation.clientdata import ClientData
from fedsim.tasks.base import correct, cross_entropy
from tests.support.markdown import ROOT, blocks

PAGE, CSV, *_ = (b.text for b in blocks(ROOT / "docs" / "own-task.md") if b.language == "python")
TASK, USE = PAGE.split("result = ")


@pytest.fixture
def spirals(monkeypatch: pytest.MonkeyPatch) -> Task:
    """The page's task, as a notebook's cell defines it."""
    names: dict[str, Any] = {}
    exec(TASK, names)
    monkeypatch.setitem(TASKS, "spirals", names["spirals"])  # and out again
    return names["spirals"]


def test_the_page_needs_less_than_40_lines() -> None:
    assert len(TASK.strip().splitlines()) < 40


@pytest.mark.slow
def test_the_page_reads_a_file(spirals: Task, tmp_path: Path) -> None:
    table = np.random.default_rng(1).normal(size=(500, 3))
    table[:, 2] = table[:, 0] > table[:, 1]
    np.savetxt(tmp_path / "mine.csv", table, delimiter=",", header="a,b,class")
    names: dict[str, Any] = {}
    exec(CSV, names)
    data = names["load"](tmp_path, False)
    assert (data.train_x.shape, data.test_x.shape) == ((400, 2), (100, 2))
    assert torch.equal(data.train_y, (data.train_x[:, 0] > data.train_x[:, 1]).long())
    task = replace(spirals, load=names["load"])
    config = RunConfig.of(task=task, data=str(tmp_path), method="sbc(0.1)", iterations=200)
    assert run(config, tmp_path / "out").summary["metric"] > 0.9


def test_a_name_is_enough_once_it_is_in_the_table(spirals: Task) -> None:
    by_name, itself = RunConfig(task="spirals"), RunConfig(task=spirals)
    assert by_name == itself
    assert by_name.plan.task is spirals


def test_a_cell_that_is_run_again_counts(spirals: Task) -> None:
    """A notebook's second definition of a name takes the place of the first."""
    before = RunConfig(task=spirals)
    after = RunConfig(task=replace(spirals, batch_size=10))
    assert before != after
    assert (before.plan.batch_size, after.plan.batch_size) == (32, 10)
    assert RunConfig(task="spirals") == after


def test_one_of_fedsims_is_kept_by_its_name() -> None:
    assert RunConfig(task=TASKS["digits"]) == RunConfig(task="digits")
    assert RunConfig(task=TASKS["digits"]).task == "digits"


def test_a_config_brings_its_task_along(make_task: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    task = make_task(build=nn.Identity, load=_load, optimizer=torch.optim.Adam)
    sent = pickle.dumps(RunConfig(task=task))
    monkeypatch.delitem(TASKS, task.name)
    config = pickle.loads(sent)
    assert config == RunConfig(task=task)
    assert TASKS[task.name] == task


# ---- what is refused


def _load(folder: Any, download: bool) -> Data:
    x = torch.zeros(8, 2)
    return Data(x, torch.zeros(8, dtype=torch.int64), x, torch.zeros(8, dtype=torch.int64), "zeros")


def own(**fields: Any) -> Task:
    given: dict[str, Any] = {
        "name": "own",
        "build": nn.Identity,
        "load": _load,
        "optimizer": torch.optim.Adam,
        "loss": cross_entropy,
        "metric": correct,
    }
    return Task(**(given | fields))


def test_a_name_that_is_taken() -> None:
    with pytest.raises(UsageError, match="'digits': fedsim has one of that name"):
        RunConfig(task=own(name="digits"))
    assert TASKS["digits"].title


def test_a_table_that_says_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, "mine", own())
    with pytest.raises(UsageError, match="'mine': TASKS has 'own' there"):
        RunConfig(task="mine")


def test_neither_a_name_nor_a_task() -> None:
    with pytest.raises(UsageError, match="task is 3; it takes str or Task"):
        RunConfig(task=3)
    with pytest.raises(UsageError, match="task is 3; it takes str"):
        SweepConfig.of(task=3)


Y = torch.zeros(8, dtype=torch.int64)


def test_a_split_by_labels_needs_labels(make_task: Any) -> None:
    y = torch.zeros(8, 5, dtype=torch.int64)
    task = make_task(load=lambda folder, download: Data(Y, y, Y, y, ""))
    with pytest.raises(UsageError, match=r"'shards\(2\)'.* no labels .* iid or contiguous"):
        ClientData.of(RunConfig(task=task, clients=Clients(partition="shards(2)")))
    assert len(ClientData.of(RunConfig(task=task, clients=Clients(partition="iid"))).shards) == 3


def test_labels_are_what_a_split_goes_by(make_task: Any) -> None:
    labels = torch.arange(8) % 2
    task = make_task(load=lambda folder, download: Data(Y, Y, Y, Y, "", labels=labels), clients=2)
    shards = ClientData.of(RunConfig.of(task=task, partition="pathological(1)")).shards
    assert [set(labels[torch.from_numpy(shard)].tolist()) for shard in shards] == [{0}, {1}]
