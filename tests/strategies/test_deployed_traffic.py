"""What is computed of a run's traffic is what a SuperLink counts, clients' evaluation too."""

import json
import os
from pathlib import Path

import pytest

from tests.support.loopback import BIN, federation
from tests.support.markdown import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (BIN / "flower-superlink").exists(), reason="no flower-superlink here"),
]

PROJECT = """
[project]
name = "pulled"
version = "1.0.0"
dependencies = []
[tool.flwr.app]
publisher = "nobody"
[tool.flwr.app.components]
serverapp = "pulled.apps:server"
clientapp = "pulled.apps:client"
[tool.flwr.app.config]
out = ""
"""
APP = '''
import json
from pathlib import Path
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from compressors import parse
from strategies import Compressed, client_mod

UP, DOWN = parse("sbc(0.01)"), parse("sbc(0.01)")
SHAPES = {"w": (100, 200), "b": (200,)}
START = ArrayRecord({n: Array(np.zeros(shape, np.float32)) for n, shape in SHAPES.items()})
client, server = ClientApp(), ServerApp()

def answer(message, context, arrays):
    own = {"num-examples": 1, "loss": 0.5 + int(context.node_config["partition-id"])}
    return Message(RecordDict({"metrics": MetricRecord(own), **arrays}), reply_to=message)

@client.train(mods=[client_mod(UP, DOWN, START)])
def train(message, context):
    rng = np.random.default_rng(int(context.node_config["partition-id"]))
    arrays = message.content.array_records["arrays"].items()
    moved = {n: Array((a.numpy() + rng.normal(size=a.shape)).astype(np.float32)) for n, a in arrays}
    return answer(message, context, {"arrays": ArrayRecord(moved)})

@client.evaluate()
def evaluate(message, context):
    return answer(message, context, {})

@server.main()
def main(grid, context):
    strategy, told = Compressed(FedAvg(), UP, DOWN), []
    def booked(number, arrays):
        if number:
            told.append(strategy.exchange.trip.wire.total())
    strategy.start(grid, START, num_rounds=2, evaluate_fn=booked)
    payloads = [8 * len(up.payload) for up in strategy.exchange.trip.uplinks.values()]
    Path(context.run_config["out"]).write_text(json.dumps({"told": told, "payloads": payloads}))
'''
TRIPS = 8  # two nodes, two rounds, training and evaluation
IDS = 12  # bytes of a trip: random ids are taken as ten bytes, and every other one has nine


def test_the_superlink_counts_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, out = tmp_path / "app", tmp_path / "told.json"
    (app / "pulled").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "pulled" / "__init__.py").write_text("")
    (app / "pulled" / "apps.py").write_text(APP)
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{before}" if before else str(ROOT))
    with federation(tmp_path / "federation", 2) as made:
        listed = made.run(app, f'out="{out}"')
    assert listed["status"] == "finished:completed"
    told = json.loads(out.read_text())
    counted = listed["network-traffic"]
    for number, key in enumerate(("outbound-bytes", "inbound-bytes")):
        computed = sum(round_told[number] for round_told in told["told"])
        assert 0 <= computed - counted[key] <= TRIPS * IDS, (key, computed, counted)
    assert sum(told["payloads"]) > 0
