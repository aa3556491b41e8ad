"""Flower's simulation as Flower ships it: whose reply is whose, and a worker that is lost."""

from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsim import RunFailed, run
from fedsim.engines import cluster as clusters
from fedsim.engines import compat, flower
from fedsim.engines.flower_memory import STATE, Carried, CarryingApp, CarryingGrid
from strategies.channel.nodes import CohortGrid
from strategies.channel.payload import to_arrays
from tests.support.faults import told
from tests.support.killing import killed_once
from tests.support.runs import assert_same, run_module, small


def counting() -> ClientApp:
    """Clients that count their messages, in Flower's context."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        before = context.state.array_records.get(STATE)
        done = 1 if before is None else int(before["done"].numpy()) + 1
        context.state[STATE] = to_arrays({"done": torch.tensor(done)})
        client = int(str(context.node_config["partition-id"]))
        content = RecordDict({"m": MetricRecord({"done": done, "client": client})})
        return Message(content, reply_to=message)

    return app


class Beneath(CohortGrid):
    """Flower's grid, of two nodes with some ids; it answers in another order, or with an error."""

    def __init__(self, reason: str = "") -> None:
        self.app, self.reason, self.count = CarryingApp(counting()), reason, 0
        self.given: set[tuple[str, float, str]] = set()

    def get_node_ids(self) -> Iterable[int]:
        return [811, 17]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        replies = list[Message]()
        for message in messages:
            self.count += 1
            meta = message.metadata
            self.given.add((meta.message_type, meta.ttl, meta.group_id))
            compat.name(message, f"flower-{self.count}")
            if self.reason:
                replies.append(Message(Error(code=0, reason=self.reason), reply_to=message))
            else:
                context = Context(1, message.metadata.dst_node_id, {}, RecordDict(), {})
                replies.append(self.app(message, context))
        return reversed(replies)


def asked() -> list[Message]:
    compat.identify()
    content = RecordDict()  # of one record for all, as strategies share
    return [Message(content, node, "train", ttl=77.0, group_id="3") for node in (1, 2, 3, 4, 5)]


def test_clients_share_flower_s_nodes_and_keep_what_is_theirs() -> None:
    memories, beneath = Carried(), Beneath()
    grid = CarryingGrid(beneath, 5, memories)
    for done in (1, 2):
        messages = asked()
        replies = list(grid.send_and_receive(messages))
        counts = {r.metadata.src_node_id: dict(r.content["m"]) for r in replies}
        assert counts == {n: {"done": done, "client": n - 1} for n in range(1, 6)}
        names = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        for reply in replies:
            assert names[reply.metadata.reply_to_message_id] == reply.metadata.src_node_id
            assert STATE not in reply.content
        assert all(not message.content for message in messages)  # what strategies hold stays
    done = {client: int(state["done"]) for client, state in memories.copy().items()}
    assert done == dict.fromkeys(range(5), 2) and beneath.given == {("train", 77.0, "3")}


def test_a_lost_worker_ends_the_run_and_another_error_does_not() -> None:
    died = "<class 'ray.exceptions.ActorDiedError'>:<'The actor died unexpectedly'>"
    with pytest.raises(RunFailed, match=r"lost a Ray worker.*ActorDiedError.*--engine ray"):
        list(CarryingGrid(Beneath(died), 5, Carried()).send_and_receive(asked()))
    other = "<class 'flwr.ClientAppException'>:<'a weight is not finite'>"
    replies = list(CarryingGrid(Beneath(other), 5, Carried()).send_and_receive(asked()))
    assert [reply.error.reason for reply in replies] == [other] * 5


def fails(_: object) -> None:
    raise RunFailed("fewer replies than --min-replies")


@pytest.mark.parametrize("main", [lambda _: None, fails])
def test_what_the_server_raises_is_raised(
    main: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[Any]()

    def simulation(server: Any, app: Any, nodes: int, *, backend_config: Any) -> None:
        asked.append((nodes, backend_config))
        server(SimpleNamespace(), Context(1, 1, {}, RecordDict(), {}))

    monkeypatch.setattr("flwr.simulation.run_simulation", simulation)
    monkeypatch.setattr(clusters, "connect", lambda *_: None)
    try:
        flower.simulate(main, ClientApp(), 100, 1, Carried())
        assert main is not fails
    except RunFailed as error:
        assert main is fails and str(error) == "fewer replies than --min-replies"
    assert asked == [(flower.NODES, {"client_resources": {"num_cpus": 1, "num_gpus": 0.0}})]


class Dying(ClientApp):
    """Clients of which one kills its worker, once."""

    def __init__(self, app: ClientApp, marker: Path) -> None:
        super().__init__()
        self.app, self.marker = app, marker

    def __call__(self, message: Message, context: Context) -> Message:
        before = context.state.array_records.get(STATE)
        if before is not None and context.node_config["partition-id"] == 1:
            killed_once(self.marker)
        return self.app(message, context)


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_killed_worker_ends_the_run_and_the_same_command_goes_on(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, marker = run_module.make_client_app, tmp_path / "killed"
    config = small(clients=3, checkpoint_every=1)
    run(config, tmp_path / "local")
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "make_client_app", lambda *given: Dying(real(*given), marker))
        with pytest.raises(RunFailed, match="simulation lost a Ray worker, .*--engine ray does"):
            run(config.but(engine="flower"), tmp_path / "flower", ray_address=cluster)
    assert marker.exists()
    run(config.but(engine="flower"), tmp_path / "flower", ray_address=cluster)
    assert_same(tmp_path / "local", tmp_path / "flower")
    told("Flower worker killed", "the same command goes on", 1)
