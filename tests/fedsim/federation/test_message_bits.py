"""What travels around the payloads: in the rounds, in the summary, and in evaluation."""

import json
import logging
from pathlib import Path

import pandas as pd
import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from compressors import parse
from fedsim import load, run
from strategies import Compressed
from strategies.channel.framing import to_client, to_server
from tests.support.linear import Pull, grid_of, modded_app, record
from tests.support.runs import clients, rounds, small


def test_messages_hold_payloads_and_their_framing(tmp_path: Path) -> None:
    summary = run(small(iterations=18), tmp_path).summary
    frame, per_client = rounds(tmp_path), clients(tmp_path)
    for way, least, most in (("up", 1000, 1400), ("down", 1000, 1700)):
        receivers = frame["clients"] + frame["failures"]
        around = frame[f"{way}_message_bits"] - frame[f"{way}_wire_bits"]
        assert (around / receivers / 8).between(least, most).all()
        told = per_client.groupby("round")[f"{way}_message_bits"].sum()
        assert told.tolist() == frame[f"{way}_message_bits"].tolist()
        mean = (frame[f"{way}_message_bits"] / receivers).sum()
        assert summary[f"{way}_message_bits"] == pytest.approx(mean)
    assert summary["total_bits"] == frame["total_bits"].sum()


def test_the_total_holds_the_initial_model(tmp_path: Path) -> None:
    summary = run(small(iterations=18), tmp_path).summary
    frame = rounds(tmp_path)
    beyond = frame["total_bits"] - frame["up_message_bits"] - frame["down_message_bits"]
    model = 8 * (4 * summary["parameters"] + 3)  # float32 and a message's header
    assert beyond.tolist() == [summary["clients"] * model] + [0] * (len(frame) - 1)


def test_an_older_folder_loads_without(tmp_path: Path) -> None:
    run(small(iterations=18), tmp_path / "a")
    file = tmp_path / "a" / "rounds.parquet"
    names = ["up_message_bits", "down_message_bits", "total_bits"]
    pd.read_parquet(file).drop(columns=names).to_parquet(file)
    summary = tmp_path / "a" / "summary.json"
    cell = json.loads(summary.read_text())
    for name in (*names, "files"):
        del cell[name]
    summary.write_text(json.dumps(cell))
    assert load(tmp_path / "a").runs[names].isna().all(axis=None)


def test_evaluation_by_clients_is_booked() -> None:
    logging.getLogger("flwr").setLevel(logging.ERROR)
    half = parse("gradient_dropping(0.5)")
    app = modded_app(Pull([(8.0, 4.0)] * 3), half)
    metrics = RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.5})})

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return Message(metrics, reply_to=message)

    grid = grid_of(app, 3)
    strategy = Compressed(FedAvg(), half, clients=3)
    strategy.start(grid, record([0.0, 0.0]), num_rounds=2)
    grid.close()
    wire = strategy.channel.traffic.wire
    asked = RecordDict({"arrays": record([0.0, 1.0]), "config": ConfigRecord({"server-round": 2})})
    down, up = to_client(asked, "evaluate"), to_server(metrics, "evaluate")
    assert {*wire.evaluation} == {1, 2, 3}
    for travel in wire.evaluation.values():
        assert (travel.down, travel.up) == (down.down + up.down, down.up + up.up)
    assert wire.total().down > sum(t.down for t in wire.requests.values()) + 3 * down.down
