"""Asynchronous servers by hand: links that all share, models that are free, and who is drawn next.

Three clients with unlike links and compute, whose uploads share 24 bit/s at the server and whose
downloads share 22 bit/s. A model and an update have 120 bits; two iterations go three quarters of
the way to a client's target. The model that all know at first costs a download's latency alone, as
often as it is sent.
"""

from pathlib import Path
from typing import Any

import pytest

from fedsim import RunConfig, run
from fedsim.network.pricing import SECONDS
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import clients, make_task
from tests.support.threes import give_links, last, table, threes

__all__ = ["make_task"]  # the fixture

NETWORK = "server_up=24bit, server_down=22bit, compute=1s"
LINKS = {
    "up": [60, 60, 8],
    "down": [6, 18, 20],
    "latency": [0.5, 0.5, 1],
    "compute": [1.5, 2.5, 0.5],
}
TARGETS = [16.0, 64.0, 32.0]


def ran(task: Any, folder: Path, **settings: Any) -> Any:
    """The updates of a run in their order."""
    common = {"method": "raw", "temporal": 2, "iterations": 4, "network": NETWORK}
    run(RunConfig.of(task=task.name, **common | settings), folder)
    return clients(folder)


def test_fedbuff_s_arrivals_over_three_buffers(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first downloads are free, so that uploads begin at 3.5, 5.5 and 2 s.

    Up, 24 bit/s for all: client 2 has its 8, and client 0 the 16 beside it, until client 1 joins;
    then each has 8. Client 0 has sent 32 bits by 5.5 s and is through at 16.5 s; client 1 has 32
    bits left then, of which 8 pass at 16 bit/s until client 2 is through, at 17 s, and 24 in a
    last second. Arrivals: 17 (client 0), 18 (client 2, fills the buffer) and 18.5 (client 1).

    Client 0 was asked at 17, when the model had not moved: it is sent it free again, sends from
    20.5 to 25.5 alone, and fills the second buffer at 26 s.
    Down, 22 bit/s for all: client 2 from 18 s at its 20, with client 1 from 18.5 s at 11 each. At
    26 s they have 27.5 and 37.5 bits left, and client 0 joins with its 6: they have 8 each. Client
    2 is through at 29.4375 s; client 1 has 10 bits left, for which it has 16 bit/s: 30.0625 s.
    Up again: client 2 from 31.4375 s at 8, 15 s long; client 1 from 35.5625 s at 16, 7.5 s long.
    Client 1 comes at 43.5625 s and client 2 at 47.4375 s, which fills the third buffer.

    Weights 1 / (1 + s). The model: (12 + 24) / 2 = 18; + (48 / 2 + 12 / 2) / 2 = 33; clients 1 and
    2, from 18, go 34.5 and 10.5: + (34.5 / 2 + 10.5 / 2) / 2 = 44.25.
    """
    give_links(monkeypatch, **LINKS)
    settings = {"strategy": "fedbuff", "buffer_size": 2, "staleness": "polynomial(1)"}
    came = ran(make_task(**threes(TARGETS)), tmp_path, **settings)
    assert came["client"].tolist() == [0, 2, 1, 0, 1, 2]
    assert came["sim_end_seconds"].tolist() == pytest.approx(
        [17, 18, 18.5, 26, 43.5625, 47.4375], abs=1e-9
    )
    assert came["staleness"].tolist() == [0, 0, 1, 1, 1, 1]
    assert came["message"].tolist() == [1, 1, 1, 2, 2, 2]
    assert came["down_wire_bits"].tolist() == [0, 0, 0, 0, 120, 120]
    parts = came[list(SECONDS)].to_numpy().tolist()
    assert parts[0] == pytest.approx([0.5, 3, 13.5, 0], abs=1e-9)
    assert parts[3] == pytest.approx([0.5, 3, 5.5, 0], abs=1e-9)
    assert parts[5] == pytest.approx([12.4375, 1, 16, 0], abs=1e-9)
    rows = table(tmp_path)
    assert rows["sim_end_seconds"].tolist() == pytest.approx([18.5, 47.4375], abs=1e-9)
    assert rows["sim_seconds"].tolist() == pytest.approx([18.5, 28.9375], abs=1e-9)
    assert rows[["version", "buffered", "in_flight"]].to_numpy().tolist() == [[1, 1, 2], [3, 0, 2]]
    assert rows["staleness"].tolist() == pytest.approx([1 / 3, 1])
    assert rows["staleness_max"].tolist() == [1, 1] and rows["iteration"].tolist() == [2, 4]
    assert last(tmp_path) == [44.25] * 3


def test_two_workers_that_serve_each_other(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Worker 0 holds one number, worker 1 two: parts of 56 and 88 bits. 1 s for both latencies.

    From 0 to 1 go 8 bit/s (the upload link of 0), from 1 to 0 16 bit/s (the download link of 0).
    Both have the model, free, at 1 s, and push to themselves at 3.5 and 6 s. Worker 1's push is
    through at 9.5 s and there at 10.5 s, and its pull begins, beside worker 0's push, of which 32
    bits are left: 4 bit/s each. The push is through at 18.5 s, there at 19.5 s; the pull has 24
    bits left and is there at 22.5 s. Worker 0 pulls until 26 s. They push to themselves at 28.5 and
    27.5 s. Worker 1's push is there at 32 s, and its pull shares with worker 0's push, of which 60
    bits are left: 56 pass by 46 s, the last 4 by 46.5 s, and the push is there at 47.5 s.

    Part 0: 8, + 16 (of a gradient at 0), + 4 (at 8), + 4 (at 24). Part 1, worker 1 first: 16, + 8
    (at 0), + 8 (at 16), - 4 (at 24).
    """
    give_links(monkeypatch, up=[8, 32], down=[16, 16], latency=[0.25, 0.75], compute=[2.5, 5])
    settings = {"strategy": "sharded", "temporal": 1, "iterations": 2, "network": "compute=1s"}
    task = make_task(**threes([16.0, 32.0]))
    came = ran(task, tmp_path, **settings)
    assert came["client"].tolist() == [1, 0, 1, 0]
    assert came["sim_end_seconds"].tolist() == pytest.approx([10.5, 19.5, 32, 47.5], abs=1e-9)
    assert came["staleness"].tolist() == [0.5, 0.5, 1, 1]
    assert came["up_wire_bits"].tolist() == [56, 88, 56, 88]
    assert came["down_wire_bits"].tolist() == [0, 0, 56, 88]
    parts = came[list(SECONDS)].to_numpy().tolist()
    assert parts == [[1, 5, 4.5, 0], [1, 2.5, 16, 0], [12, 5, 4.5, 0], [6.5, 2.5, 19, 0]]
    assert last(tmp_path) == [32, 28, 28]
    stopped = tmp_path / "stopped"
    config = RunConfig.of(task=task.name, method="raw", checkpoint_every=1, **settings)
    with pytest.raises(Stopped):
        run(config, stopped, callbacks=[stop_after(1)])
    again = ran(task, stopped, checkpoint_every=1, **settings)
    assert again[["sim_end_seconds", *SECONDS]].equals(came[["sim_end_seconds", *SECONDS]])
    assert last(stopped) == [32, 28, 28]


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
