"""``--local-epochs``: each client its own number of iterations, and books that know it.

Two clients pull three numbers half-way to 16 and to 64 with every iteration. The first has two
samples and the other one, in batches of one: an epoch of theirs has two iterations and one.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, Task, load, run
from fedsim.network import parse as parse_network
from fedsim.results.schema import read_summary
from fedsim.show.times import priced
from tests.support.runs import clients
from tests.support.threes import MODEL, give_links, last, table, threes

NETWORK = "down=120bit, up=120bit, compute=1s"


def two(make_task: Any, **fields: Any) -> Task:
    task: Task = make_task(**threes([16.0, 64.0], samples=1, more=1, **fields))
    return task


def epochs(task: Task, folder: Path, **settings: Any) -> RunConfig:
    given = {"method": "raw", "rounds": 2, "local_epochs": 1} | settings
    config = RunConfig.of(task=task, **given)
    run(config, folder, progress=False)
    return config


@pytest.mark.parametrize(
    ("count", "n", "models"), [(1, [2, 1], [22.0, 30.25]), (2, [4, 2], [31.5, 36.421875])]
)
def test_every_client_does_its_own_epochs(
    count: int, n: list[int], models: list[float], make_task: Any, tmp_path: Path
) -> None:
    """n iterations leave 2^-n of the way to the target; the model is the mean of both ends.

    E = 1: from 0 to 12 and 32, whose mean is 22; from there to 17.5 and 43. E = 2: from 0 to 15 and
    48, so 31.5; from there to 16.96875 and 55.875.
    """
    task, mean = two(make_task), sum(n) / 2
    for rounds, model in enumerate(models, start=1):
        epochs(task, tmp_path / f"{rounds}", local_epochs=count, rounds=rounds)
        assert last(tmp_path / f"{rounds}") == [model] * 3
    rows, summary = table(tmp_path / "2"), read_summary(tmp_path / "2")
    assert clients(tmp_path / "2")["local_iterations"].tolist() == n * 2
    assert rows["used_iterations"].tolist() == [mean] * 2
    assert rows["local_iterations"].tolist() == [max(n)] * 2
    assert rows["iteration"].tolist() == [int(mean + 0.5), 2 * mean]
    assert (summary["temporal"], summary["local_epochs"], summary["rounds"]) == (count, count, 2)
    assert summary["iterations"] == 2 * mean and summary["total_sparsity"] == 1 / mean
    assert summary["ratio_wire"] == 32 * 3 * 2 * mean / (2 * MODEL)
    assert {"sent_fraction", "down_order_bits"}.isdisjoint(rows)  # nothing is ordered or charged


def test_the_clock_and_a_price_have_the_time_of_each(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iterations take 0.5 s and 2 s: two and one of them train for 1 s and 2 s."""
    give_links(monkeypatch, compute=[0.5, 2.0])
    epochs(two(make_task), tmp_path, network=NETWORK)
    assert clients(tmp_path)["sim_compute_seconds"].tolist() == [1.0, 2.0] * 2
    own = table(tmp_path)["sim_seconds"].tolist()
    assert own == [2 + 1, 1 + 2 + 1]  # the first model is known, and an upload takes a second
    again = priced(load(tmp_path), parse_network(NETWORK))["sim_seconds"].tolist()
    assert again == pytest.approx(own, abs=1e-9)


@pytest.mark.parametrize("more", [{}, {"controller": "fixed"}], ids=["no controller", "fixed"])
def test_no_iteration_counts_where_no_update_comes(
    more: dict[str, Any], make_task: Any, tmp_path: Path
) -> None:
    """An upload takes a second, and a round half a second."""
    epochs(two(make_task), tmp_path, network=NETWORK, deadline="0.5s", late="drop", **more)
    summary = read_summary(tmp_path)
    assert (summary["iterations"], summary["rounds"]) == (0, 2)
    assert math.isnan(summary["total_sparsity"])
