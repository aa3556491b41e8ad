"""``framing=on``: whole messages take their time, in runs of every kind and in their price.

By hand: a message to a client has 50 bytes, and 2 call for it; a reply has 40, and 5 answer it. A
link takes a byte per second. A model of three numbers has 15 bytes, which are free the first time.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedsim import RunConfig, UsageError, load, run
from fedsim.network import parse
from fedsim.network.pricing import SECONDS
from fedsim.show.times import priced, times_over_bandwidths
from strategies.channel import framing, server_end
from strategies.channel.framing import Travel
from tests.support.runs import clients, small
from tests.support.threes import MODEL, give_links, table, threes

NETWORK = "up=8bit, down=8bit, latency=1s, compute=3s, framing=on"


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_end, "to_client", lambda content: Travel(down=50, up=2))
    monkeypatch.setattr(framing, "to_server", lambda content, kind="train": Travel(down=5, up=40))


Made = Callable[..., Any]


def done(make: Made, folder: Path, targets: list[float], **given: Any) -> pd.DataFrame:
    common = {"method": "raw", "temporal": 1, "iterations": 2, "network": NETWORK}
    run(RunConfig.of(task=make(**threes(targets)).name, **common | given), folder)
    return table(folder)


@pytest.mark.usefixtures("sizes")
def test_a_round_takes_what_its_messages_take(make_task: Made, tmp_path: Path) -> None:
    """Down 50 + 5 bytes, less the first model's 15; 3 s; up 40 + 2; a second of latency each."""
    rows = done(make_task, tmp_path, [16.0])
    assert rows["sim_seconds"].tolist() == pytest.approx([41 + 3 + 43, 56 + 3 + 43], abs=1e-9)
    assert rows[list(SECONDS)].to_numpy().tolist() == [[41, 3, 43, 0], [56, 3, 43, 0]]
    assert rows["up_message_bits"].tolist() == [8 * 42, 8 * 42]
    assert rows["down_message_bits"].tolist() == [8 * 40, 8 * 55]
    assert rows["up_wire_bits"].tolist() == [MODEL, MODEL]  # what is charged is what it was
    for text in (NETWORK, NETWORK + ", server_down=8bit"):
        again = priced(load(tmp_path), parse(text))
        assert again["sim_seconds"].tolist() == pytest.approx([87, 102], abs=1e-9)
    plain = priced(load(tmp_path), parse(NETWORK.replace("on", "off")))
    assert plain["sim_seconds"].tolist() == [1 + 3 + 16, 16 + 3 + 16]


@pytest.mark.usefixtures("sizes")
def test_a_message_without_rounds(make_task: Made, tmp_path: Path) -> None:
    """Beside the upload the 5 bytes that answer it, which come when the server has heard of it."""
    rows = done(make_task, tmp_path, [16.0], strategy="fedbuff")
    assert rows["sim_end_seconds"].tolist() == pytest.approx([87, 189], abs=1e-9)
    parts = clients(tmp_path)[list(SECONDS)].to_numpy().tolist()
    assert parts == [[36, 3, 48, 0], [51, 3, 48, 0]]


@pytest.mark.usefixtures("sizes")
def test_messages_between_workers(make_task: Made, tmp_path: Path) -> None:
    """Worker 0 pulls part 1, of two numbers, and worker 1 part 0, of one; all take 2 s of latency.

    Worker 0 has it after 50 - 11 s and the latency, at 41 s, and has trained at 44 s; by 49 s its
    push is answered, and goes to worker 1. That has its part, 50 - 7 bytes, at 45 s, and has
    trained at 48 s. Its answer shares the link of that push from 49 s on: 4 bytes are through at
    57 s, and the 38 that are left of the push at 95 s: there at 97 s. Worker 1 pushes from 57 s on;
    when the pull of worker 0 comes beside it, at 97 s, 2 bytes are left: 101 s, and there at 103 s.
    """
    rows = done(make_task, tmp_path, [16.0, 32.0], strategy="sharded", iterations=1)
    assert clients(tmp_path)["sim_end_seconds"].tolist() == pytest.approx([97, 103], abs=1e-9)
    assert rows["sim_end_seconds"].tolist() == pytest.approx([103], abs=1e-9)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("framing, there", [("off", [0, 1]), ("on", [1])])
def test_the_deadline_is_that_of_messages(
    make_task: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framing: str, there: list[int]
) -> None:
    """Client 0 takes 20 s for payloads, 87 s for messages; client 1, ten times as fast, 48.2 s."""
    give_links(monkeypatch, up=[8, 84])
    network = NETWORK.replace("on", framing)
    done(make_task, tmp_path, [16.0, 32.0], deadline="50s", network=network, iterations=1)
    came = clients(tmp_path)
    assert came.loc[came["samples"] > 0, "client"].tolist() == there


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("framing, first", [("off", 1), ("on", 0)])
def test_the_first_that_come_are_those_of_messages(
    make_task: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framing: str, first: int
) -> None:
    """For payloads 20 + 15 and 3 + 30 s, for messages 40 + 20 + 42 and 40 + 3 + 84, and latency."""
    give_links(monkeypatch, up=[8, 4], compute=[20, 3])
    given = {"network": NETWORK.replace("on", framing), "cohort": 1, "ask": 2, "iterations": 1}
    done(make_task, tmp_path, [16.0, 32.0], **given)
    came = clients(tmp_path)
    assert came.loc[came["samples"] > 0, "client"].tolist() == [first]


@pytest.mark.parametrize("shared", ["", ", server_down=60kbit"])
def test_the_price_is_the_run_s_own_clock(tmp_path: Path, shared: str) -> None:
    """With what Flower really sends, and clients that drop out before and after they train."""
    text = f"up=lognormal(50kbit, 1), down=100kbit, compute=20ms, framing=on{shared}"
    run(small(network=text, cohort=3, dropout="before=0.1, after=0.1"), tmp_path)
    results = load(tmp_path)
    again = priced(results, parse(text))
    for column in ("sim_seconds", "sim_end_seconds", *SECONDS):
        np.testing.assert_allclose(again[column], results.rounds[column], rtol=1e-9, atol=1e-12)
    payloads = priced(results, parse(text.replace("on", "off")))
    assert (payloads["sim_seconds"] < again["sim_seconds"]).all()
    target = float(results.rounds["metric"].iloc[0])  # reached at once
    (after,) = times_over_bandwidths(results, parse(text), target, [5e4]).seconds[:, 0]
    constant = parse(text.replace("lognormal(50kbit, 1), down=100kbit", "50kbit, down=50kbit"))
    assert after == pytest.approx(priced(results, constant)["sim_end_seconds"].iloc[0])


def test_it_is_on_or_off(tmp_path: Path) -> None:
    assert parse("lora, framing=on").framing
    assert not parse("lora").framing and not parse("lora, framing=off").framing
    (tmp_path / "home.toml").write_text('preset = "lora"\nframing = "on"\n')
    assert parse(str(tmp_path / "home.toml")).framing
    with pytest.raises(UsageError, match="--network: framing is 'yes': give on or off"):
        parse("lora, framing=yes")
