"""Clients by name: nodes that come, go, and come back under other ids."""

import json
import logging
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod

from compressors import Raw, sbc
from fedsim.engines import compat
from fedsim.engines.local import LocalGrid
from fedsim.runs.app import config_of
from strategies import DelayedDSGD, TooFewReplies, answer_partition
from strategies.channel import nodes
from strategies.channel.nodes import TABLE, CohortGrid, Roster, name_of
from strategies.channel.replies import ABSENT
from tests.support.linear import Pull, grid_of, modded_app, tensor


class Named(LocalGrid):
    """Nodes whose configs have names in the place of partitions."""

    def __init__(self, names: list[str]) -> None:
        app = ClientApp()
        answer_partition(app)
        super().__init__(app, len(names))
        for node, name in enumerate(names, 1):
            self._contexts[node] = Context(1, node, {"client-id": name}, RecordDict(), {})


class Seen(CohortGrid):
    """The nodes that are there now."""

    def set(self, *node_ids: int) -> "Seen":
        self._node_ids = list(node_ids)
        return self


def test_names_get_numbers_in_their_order_and_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "REGISTRATION_SECONDS", 0.2)  # the third client is not there yet
    grid = Named(["west", "east", "north", "west"])
    seen, roster = Seen(grid, [1, 2]), Roster(3, 5.0)
    roster.gather(seen, 2)
    assert roster.names == {"east": 0, "west": 1} and roster.nodes == {0: 2, 1: 1}
    roster.look(seen.set(2))
    assert roster.nodes == {0: 2}  # west has left
    roster.look(seen.set(2, 3, 4))  # north is new; west is back at another node
    assert roster.names == {"east": 0, "west": 1, "north": 2}
    assert roster.nodes == {0: 2, 1: 4, 2: 3}


def test_a_node_is_asked_once_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Named(["a", "b"])
    asked: list[int] = []
    send = LocalGrid.send_and_receive

    def counted(self: LocalGrid, messages: Any, **given: Any) -> Any:
        messages = list(messages)
        asked.extend(m.metadata.dst_node_id for m in messages)
        return send(self, messages, **given)

    monkeypatch.setattr(LocalGrid, "send_and_receive", counted)
    roster = Roster(2, 5.0)
    roster.gather(grid, 2)
    roster.look(grid)
    assert sorted(asked) == [1, 2]


def test_a_run_starts_with_the_clients_that_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "REGISTRATION_SECONDS", 0.2)
    whole = grid_of(modded_app(Pull([(8.0, 4.0)] * 3), Raw()), 3)
    grid, strategy = Seen(whole, [1, 3]), DelayedDSGD(Raw(), clients=3, required=2)
    channel = strategy.open(tensor(0.0, 0.0))
    messages = strategy.ask(1, ConfigRecord(), grid)
    assert [m.metadata.dst_node_id for m in messages] == [1, 3]
    strategy.advance(grid.send_and_receive(messages, timeout=10))
    assert channel.traffic.failures == {1: ABSENT} and sorted(channel.traffic.uplinks) == [0, 2]
    messages = strategy.ask(2, ConfigRecord(), grid.set(1, 2, 3))  # it joins
    strategy.advance(grid.send_and_receive(messages, timeout=10))
    assert channel.traffic.failures == {} and sorted(channel.traffic.uplinks) == [0, 1, 2]
    assert channel.traffic.downlinks[1].kind == "model" and channel.traffic.downlinks[1].charged


class Starting(CohortGrid):
    """Nodes whose processes start: the first question is over before anybody answers."""

    asked = 0

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        self.asked += 1
        if self.asked == 1:
            time.sleep(timeout or 0.0)
            return []
        return self._grid.send_and_receive(messages, timeout=timeout)


def test_nothing_is_late_before_its_process_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray took longer to start than a round's timeout of 60 s, and the run ended."""
    whole = grid_of(modded_app(Pull([(8.0, 4.0)] * 2), Raw()), 2)
    grid, roster = Starting(whole, [1, 2]), Roster(2, timeout=0.1)
    roster.gather(grid, 2)
    assert roster.nodes == {0: 1, 1: 2} and grid.asked == 2
    monkeypatch.setattr(nodes, "STARTING_SECONDS", 0.2)
    with pytest.raises(TimeoutError, match="0 of 2 clients answered in 0.2 s"):
        Roster(2, timeout=0.1).gather(Silent(whole, [1, 2]), 2)


class Silent(CohortGrid):
    """Nodes that never answer."""

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        return []


