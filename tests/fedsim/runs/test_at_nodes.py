"""A server that is killed while clients keep their memory themselves, as in a deployment.

The same command goes on: clients who are ahead of the server's checkpoint begin with what they held
before, and every message and model is that of a run that was never killed.
"""

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from safetensors.torch import load_file

from fedsim import RunConfig, run
from fedsim.engines.local import LocalGrid
from fedsim.federation.clientdata import ClientData
from fedsim.federation.trainer import Trainer
from fedsim.runs import checkpoint
from fedsim.runs.verify.verify import verify
from tests.support import books
from tests.support.atnodes import Nodes, at_nodes
from tests.support.faults import told
from tests.support.interrupting import Stopped
from tests.support.runs import assert_same, small

pytestmark = pytest.mark.slow

SETTINGS: dict[str, dict[str, Any]] = {
    "both ways, partial cohort": {"downlink": "sbc(0.05)", "cohort": 2, "clients": 3},
    "relay": {"downlink": "relay", "clients": 3},
    "fedadam": {"strategy": "fedadam", "downlink": "sbc(0.1)", "catch_up": True, "cohort": 2},
    "momentum": {"method": "dgc(0.05, stage=3)", "momentum": 0.0, "temporal": 1, "iterations": 4},
}


class Raising(Nodes):
    """As ``Nodes``, but that a client raises the second time that it is asked for a round."""

    def __init__(self, config: RunConfig, folder: Path, client: int, number: int) -> None:
        super().__init__(config, folder)
        self.client, self.number, self.times = client, number, 0

    def __call__(self, message: Message, context: Context) -> Message:
        own = message.content.config_records.get("fedsim")
        if own is not None and (own.get("client"), own.get("round")) == (self.client, self.number):
            self.times += 1
            if self.times == 2:
                raise RuntimeError("its machine is short of memory")
        return super().__call__(message, context)


class Killed(LocalGrid):
    """A grid whose server is killed when so many clients have trained; their replies are lost."""

    left = -1

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterator[Message]:
        for reply in super().send_and_receive(messages, timeout=timeout):
            if reply.has_content() and "fedsim" in reply.content:
                self.left -= 1
                if self.left == 0:
                    raise Stopped
            yield reply


def go(config: RunConfig, out: Path, left: int = -1, nodes: Nodes | None = None) -> bool:
    """One attempt at the run: whether it was killed. The clients' folders are in ``nodes``."""

    def dying(app: ClientApp, clients: int) -> Killed:
        grid = Killed(app, clients)
        grid.left = left
        return grid

    try:
        at_nodes(config, out, nodes, dying)
    except Stopped:
        assert left > 0
        return True
    return False


@pytest.mark.parametrize("name", SETTINGS)
def test_killed_in_every_round_and_twice_in_one(name: str, tmp_path: Path) -> None:
    config = small(keep_payloads=True, **SETTINGS[name])
    cohort, killed = config.plan.cohort, tmp_path / "killed"
    run(config, tmp_path / "whole")
    kills = [go(config, killed, cohort)]
    for done in range(config.plan.rounds):  # clients of one round more have trained, or some
        assert checkpoint.last(killed) == f"checkpoint-{done:08d}"
        kills += [go(config, killed, cohort), go(config, killed, 1)]
        assert not (killed / "summary.json").exists()
        kills.append(go(config, killed, cohort + 1 if done < config.plan.rounds - 1 else -1))
    assert_same(tmp_path / "whole", killed)
    verdict = verify(killed)
    assert verdict.failures == [] == verdict.remarks
    assert [p for p in (killed / "nodes").rglob("*") if p.is_file()] == []  # the run is done
    assert not (killed / ".gone-on").exists() and not [*killed.glob("checkpoint-*")]
    told("server killed", name, sum(kills))


def test_what_was_sent_to_a_server_that_was_killed_is_given_back(tmp_path: Path) -> None:
    """A client has answered round 2, and fails when it is asked again: it sends both in round 3."""
    config = small(keep_payloads=True, clients=3, momentum=0.0, method="gradient_dropping(0.05)")
    nodes = Raising(config, tmp_path / "nodes", client=0, number=2)
    go(config, tmp_path, 3 + 3, nodes)
    go(config, tmp_path, 2 + 3, nodes)  # what it did in round 3 is lost with the server, too
    assert rounds_of(tmp_path, "up") == [1] and rounds_of(tmp_path, "down") == [1, 2]
    go(config, tmp_path, 3 + 1, nodes)
    assert rounds_of(tmp_path, "up") == [1, 3] and rounds_of(tmp_path, "down") == [1, 2, 3]
    table = pd.DataFrame(checkpoint.load_checkpoint(tmp_path).client_rows)  # type: ignore[union-attr]
    assert table[table["client"] == 0]["returned"].tolist() == [0, 0, 1]
    trainer = Trainer(config, ClientData.of(config))
    for client in range(3):
        (file,) = (tmp_path / "nodes" / str(client)).rglob("memory-00000003-*.safetensors")
        memory = load_file(file)
        done = books.trained(tmp_path, client, config, trainer, [1, 2, 3])
        got = books.applied(tmp_path, client, config, trainer.parameters)
        books.assert_balanced(done, got, books.held(memory, 3, config, trainer.parameters))
    told("client fails", "asked again", 1)


def rounds_of(out: Path, way: str) -> list[int]:
    """The rounds of which client 0's payloads are kept."""
    return [*books.names(out, 0, way)]


def test_a_damaged_checkpoint_is_two_rounds_behind_its_clients(tmp_path: Path) -> None:
    config = small(keep_payloads=True, downlink="sbc(0.05)")
    run(config, tmp_path / "whole")
    killed = tmp_path / "killed"
    go(config, killed, 3 * config.plan.cohort + 2)
    last = killed / str(checkpoint.last(killed))
    (last / "memory.safetensors").write_bytes(b"")
    go(config, killed)
    assert_same(tmp_path / "whole", killed)
    told("checkpoint damaged", "server killed", 1)


def test_nobody_goes_on_from_a_checkpoint_that_lacks_the_clients(tmp_path: Path) -> None:
    """The local engine starts again, and so does a deployment on a checkpoint of that engine."""
    config = small(keep_payloads=True, checkpoint_every=1)
    run(config, tmp_path / "whole")
    go(config, tmp_path / "afar", 10)
    shutil.copytree(tmp_path / "afar", tmp_path / "copy")
    run(config, tmp_path / "copy")
    assert_same(tmp_path / "whole", tmp_path / "copy")

    def stop(row: Any) -> None:
        if row["round"] == 2:
            raise Stopped

    with pytest.raises(Stopped):
        run(config, tmp_path / "here", callbacks=[stop])
    go(config, tmp_path / "here")
    assert_same(tmp_path / "whole", tmp_path / "here")
