"""A run's clock from the messages that it sends: every byte that travels takes its time, no other.

A model or an update of three numbers has 15 bytes; the first model, which all know, costs its
latency alone. Orders of a controller travel in every round, the first too, and reports go up.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from compressors import explain, parse
from fedsim import RunConfig, load, run
from fedsim.network import parse as parse_network
from fedsim.network.pricing import SECONDS
from fedsim.settings.controllers import CONTROLLERS, ListedController
from fedsim.show.times import priced
from tests.support.models import normed
from tests.support.runs import clients, make_task, payloads
from tests.support.threes import MODEL, give_links, table, threes

__all__ = ["make_task"]  # the fixture

LIKE = {"w": torch.zeros(3)}


def test_three_rounds_of_three_clients_that_share_both_ways(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uploads share 90 bit/s, clients 0 and 1 taking 60 at most and client 2 taking 30.

    Round 1: they begin to send at 1, 1.5 and 2.5 s. Client 0 has sent 30 bits by 1.5 s and 45 more
    by 2.5 s, beside client 1; then all have 30: client 0 is through at 4 s. Client 1 has 30 bits
    left, and 60 bit/s beside client 2's 30: 4.5 s. Client 2 has sent 60 by then: 6.5 s. With the
    latencies 4.25, 5 and 7 s.

    Round 2: downloads share 160 bit/s, client 2 taking 40 at most: 60, 60 and 40, so that they last
    2, 2 and 3 s. They begin to send after 3, 3.5 and 5.5 s. Client 0 is through after 5.5 s: 30
    bits alone, 90 at 45 bit/s. Client 1 has 30 left then, at 60 bit/s: 6 s. Client 2 takes 4 s:
    9.5 s. So they come after 5.75, 6.5 and 10 s; and so in round 3.
    """
    give_links(
        monkeypatch,
        up=[60, 60, 30],
        down=[120, 120, 40],
        latency=[0.25, 0.5, 0.5],
        compute=[0.75, 1, 2],
    )
    task = make_task(**threes([16.0, 32.0, 64.0]))
    network = "server_up=90bit, server_down=160bit, compute=1s"
    common = {"method": "raw", "temporal": 1, "iterations": 3, "network": network}
    run(RunConfig.of(task=task.name, keep_payloads=True, **common), tmp_path)
    rows, came = table(tmp_path), clients(tmp_path)
    assert rows["sim_seconds"].tolist() == pytest.approx([7, 10, 10], abs=1e-9)
    assert rows["sim_end_seconds"].tolist() == pytest.approx([7, 17, 27], abs=1e-9)
    later = [[2.25, 0.75, 2.75, 4.25], [2.5, 1, 3, 3.5], [3.5, 2, 4.5, 0]]
    parts = [[0.25, 0.75, 3.25, 2.75], [0.5, 1, 3.5, 2], [0.5, 2, 4.5, 0], *later, *later]
    for found, wanted in zip(came[list(SECONDS)].to_numpy().tolist(), parts, strict=True):
        assert found == pytest.approx(wanted, abs=1e-9)
    assert came["up_wire_bits"].eq(MODEL).all()
    assert came["down_wire_bits"].tolist() == [0] * 3 + [MODEL] * 6
    again = priced(load(tmp_path), parse_network(network))  # of the messages alone
    assert again["sim_seconds"].tolist() == pytest.approx([7, 10, 10], abs=1e-9)
    every = [data for name, data in payloads(tmp_path).items() if name.endswith(".bin")]
    for payload in every:
        assert explain(parse("raw"), payload, LIKE)["header"] == 24 and 8 * len(payload) == MODEL


def test_rounds_on_a_link_that_changes(make_task: Any, tmp_path: Path) -> None:
    """Up 120 bit/s for 5 s and 40 bit/s for 5 s, again and again; down 120 bit/s; 1 s of training.

    Round 1: until 2 s. Round 2: 1 s down, and the upload from 4 to 5 s. Round 3: the upload from 7
    to 10 s. Round 4: until 13 s. Round 5: down until 14 s, and 15 to 18 s. The messages alone have
    the same times.
    """
    (tmp_path / "links.csv").write_text("seconds,up,down\n0,120,120\n5,40,120\n")
    network = f"trace={tmp_path / 'links.csv'}, compute=1s"
    task = make_task(**threes([16.0]))
    common = {"method": "raw", "temporal": 1, "iterations": 5, "network": network}
    run(RunConfig.of(task=task.name, **common), tmp_path / "run")
    again = priced(load(tmp_path / "run"), parse_network(network))
    for rows in (table(tmp_path / "run"), again):
        assert rows["sim_seconds"].tolist() == [2, 3, 5, 3, 5]
        assert rows["sim_end_seconds"].tolist() == [2, 5, 10, 13, 18]