def test_the_reply_for_a_dead_node_counts_for_its_client() -> None:
    """It comes from node 1, which is another client's; that client's update is used."""
    grid = grid_of(modded_app(Pull([(8.0, 4.0)] * 3), Raw()), 3)
    strategy = DelayedDSGD(Raw(), clients=3)
    channel = strategy.open(tensor(0.0, 0.0))
    replies = list(grid.send_and_receive(strategy.ask(1, ConfigRecord(), grid)))
    dead = next(r for r in replies if r.metadata.src_node_id == 3)
    from flwr.app import Error

    error = Message(Error(3, "Node Unavailable"), reply_to=dead)
    error.metadata.__dict__["_reply_to_message_id"] = dead.metadata.reply_to_message_id
    error.metadata.__dict__["_src_node_id"] = 1
    strategy.advance([error, *(r for r in replies if r is not dead)])
    assert channel.traffic.failures == {2: "Node Unavailable"}
    assert sorted(channel.traffic.uplinks) == [0, 1]


def test_a_client_that_forgot_its_model_is_sent_it_in_the_same_round() -> None:
    method, pull = sbc(0.5), Pull([(8.0, 4.0)] * 2)
    grid = grid_of(modded_app(pull, method, method), 2)
    strategy = DelayedDSGD(method, method, clients=2)
    channel = strategy.open(tensor(0.0, 0.0))
    for number in (1, 2):
        messages = strategy.ask(number, ConfigRecord(), grid)
        if number == 2:
            grid._contexts[2].state = RecordDict()  # the node was restarted, its memory is gone
        strategy.advance(grid.send_and_receive(messages, timeout=10))
    traffic = channel.traffic
    assert sorted(traffic.uplinks) == [0, 1] and traffic.failures == {}
    assert [(client, down.kind) for client, down in traffic.unused] == [(1, "update")]
    assert traffic.downlinks[1].kind == "model" and traffic.downlinks[1].charged
    assert pull.seen[0][1] == pull.seen[1][1]  # both trained from the same model


def test_a_nodes_data_is_what_its_config_names() -> None:
    run = {"task": "digits", "partition": "dirichlet(0.3)", "data": "/of/the/server"}
    at_node = Context(1, 1, {"client-id": "west", "data": "/of/west"}, RecordDict(), run)
    config = config_of(at_node)
    assert (config.machine.data, config.clients.partition) == ("/of/west", "whole")
    elsewhere = config_of(Context(1, 1, {"partition-id": 0}, RecordDict(), run))
    assert (elsewhere.machine.data, elsewhere.clients.partition) == (
        "/of/the/server",
        "dirichlet(0.3)",
    )


def test_an_app_that_cannot_say_who_it_is_ends_at_once() -> None:
    """Ten minutes went by, and then nobody had answered."""
    app = ClientApp()
    app.train()(Pull([(8.0, 4.0)] * 2).train)
    grid = grid_of(app, 2)
    with pytest.raises(TooFewReplies, match=r"No query function .* lacks answer_partition\(app\)"):
        Roster(2, 5.0).gather(grid, 2)
    app = ClientApp(mods=[fixedclipping_mod])
    answer_partition(app)
    grid = grid_of(app, 2)
    with pytest.raises(TooFewReplies, match="are given to @app.train, and not to ClientApp"):
        Roster(2, 5.0).gather(grid, 2)


def test_one_app_that_cannot_say_who_it_is_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "STARTING_SECONDS", 0.2)
    app = ClientApp()

    @app.query("partition")
    def partition(message: Message, context: Context) -> Message:
        if context.node_id == 1:
            raise OSError("no space left")
        content = RecordDict({"client": ConfigRecord({"name": "b"})})
        return Message(content, reply_to=message)

    grid = grid_of(app, 2)
    with pytest.raises(TimeoutError, match="1 of 2 clients .*; node 1 raised OSError: no space"):
        Roster(2, 0.2).gather(grid, 2)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The errors of Flower's logger, whatever other tests have set."""
    logger, lines = logging.getLogger("flwr"), list[str]()
    monkeypatch.setattr(logger, "error", lambda text, *given: lines.append(text % given))
    yield lines


class Answering(CohortGrid):
    """Nodes that say of themselves what they were told to say."""

    def __init__(self, answers: dict[int, RecordDict]) -> None:
        compat.identify()
        self.answers = answers
        self._node_ids = list(answers)

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> Any:
        messages = list(messages)
        for number, message in enumerate(messages):
            compat.name(message, str(number))
        return [Message(self.answers[m.metadata.dst_node_id], reply_to=m) for m in messages]

    def set(self, *node_ids: int) -> None:
        self._node_ids = list(node_ids)


def says(number: Any = None, name: Any = None) -> RecordDict:
    content = RecordDict()
    if number is not None:
        content["partition"] = MetricRecord({"partition-id": number})
    if name is not None:
        content["client"] = ConfigRecord({"name": name})
    return content


