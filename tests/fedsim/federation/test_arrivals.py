"""Asynchronous servers by hand: what comes at the very end, and who drops out."""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, run
from tests.support.runs import clients
from tests.support.threes import give_links, last, table, threes

NETWORK = "server_up=24bit, server_down=22bit, compute=1s"


def ran(task: Any, folder: Path, **settings: Any) -> Any:
    """The updates of a run in their order."""
    common = {"method": "raw", "temporal": 2, "iterations": 4, "network": NETWORK}
    run(RunConfig.of(task=task.name, **common | settings), folder)
    return clients(folder)


def test_what_comes_at_the_very_end_comes_too_late(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches of 1 and 2 s: at 2 s come client 1's first, which ends the run, and client 0's next.

    Half-way to 16, and half-way from 0 to 32: 8 + 16. Client 0's next would have brought 4.
    """
    give_links(monkeypatch, compute=[1, 2])
    settings = {"strategy": "fedbuff", "buffer_size": 1, "staleness": "constant", "temporal": 1}
    task = make_task(**threes([16.0, 32.0]))
    came = ran(task, tmp_path, iterations=1, network="compute=1s", **settings)
    assert came["client"].tolist() == [0, 1] and came["sim_end_seconds"].tolist() == [1, 2]
    assert table(tmp_path)[["version", "in_flight"]].to_numpy().tolist() == [[2, 1]]
    assert last(tmp_path) == [24] * 3


def test_so_does_a_push_that_comes_at_the_very_end(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above with two workers. What worker 0 pushes to itself at 2 s takes no time, and is there
    before worker 1's push, which ends the run: 8 + 4 + 16. Part 1 does without: 8 + 16.
    """
    give_links(monkeypatch, compute=[1, 2])
    settings = {"strategy": "sharded", "temporal": 1, "iterations": 1, "network": "compute=1s"}
    came = ran(make_task(**threes([16.0, 32.0])), tmp_path, **settings)
    assert came["client"].tolist() == [0, 1] and came["sim_end_seconds"].tolist() == [1, 2]
    assert last(tmp_path) == [28, 24, 24]


def test_no_part_hears_of_a_worker_that_drops_out(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_links(monkeypatch, compute=[1, 2])
    settings = {"strategy": "sharded", "temporal": 1, "iterations": 1, "network": "compute=1s"}
    task = make_task(**threes([16.0, 32.0]))
    came = ran(task, tmp_path, dropout="after=1", **settings)
    assert came["client"].tolist() == [0, 1] and came["sim_end_seconds"].tolist() == [1, 2]
    assert came["samples"].tolist() == [0, 0] and last(tmp_path) == [0, 0, 0]
    assert set(came["failure_reasons"]) == {"dropped out after training"}
