"""The in-process grid: replies, failures, memory, time."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines import local
from fedsim.engines.local import LocalGrid, NodeQueue
from fedsim.federation.client_memory import AtNode, InProcess
from strategies.channel.acknowledge import LIVES
from tests.support.hanging import LONG

Grids = Any


@pytest.fixture
def grid_of() -> Iterator[Grids]:
    """Grids over a train function, and one of several messages; closed at the end."""
    grids = []

    def make(train: Any, clients: int = 3, workers: int = 1, *more: Any) -> LocalGrid:
        app = ClientApp()
        app.train()(train)
        grids.append(LocalGrid(app, clients, workers, *more))
        return grids[-1]

    yield make
    for grid in grids:
        grid.close()


def ask(grid: LocalGrid, timeout: float | None = None, **values: Any) -> dict[int, Message]:
    replies = grid.send_and_receive(messages_to(grid, **values), timeout=timeout)
    return {reply.metadata.src_node_id: reply for reply in replies}


def ask_first(grid: LocalGrid, count: int) -> list[int]:
    """The nodes of the first so many replies: the call is over with them."""
    replies: Any = grid.send_and_receive(messages_to(grid), timeout=LONG)
    nodes = [reply.metadata.src_node_id for reply in islice(replies, count)]
    replies.close()
    return sorted(nodes)


def messages_to(grid: LocalGrid, **values: Any) -> list[Message]:
    content = RecordDict({"in": ConfigRecord(values)})
    return [Message(content, dst_node_id=n, message_type="train") for n in grid.get_node_ids()]


def number(context: Context) -> int:
    return int(str(context.node_config["partition-id"]))


def echo(message: Message, context: Context) -> Message:
    record = ConfigRecord({"client": number(context), **message.content["in"]})
    return Message(RecordDict({"out": record}), reply_to=message)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_client_replies_once(grid_of: Grids, workers: int) -> None:
    replies = ask(grid_of(echo, 4, workers), x=3)
    assert {n: dict(r.content["out"]) for n, r in sorted(replies.items())} == {
        n: {"client": n - 1, "x": 3} for n in (1, 2, 3, 4)
    }


def test_a_client_that_raises_is_an_error_reply(grid_of: Grids) -> None:
    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 1:
            raise ZeroDivisionError("no batches")
        return echo(message, context)

    replies = ask(grid_of(train))
    assert {n: r.has_error() for n, r in replies.items()} == {1: False, 2: True, 3: False}
    assert replies[2].error.reason.splitlines()[-1].startswith("ZeroDivisionError: no batches")


def test_a_client_that_returns_nothing_is_an_error_reply(grid_of: Grids) -> None:
    replies = ask(grid_of(lambda message, context: None))
    assert all("NoneType" in r.error.reason for r in replies.values())


def test_a_client_that_hangs_is_not_waited_for(
    grid_of: Grids, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, clock = threading.Event(), SimpleNamespace(now=0.0)

    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 0:
            go.wait(LONG)
        return echo(message, context)

    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: clock.now))
    grid = grid_of(train, 3, workers=2)
    came = []
    for reply in grid.send_and_receive(messages_to(grid, x=1), timeout=LONG):
        came.append(reply.metadata.src_node_id)
        clock.now += LONG / 2  # the time is over after two replies, however slow the machine is
    assert sorted(came) == [2, 3]
    go.set()  # its late reply belongs to nobody
    replies = ask(grid, timeout=LONG, x=2)
    assert {n: r.content["out"]["x"] for n, r in replies.items()} == {1: 2, 2: 2, 3: 2}


@pytest.mark.parametrize("together", [False, True])
def test_replies_together_are_handed_over_when_all_are_there(
    grid_of: Grids, together: bool
) -> None:
    served = []

    def train(message: Message, context: Context) -> Message:
        served.append(number(context))
        return echo(message, context)

    grid = grid_of(train, 3, 0, None, 1, False, together)  # served by who waits: no race
    seen = [len(served) for _ in grid.send_and_receive(messages_to(grid))]
    assert seen == ([3, 3, 3] if together else [1, 2, 3])
    assert list(grid.send_and_receive([])) == []


def test_a_client_that_hangs_is_not_waited_for_together(grid_of: Grids) -> None:
    go = threading.Event()

    def train(message: Message, context: Context) -> Message:
        if context.node_config["partition-id"] == 0:
            go.wait(LONG)
        return echo(message, context)

    grid = grid_of(train, 3, 1, None, 1, False, True)
    assert not ask(grid, timeout=0.01)  # the only worker hangs
    go.set()
    assert sorted(ask(grid, timeout=LONG)) == [1, 2, 3]


def test_memory_is_kept_from_message_to_message(grid_of: Grids) -> None:
    def train(message: Message, context: Context) -> Message:
        count = context.state.config_records.get("n", ConfigRecord({"n": 0}))["n"] + 1
        context.state["n"] = ConfigRecord({"n": count})
        return Message(RecordDict({"out": ConfigRecord({"n": count})}), reply_to=message)

    grid = grid_of(train)
    counts = [{n: r.content["out"]["n"] for n, r in ask(grid).items()} for _ in range(3)]
    assert counts == [dict.fromkeys((1, 2, 3), n) for n in (1, 2, 3)]


@pytest.mark.parametrize("how", ["raises", "returns nothing"])
def test_memory_is_kept_only_on_success(grid_of: Grids, how: str) -> None:
    def train(message: Message, context: Context) -> Message | None:
        notes = context.state.config_records.setdefault("notes", ConfigRecord({"n": 0}))
        notes["n"] += 1  # in place
        if message.content["in"]["fail"]:
            if how == "raises":
                raise RuntimeError
            return None
        return Message(RecordDict({"out": ConfigRecord({"n": notes["n"]})}), reply_to=message)

    grid = grid_of(train, 1)
    assert ask(grid, fail=False)[1].content["out"]["n"] == 1
    assert ask(grid, fail=True)[1].has_error()
    assert ask(grid, fail=False)[1].content["out"]["n"] == 2


def test_clients_do_not_see_what_others_do_to_a_message(grid_of: Grids) -> None:
    """Flower's strategies share one record between the messages of a round."""

    def train(message: Message, context: Context) -> Message:
        seen = len(message.content)
        message.content["mine"] = ConfigRecord()
        return Message(RecordDict({"out": ConfigRecord({"n": seen})}), reply_to=message)

    assert {r.content["out"]["n"] for r in ask(grid_of(train)).values()} == {1}