ANSWERS = {
    "nothing": RecordDict(),
    "no name": RecordDict({"client": ConfigRecord()}),
    "a name that is a number": says(name=3),
    "a list of names": says(name=["a"]),
    "an empty name": says(name=" "),
    "a name of two lines": says(name="a\nb"),
    "a name that clears the screen": says(name="\x1b[2J"),
    "a list of numbers": says([0, 1]),
    "nan": says(math.nan),
    "inf": says(math.inf),
    "a half": says(0.5),
    "below zero": says(-1),
    "metrics for the name": RecordDict({"client": MetricRecord({"name": 1})}),
    "settings for the number": RecordDict({"partition": ConfigRecord({"partition-id": 1})}),
    "another metric": RecordDict({"partition": MetricRecord({"client": 1})}),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_odd_answer_ends_nothing(answer: str, told: list[str]) -> None:
    grid, roster = Answering({7: ANSWERS[answer], 8: says(0), 9: says(1)}), Roster(2, 5.0)
    roster.gather(grid, 2)
    roster.look(grid)
    assert roster.nodes == {0: 8, 1: 9} and roster.names == {}
    assert list(roster.passed) == [7] and "its " in roster.passed[7]
    assert told == [f"node 7 is passed over: {roster.passed[7]}"] and told[0].isprintable()


def test_too_few_clients_say_what_an_odd_answer_was(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = Answering({7: ANSWERS["nan"], 8: says(0)})
    with pytest.raises(TimeoutError, match="1 of 2 .*; node 7: its partition-id is nan: it is a "):
        Roster(2, 0.1).gather(grid, 2)


@pytest.mark.parametrize("who", [says(1), says(name="b")], ids=["number", "name"])
def test_a_living_client_keeps_its_place(who: RecordDict, told: list[str]) -> None:
    grid = Answering({5: says(0), 9: who, 3: who, 2: who})
    grid.set(5, 9)
    roster = Roster(2, 5.0)
    roster.gather(grid, 2)
    assert roster.nodes == {0: 5, 1: 9} and not told
    grid.set(5, 9, 3, 2)
    roster.look(grid)
    roster.look(grid)
    assert roster.nodes == {0: 5, 1: 9}
    why = "it says that it is client 1, which is at node 9"
    assert roster.passed == {3: why, 2: why}
    assert len(told) == 2  # each is told once
    grid.set(5, 3, 2)  # it has left: a restarted node has another id, and may be one of these
    roster.look(grid)
    assert roster.nodes == {0: 5, 1: 2} and list(roster.passed) == [3]
    grid.set(5, 3)
    roster.look(grid)
    assert roster.nodes == {0: 5, 1: 3} and roster.passed == {}


def test_a_name_belongs_to_its_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    """Another key's node took the place of a client whose own node had gone."""
    table = tmp_path / "clients.json"
    table.write_text(json.dumps({"5": 0, "9": 1, "3": 7, "4": "west", "6": 1}))
    monkeypatch.setenv(TABLE, str(table))
    answers = {5: says(0), 9: says(1), 3: says(1), 2: says(1), 4: says(name="west")}
    grid = Answering({**answers, 6: says(name="1")})
    grid.set(3, 2, 5, 4, 6)
    roster = Roster(3, 0.1)
    monkeypatch.setattr(nodes, "REGISTRATION_SECONDS", 0.1)
    roster.gather(grid, 1)
    assert roster.nodes == {0: 5, 2: 4} and roster.names == {"west": 2}  # 1 is another's
    assert roster.passed == {
        3: f"it says that it is client 1, and its key is client 7's in {TABLE}",
        2: f"it says that it is client 1, and its key is nobody's in {TABLE}",
        6: f"it says that it is client '1', and its key is client 1's in {TABLE}",
    }
    grid.set(3, 2, 5, 4, 6, 9)
    roster.look(grid)
    assert roster.nodes == {0: 5, 1: 9, 2: 4} and len(told) == 3


def test_a_table_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "clients.json"
    monkeypatch.setenv(TABLE, str(table))
    for text in (None, "[]", '{"5": ', '{"five": 1}', '{"5": true}', '{"5": 1.5}'):
        if text is not None:
            table.write_text(text)
        with pytest.raises(ValueError, match=f"{TABLE} is .*clients.json: no table"):
            Roster(2, 5.0).gather(Answering({5: says(0), 9: says(1)}), 2)


def test_a_client_is_called_by_what_says_most() -> None:
    """Its own name, else its partition, else its node."""
    said: dict[str, str | int] = {"client-id": "west", "partition-id": 3}
    names = [
        name_of(Context(1, 7, config, RecordDict(), {}))  # type: ignore[arg-type]
        for config in (said, {"partition-id": 3}, {})
    ]
    assert names == ["west", "3", "7"]
