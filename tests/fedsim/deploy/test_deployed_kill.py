"""A SuperNode that is killed in round 3 and comes back: nothing that was trained is lost."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from safetensors.torch import load_file

from fedsim import RunConfig
from fedsim.engines.deploy import Deployment
from fedsim.federation.clientdata import ClientData as Shards
from fedsim.federation.trainer import Trainer
from fedsim.settings.config import from_toml
from tests.support import books
from tests.support.faults import told as tell
from tests.support.runs import clients, rounds

pytestmark = [pytest.mark.proof, pytest.mark.processes]

VICTIM, ROUNDS = 1, 9
SETTINGS = {
    "iterations": 2 * ROUNDS,
    "temporal": 2,
    "gradient": 0.05,
    "momentum": 0.0,
    "evaluate-every": 1,
    "timeout": 180,
    "keep-payloads": True,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A deployed run of nine rounds whose second client is dead from round 3 to round 5."""
    out = tmp_path_factory.mktemp("deployed")
    with Deployment(3, out) as federation:

        def told(line: str) -> None:
            if line.startswith("round 2/"):
                federation.kill(VICTIM)
            if line.startswith("round 4/"):  # until it is back no client begins with its work
                work = federation.link[-1].process.pid
                os.kill(work, signal.SIGSTOP)
                federation.start(VICTIM)
                os.kill(work, signal.SIGCONT)
            if line.startswith(f"round {ROUNDS - 1}/"):  # when the run is done it is forgotten
                shutil.copytree(out / "nodes", out / "kept")

        federation.run(SETTINGS, out, told)
        summary = json.loads((out / "summary.json").read_text())
        assert summary["status"] == "done", summary
        (counted,) = federation.traffic()
    (out / "traffic.json").write_text(json.dumps(counted))
    return out


def test_the_run_ends_with_all_clients_and_names_the_rounds_that_failed(run: Path) -> None:
    frame, told = rounds(run), clients(run)
    assert frame["clients"].tolist()[-2:] == [3, 3] and len(frame) == ROUNDS
    failed = told[told["failures"] > 0]
    assert set(failed["client"]) == {VICTIM} and 3 <= failed["round"].min() <= 4
    assert all(failed["failure_reasons"].str.len() > 0)
    assert frame["clients"].min() == 2


def test_what_flower_counted_is_what_total_bits_says(run: Path) -> None:
    """But for who is who, asked of four nodes, ids whose lengths are random, and what the dead
    node was sent and may not have fetched: that is charged.
    """
    counted = sum(json.loads((run / "traffic.json").read_text()).values())
    told, rows = rounds(run)["total_bits"].sum() / 8, clients(run)
    unfetched = rows.loc[rows["failures"] > 0, "down_message_bits"].sum() / 8
    assert min(abs(counted - told), abs(counted - (told - unfetched))) < 0.01 * told


def test_what_was_trained_was_applied_or_is_held(run: Path) -> None:
    config: RunConfig = from_toml(run / "config.toml")
    trainer = Trainer(config, Shards.of(config))
    assert not [path for path in (run / "nodes").rglob("*") if path.is_file()]
    shutil.rmtree(run / "payloads" / f"round-{ROUNDS:05d}")  # it came after the memories
    for client in range(3):
        (file,) = (run / "kept" / str(client)).rglob(f"memory-{ROUNDS - 1:08d}-*.safetensors")
        memory = load_file(file)
        answered = list(books.names(run, client, "up"))
        if int(memory["iterations"]) != 2 * len(answered):  # it was killed after it remembered
            assert client == VICTIM
            answered = sorted({*answered, 3})
        done = books.trained(run, client, config, trainer, answered)
        got = books.applied(run, client, config, trainer.parameters)
        kept = books.held(memory, max(books.names(run, client, "up")), config, trainer.parameters)
        books.assert_balanced(done, got, kept)
    tell("SuperNode killed", "comes back", 1, "its round")