def test_contexts_say_who_is_who(grid_of: Grids) -> None:
    def train(message: Message, context: Context) -> Message:
        record = ConfigRecord({**context.node_config, "node": context.node_id})
        return Message(RecordDict({"out": record}), reply_to=message)

    replies = ask(grid_of(train))
    assert dict(replies[2].content["out"]) == {"partition-id": 1, "num-partitions": 3, "node": 2}


def test_workers_are_single_threaded(grid_of: Grids) -> None:
    def train(message: Message, context: Context) -> Message:
        record = ConfigRecord({"threads": torch.get_num_threads()})
        return Message(RecordDict({"out": record}), reply_to=message)

    replies = ask(grid_of(train, 4, workers=2))
    assert {r.content["out"]["threads"] for r in replies.values()} == {1}


def test_the_rest_of_flowers_grid(grid_of: Grids) -> None:
    grid = grid_of(echo)
    assert list(grid.get_node_ids()) == [1, 2, 3]
    message = grid.create_message(RecordDict({"in": ConfigRecord()}), "train", 2, "group")
    assert message.metadata.dst_node_id == 2
    assert len(list(grid.send_and_receive([message]))) == 1
    grid.set_run(grid.run)
    assert list(grid.send_and_receive([])) == []
    assert list(grid.pull_messages(["message-1"])) == []  # nothing is late
    with pytest.raises(RuntimeError, match="send_and_receive"):
        grid.push_messages([])


def test_a_node_answers_one_message_after_the_other(grid_of: Grids) -> None:
    """The first is late: what the second finds is what the first left."""
    go, seen = threading.Event(), list[int]()

    def slow(message: Message, context: Context) -> Message:
        number = int(str(message.content["in"]["number"]))
        if number == 1:
            go.wait(LONG)
        seen.append(int(str(context.state.config_records.get("last", {"n": 0})["n"])))
        context.state["last"] = ConfigRecord({"n": number})
        return Message(RecordDict({"m": ConfigRecord({"n": number})}), reply_to=message)

    grid = grid_of(slow, workers=2)
    first, second = (
        Message(RecordDict({"in": ConfigRecord({"number": n})}), 1, "train") for n in (1, 2)
    )
    assert list(grid.send_and_receive([first], timeout=0.1)) == []
    replies = grid.send_and_receive([second], timeout=LONG)
    threading.Timer(0.1, go.set).start()
    assert [r.content["m"]["n"] for r in replies] == [2]
    assert seen == [0, 1]
    late = list(grid.pull_messages([first.metadata.message_id]))
    assert [r.content["m"]["n"] for r in late] == [1]
    assert list(grid.pull_messages([first.metadata.message_id])) == []


