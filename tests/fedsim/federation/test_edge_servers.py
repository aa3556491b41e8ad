"""Edge servers, by hand: two groups of two clients each, and three numbers that travel.

The clients pull the numbers half-way to 8, 16, 24 and 80 with every iteration.
"""

from pathlib import Path
from typing import Any

import pytest
from torch import nn

from fedsim import RunConfig, UsageError, load, run
from fedsim.network import parse
from fedsim.results.schema import read_summary
from fedsim.show.times import priced
from tests.support.runs import assert_same, clients, small
from tests.support.threes import MODEL, give_links, last, table, threes

TARGETS = (8.0, 16.0, 24.0, 80.0)
TREE = "compute=1s, up=120bit, topology=tree(groups=2, up=60bit, down=40bit, latency=1s{})"


def trained(make_task: Any, folder: Path, method: str = "", **settings: Any) -> RunConfig:
    task = make_task(**threes(TARGETS, samples=1, more=settings.pop("more", 0)))
    network = TREE.format(f", method={method}" if method else "")
    given = {"method": "raw", "temporal": 1, "rounds": 2, "network": network}
    config = RunConfig.of(task=task, **given | settings)
    run(config, folder, progress=False)
    return config


def test_means_bits_and_seconds_by_hand(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round 1, from 0: updates 4, 8, 12, 40; means 6 and 26; the model is 16. Round 2: -4, 0, 4 and
    32; means -2 and 18; the model is 24.

    Clients compute for 1, 2, 3 and 1 s, and upload for 1 s. In round 1 nothing goes down but two
    latencies, to the edge server and (0 s) to the client: uploads end at 3 s of the first group and
    at 5 s of the second one. An edge server's message takes 1 s + 120 / 60 s: 8 s. In round 2 the
    model takes 1 s + 120 / 40 s to edge servers: 4 + 4 + 3 s.
    """
    give_links(monkeypatch, compute=[1.0, 2.0, 3.0, 1.0])
    trained(make_task, tmp_path)
    rows, summary = table(tmp_path), read_summary(tmp_path)
    assert last(tmp_path) == [24.0] * 3
    assert rows["up_wire_bits"].tolist() == [4 * MODEL] * 2
    assert rows["down_wire_bits"].tolist() == [0, 4 * MODEL]
    assert rows["edge_up_bits"].tolist() == [2 * MODEL] * 2
    assert rows["edge_down_bits"].tolist() == [0, 2 * MODEL]
    assert (summary["edge_up_bits"], summary["edge_down_bits"]) == (4 * MODEL, 2 * MODEL)
    assert rows["sim_seconds"].tolist() == [8.0, 11.0]
    assert clients(tmp_path)["sim_download_seconds"].tolist() == [1.0] * 4 + [4.0] * 4
    trained(make_task, tmp_path / "star", network="compute=1s")
    more = rows["total_bits"] - table(tmp_path / "star")["total_bits"]
    assert more.tolist() == [2 * MODEL, 4 * MODEL]


@pytest.mark.parametrize(("weighting", "model"), [("uniform", 8.0), ("samples", 7.0)])
def test_an_edge_server_counts_for_its_clients(
    weighting: str, model: float, make_task: Any, tmp_path: Path
) -> None:
    """Client 3 is away, so that one group has a single client. Updates 4, 8 and 12 of 2, 1 and 1
    samples: (4 + 8 + 12) / 3 = 8, and by samples (2 x 4 + 8 + 12) / 4 = 7.
    """
    away = tmp_path / "away.csv"
    away.write_text("client,seconds,available\n0,0,1\n1,0,1\n2,0,1\n3,0,0\n", encoding="utf-8")
    trained(
        make_task,
        tmp_path / "run",
        weighting=weighting,
        availability=str(away),
        cohort=3,
        rounds=1,
        more=1,
    )
    assert last(tmp_path / "run") == pytest.approx([model] * 3)


def test_edge_servers_keep_what_they_do_not_send(make_task: Any, tmp_path: Path) -> None:
    """Each sends its largest entry of three; they have different targets.

    Round 1: means (4, 2, 1) and (8, 6, 1). They send 4 and 8 of the first entry: (6, 0, 0). Round
    2, from there: means (1, 2, 1) and (5, 6, 1), with residuals (0, 2, 1) and (0, 6, 1) it is
    (1, 4, 2) and (5, 12, 2). They send 4 and 12 of the second entry: (6, 8, 0).
    """
    targets = [(8.0, 4.0, 2.0)] * 2 + [(16.0, 12.0, 2.0)] * 2
    task = make_task(**threes(targets, samples=1))
    network = TREE.format(", method=ef(topk(0.34) | float32 | bitmap)")
    config = RunConfig.of(task=task, method="raw", temporal=1, rounds=2, network=network)
    run(config, tmp_path, progress=False)
    assert last(tmp_path) == [6.0, 8.0, 0.0]


SPARSE = {
    "network": "compute=1ms, up=1Mbit, topology=tree(groups=2)",
    "method": "ef(topk(0.01) | cnat)",
    "downlink": "sbc(0.05)",
    "checkpoint_every": 1,
    "cohort": 3,
}


def test_a_tree_has_no_price_on_another_network(make_task: Any, tmp_path: Path) -> None:
    trained(make_task, tmp_path / "tree", rounds=1)
    with pytest.raises(UsageError, match="edge servers"):
        priced(load(tmp_path / "tree"), parse("4g, compute=1s"))
    with pytest.raises(UsageError, match="edge servers"):
        priced(load(tmp_path / "tree"), parse("topology=tree(groups=2), compute=1s"))


def test_edge_servers_do_not_average_buffers(make_task: Any, tmp_path: Path) -> None:
    task = make_task(build=lambda: nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 3)))
    with pytest.raises(UsageError, match="edge servers do not average"):
        run(small(task=task, **{**SPARSE, "method": "raw"}), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_two_workers_give_the_same_numbers(tmp_path: Path) -> None:
    config = small(**SPARSE)
    run(config, tmp_path / "local", progress=False)
    run(config.but(workers=2), tmp_path / "other", progress=False)
    assert_same(tmp_path / "local", tmp_path / "other")