TOPK = "topk({p}) | float32 | bitmap"
"""One entry of three: 4 bytes of header and bitmap, and 4 of the value."""

BYTES: dict[str, tuple[dict[str, Any], tuple[int, int], int]] = {
    "no orders": ({"method": "raw"}, (0, 15), 15),
    "n": ({"method": "raw", "controller": "fixed"}, (1, 16), 15),
    "n above 127": ({"method": "raw", "controller": "fixed", "temporal": 128}, (2, 17), 15),
    "n and p": ({"method": TOPK, "gradient": 0.34, "controller": "fixed"}, (3, 18), 8),
    "n and a report": ({"method": "raw", "controller": "adacomm(999)"}, (1, 16), 19),
    "an update down": (
        {"method": "raw", "controller": "fixed", "downlink": TOPK.format(p=0.34)},
        (1, 9),
        15,
    ),
    "two reports": ({"method": "raw", "controller": "two_reports"}, (1, 16), 23),
}
"""Settings; bytes down in the first round and in later ones; bytes up."""


@dataclass(frozen=True)
class TwoReports:
    """What a user's own controller may want."""

    needs: ClassVar[tuple[str, ...]] = ("train_loss", "update_norm")
    moves: ClassVar[tuple[str, ...]] = ()

    def choose(self, told: Any, memory: Any) -> Any:
        return told.base, memory


@pytest.fixture
def reporting(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ListedController(TwoReports, "", "this test", "two_reports")
    monkeypatch.setitem(CONTROLLERS, "two_reports", row)


@pytest.mark.usefixtures("reporting")
@pytest.mark.parametrize("name", BYTES)
def test_a_byte_takes_a_second(name: str, make_task: Any, tmp_path: Path) -> None:
    """8 bit/s both ways, 3 s of training, and 1 s of latency: 5 s beside the bytes."""
    settings, (first, later), up = BYTES[name]
    n = settings.get("temporal", 2)
    given = {"temporal": n, "iterations": 3 * n, **settings}
    network = f"up=8bit, down=8bit, latency=1s, compute={3 / n}s"
    task = make_task(**threes([16.0]))
    run(RunConfig.of(task=task.name, network=network, **given), tmp_path)
    expected = [5 + first + up, 5 + later + up, 5 + later + up]
    assert table(tmp_path)["sim_seconds"].tolist() == pytest.approx(expected, abs=1e-9)
    bits = table(tmp_path)[["down_wire_bits", "up_wire_bits"]].to_numpy().tolist()
    assert bits == [[8 * down, 8 * up] for down in (first, later, later)]


def test_the_run_s_iterations_travel_where_the_rate_has_steps(
    make_task: Any, tmp_path: Path
) -> None:
    """n = 64; the iterations before each round are 0, 64 and 128, the last of them two bytes."""
    task = make_task(**threes([16.0], lr_steps=((64, 0.5),)))
    common = {"method": "raw", "temporal": 64, "iterations": 192, "controller": "fixed"}
    run(RunConfig.of(task=task.name, network="up=8bit, down=8bit, compute=0s", **common), tmp_path)
    assert table(tmp_path)["sim_seconds"].tolist() == [2 + 15, 17 + 15, 18 + 15]
    assert table(tmp_path)["down_order_bits"].tolist() == [16, 16, 24]


def test_buffers_travel_beside_the_model(make_task: Any, tmp_path: Path) -> None:
    """24 + 4 weights of the first layer, 4 + 4 of the norm, 12 + 3 of the last; 8 statistics."""
    task = make_task(build=normed, clients=1)
    common = {"method": "raw", "temporal": 1, "iterations": 2, "keep_payloads": True}
    run(RunConfig.of(task=task.name, network="up=8bit, down=8bit, compute=0s", **common), tmp_path)
    lengths = {name: len(data) for name, data in payloads(tmp_path).items()}
    for name in ("round-00001/client-000-up", "round-00002/client-000-up"):
        assert lengths[f"{name}.bin"] == 51 * 4 + 3 and lengths[f"{name}.buffers"] == 8 * 4 + 3
    assert table(tmp_path)["sim_seconds"].tolist() == [207 + 35, 2 * (207 + 35)]