def test_workers_end_when_a_run_ends() -> None:
    before = set(threading.enumerate())
    app = ClientApp()
    app.train()(echo)
    with closing(LocalGrid(app, 3, 4)) as grid:
        ask(grid)
    with pytest.raises(RuntimeError, match="stop"), closing(LocalGrid(app, 3, 4)):
        raise RuntimeError("stop")
    new = set(threading.enumerate()) - before
    for thread in new:
        thread.join(5)
    assert not any(thread.is_alive() for thread in new)


def test_messages_go_together_in_their_order_and_the_last_alone(grid_of: Grids) -> None:
    seen = []

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    replies = ask(grid_of(echo, 7, 1, together, 3))
    assert seen == [[0, 1, 2], [3, 4, 5]]  # the seventh as ever
    assert {n: r.content["out"]["client"] for n, r in replies.items()} == {
        n: n - 1 for n in range(1, 8)
    }


def test_what_raises_between_replies_is_the_error_of_those_that_are_left(grid_of: Grids) -> None:
    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        yield 1, echo(messages[1], contexts[1])
        yield 0, ZeroDivisionError("no batches")
        raise MemoryError("all at once")

    replies = ask(grid_of(echo, 4, 1, together, 4))
    assert [replies[n].has_error() for n in (1, 2, 3, 4)] == [True, False, True, True]
    assert replies[1].error.reason == "ZeroDivisionError: no batches"
    assert replies[4].error.reason.splitlines()[-1].startswith("MemoryError: all at once")


def test_who_is_still_at_work_is_waited_for_by_itself(grid_of: Grids) -> None:
    go, seen = threading.Event(), []

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        if 0 in seen[-1] and not go.is_set():
            go.wait(30)
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    grid = grid_of(echo, 4, 2, together, 2)
    assert ask_first(grid, 2) == [3, 4]
    assert ask_first(grid, 2) == [3, 4]  # 1 and 2 wait for their nodes
    go.set()
    assert sorted(ask(grid)) == [1, 2, 3, 4]
    assert [0, 1] in seen and seen.count([2, 3]) >= 2


def test_nodes_are_free_before_their_replies_are_there(
    grid_of: Grids, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks again at once finds the same clients side by side, however slow the worker is."""
    release, seen = NodeQueue.release, []

    def slow(queue: NodeQueue, node: int) -> Any:
        time.sleep(0.05 if node <= 2 else 0)  # the other worker is free before
        return release(queue, node)

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    monkeypatch.setattr(NodeQueue, "release", slow)
    grid = grid_of(echo, 4, 2, together, 2)
    for _ in range(5):
        ask(grid)
    assert sorted(seen) == [[0, 1]] * 5 + [[2, 3]] * 5


def context_of(client: int, **config: str) -> Context:
    return Context(1, client + 1, {"partition-id": client, **config}, RecordDict(), {})


@pytest.mark.parametrize(("make", "keys"), [(InProcess, []), (AtNode, []), (AtNode, ["state-dir"])])
def test_every_home_of_memory_keeps_every_bit(make: Any, keys: list[str], tmp_path: Path) -> None:
    config = dict.fromkeys(keys, str(tmp_path / "nodes"))
    states, contexts = make(), [context_of(0, **config), context_of(1, **config)]
    asked = {"channel": 7 * LIVES, "round": 1}
    assert states.load(contexts[0], asked) == {}
    state = {
        "optimizer/step": torch.tensor(3.0),
        "uplink/residual/w": torch.tensor([[0.1, -0.0], [1e-40, 3e38]]),
        "iterations": torch.tensor(2**40),
        "empty": torch.empty(0, 2),
    }
    states.commit(contexts[0], asked, state)
    loaded = states.load(contexts[0], asked)
    assert list(loaded) == list(state)
    for name, x in state.items():
        assert loaded[name].dtype == x.dtype and loaded[name].shape == x.shape
        assert loaded[name].numpy().tobytes() == x.numpy().tobytes()
    assert states.load(contexts[1], asked) == {}
