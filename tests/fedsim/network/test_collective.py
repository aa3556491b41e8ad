"""A ring allreduce, and coding, on the clock: by hand from links, bits and seconds."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim import run
from fedsim.network import Links, parse
from fedsim.network.pricing import PRICED_COLUMNS, ends_over_rates, price
from fedsim.network.rates import Rate
from fedsim.network.spec import ring
from fedsim.show import priced
from tests.support.runs import clients, rounds, small

RING = "up=100kbit, down=1Mbit, latency=50ms, compute=20ms, topology=allreduce"


def test_a_ring_of_unlike_links_by_hand() -> None:
    """Three clients; the slowest link takes 2 bit/s. A model of 12 bits goes in thirds of 4 bits.

    A step takes 2 s, and the greatest latency of two neighbours, 1 + 3 s: 6 s. Two steps sum up,
    two bring the sum: 12 s as if up, 12 s as if down.
    """
    up, down = ([Rate.constant(x) for x in rates] for rates in ((4.0, 2.0, 8.0), (9.0, 9.0, 3.0)))
    links = ring(Links(up, down, np.array([1.0, 3.0, 0.5]), np.zeros(3), math.inf, math.inf))
    for rate in (*links.up, *links.down):
        assert rate.is_constant and 12 / rate.values[0] == 4.0  # two steps of 2 s
    assert links.latency.tolist() == [8.0] * 3  # two of 4 s


def test_one_client_has_nobody_to_send_to() -> None:
    links = parse("up=1bit, down=1bit, latency=1s, compute=0s, topology=allreduce").links(1, 0, 0.0)
    assert (links.up[0].values[0], links.latency.tolist()) == (math.inf, [0.0])


def test_two_rounds_by_hand() -> None:
    """Four clients, 8000 bits, 1 kbit/s: half a ring takes 3 / 4 of 8 s, a whole one 12 s.

    The first model is known: round 1 takes its 2 s of training and half a ring.
    """
    columns = {"local_iterations": [1, 1], "train_seconds": [1.0, 1.0]}
    frame = pd.DataFrame({"round": [1, 2], "clients": [4, 4], **columns})
    told = pd.DataFrame(
        [[number, c, 60, 8000, 8000 * (number > 1), 0] for number in (1, 2) for c in range(4)],
        columns=PRICED_COLUMNS,
    )
    network = parse("up=1kbit, down=1kbit, compute=2s, topology=allreduce")
    table, _ = price(frame, told, network, 4, seed=0)
    assert table["sim_seconds"].tolist() == [8.0, 14.0]
    rates = np.array([1e3, 2e3])
    ends = ends_over_rates(frame, told, network, 4, 0, rates)
    assert ends.tolist() == [[8.0, 5.0], [22.0, 13.0]]


def test_a_run_goes_by_its_ring_and_so_does_its_price(tmp_path: Path) -> None:
    """Seconds of a round: 100 ms of training, and 1.5 models and 6 latencies of 100 ms."""
    run(small(method="raw", network=RING), tmp_path / "ring")
    run(small(method="raw"), tmp_path / "star")
    model = rounds(tmp_path / "ring")["up_wire_bits"].iloc[0] / 4
    frame = pd.read_parquet(tmp_path / "ring" / "rounds.parquet")
    half = 0.75 * model / 1e5 + 3 * 0.1
    assert frame["sim_upload_seconds"].tolist() == pytest.approx([half] * 4)
    assert frame["sim_seconds"].tolist()[1:] == pytest.approx([2 * half + 0.1] * 3)
    assert (tmp_path / "ring" / "model.safetensors").read_bytes() == (
        tmp_path / "star" / "model.safetensors"
    ).read_bytes()
    bits = [name for name in clients(tmp_path / "star") if name.endswith("bits")]
    assert clients(tmp_path / "star")[bits].equals(clients(tmp_path / "ring")[bits])
    again = priced(fedsim.load(tmp_path / "star"), parse(RING))
    assert again["sim_end_seconds"].tolist() == pytest.approx(frame["sim_end_seconds"].tolist())


def test_what_coding_is_times() -> None:
    assert [
        parse(f"coding={text}").coding for text in ("measured", "0.5*measured", "0*measured")
    ] == [1.0, 0.5, 0.0]
    assert parse("4g, compute=1ms").coding == 0 and not parse("compute=1ms").depends
    assert parse("compute=1ms, coding=measured").depends


@pytest.mark.parametrize(("down", "central"), [("raw", 5.0), ("relay", 0.0)])
@pytest.mark.parametrize("shared", ["", ", server_up=1Gbit"])
def test_coding_by_hand(down: str, central: float, shared: str) -> None:
    """Two clients encode 6 s and decode 2 s in all; the server decodes 3 s and encodes 2 s.

    At twice that a client spends 8 s, and, where messages are not relayed, everybody waits 10 s for
    the server. The second round took ten times as long, the third as long as the first: the median.
    """
    times = np.array([1.0, 10.0, 1.0])
    frame = pd.DataFrame(
        {
            "round": [1, 2, 3],
            "clients": 2,
            "local_iterations": 1,
            "train_seconds": 1.0,
            "encode_seconds": 6 * times,
            "receive_seconds": 2 * times,
            "decode_seconds": 3 * times,
            "downlink_seconds": 4 * times,
            "downlink": down,
        }
    )
    told = pd.DataFrame(
        [[number, c, 60, 1000, 0, 0] for number in (1, 2, 3) for c in (0, 1)],
        columns=PRICED_COLUMNS,
    )
    network = parse(f"up=1kbit, compute=3s, coding=2*measured{shared}")
    table, own = price(frame, told, network, 2, seed=0)
    assert table["sim_seconds"].tolist() == pytest.approx([3 + 8 + 1 + 2 * central] * 3)
    assert table["sim_compute_seconds"].tolist() == [11.0] * 3
    assert own["sim_waiting_seconds"].tolist() == pytest.approx([2 * central] * 6)
    ends = ends_over_rates(frame, told, network, 2, 0, np.array([1e3]))[:, 0]
    assert ends.tolist() == pytest.approx(table["sim_end_seconds"].tolist())


def spent(folder: Path, network: str, **settings: Any) -> pd.DataFrame:
    """The rounds of a run with a network."""
    run(small(network=network, **settings), folder)
    return pd.read_parquet(folder / "rounds.parquet")


@pytest.mark.parametrize("down", ["raw", "relay", "sbc(0.1)"])
def test_a_runs_own_clock_has_each_clients_coding(down: str, tmp_path: Path) -> None:
    """One client, so that its seconds are the round's; a network that takes no other time."""
    frame = spent(tmp_path, "compute=0s, coding=10*measured", clients=1, downlink=down)
    own = frame["encode_seconds"] + frame["receive_seconds"]
    central = frame["decode_seconds"] + frame["downlink_seconds"] - frame["receive_seconds"]
    waiting = 10 * central * (down != "relay")
    assert frame["sim_compute_seconds"].tolist() == pytest.approx((10 * own).tolist())
    assert frame["sim_waiting_seconds"].tolist() == pytest.approx(waiting.tolist(), abs=1e-12)
    assert frame["sim_seconds"].tolist() == pytest.approx((10 * own + waiting).tolist())
    told = clients(tmp_path)
    assert told["sim_waiting_seconds"].tolist() == pytest.approx(waiting.tolist(), abs=1e-12)
