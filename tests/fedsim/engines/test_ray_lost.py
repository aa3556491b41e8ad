"""Ray workers of Flower's engine that are killed: replaced, counted and told."""

import logging
from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim import RunFailed, UsageError, run
from fedsim.engines import local, lost
from strategies.channel.cohort_grid import CohortGrid
from tests.support.killing import killed_once
from tests.support.runs import assert_same, run_module, small


@pytest.mark.slow
def test_a_killed_actor_is_replaced_and_nothing_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real, marker = run_module.make_client_app, tmp_path / "killed"

    class Dying(ClientApp):
        def __init__(self, app: ClientApp) -> None:
            super().__init__()
            self.app = app

        def __call__(self, message: Message, context: Context) -> Message:
            if _round(message) == 3 and context.node_config["partition-id"] == 1:
                killed_once(marker)
            return self.app(message, context)

    run(small(clients=3), tmp_path / "local")
    monkeypatch.setattr(run_module, "make_client_app", lambda *given: Dying(real(*given)))
    with caplog.at_level(logging.WARNING, logger="fedsim"):
        run(small(clients=3, engine="flower", workers=2, min_replies=1), tmp_path / "flower")
    assert marker.exists() and "Ray lost a worker (1 so far) and replaced it" in caplog.text
    assert caplog.text.count("Ray lost a worker") == 1
    assert_same(tmp_path / "local", tmp_path / "flower")


def _round(message: Message) -> int:
    """The round of a message to train; 0 of another."""
    records = message.content.config_records.values()
    return next((int(str(record["round"])) for record in records if "round" in record), 0)


class Replies(CohortGrid):
    """A grid with one reply, an error."""

    def __init__(self, reason: str) -> None:
        super().__init__(local.LocalGrid(ClientApp(), clients=1), [])
        ask = Message(RecordDict(), dst_node_id=1, message_type="train")
        self.reply = Message(Error(code=0, reason=reason), reply_to=ask)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        return [self.reply]


def test_worker_after_worker_lost_ends_the_run() -> None:
    local.compat.identify()
    died = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly'>"
    with pytest.raises(RunFailed, match="Ray lost the worker of a client 4 times in a row"):
        list(lost.Counting(Replies(died)).send_and_receive([]))
    other = "<class 'flwr.ClientAppException'>:<'a weight is not finite'>"
    assert list(lost.Counting(Replies(other)).send_and_receive([]))


@pytest.mark.parametrize("settings", [{}, {"engine": "flower", "workers": 2}])
def test_an_address_is_for_flowers_engine_alone(settings: dict[str, Any], tmp_path: Path) -> None:
    name = "--workers is 2" if settings else "--engine is 'local'"
    with pytest.raises(UsageError, match=f"--ray-address is '1.2.3.4:5' and {name}"):
        run(small(clients=2, **settings), tmp_path, ray_address="1.2.3.4:5")


@pytest.mark.slow
def test_a_cluster_of_the_users_serves_flowers_engine(tmp_path: Path) -> None:
    from ray.cluster_utils import Cluster

    with pytest.raises(UsageError, match="--ray-address is '127.0.0.1:1': no Ray cluster there"):
        run(small(clients=2, engine="flower"), tmp_path / "none", ray_address="127.0.0.1:1")
    there = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        config = small(clients=2, engine="flower")
        run(config, tmp_path / "there", ray_address=there.address)
    finally:
        there.shutdown()
    run(small(clients=2), tmp_path / "local")
    assert_same(tmp_path / "local", tmp_path / "there")
