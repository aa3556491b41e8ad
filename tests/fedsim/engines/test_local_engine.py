"""The in-process grid: replies, failures, memory, time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines.local import LocalGrid
from fedsim.federation.client_memory import AtNode, InProcess
from strategies.channel.acknowledge import LIVES

Grids = Any


@pytest.fixture
def grid_of() -> Grids:
    """Grids over a train function, and one of several messages."""

    def make(train: Any, clients: int = 3, *more: Any) -> LocalGrid:
        app = ClientApp()
        app.train()(train)
        return LocalGrid(app, clients, *more)

    return make


def ask(grid: LocalGrid, timeout: float | None = None, **values: Any) -> dict[int, Message]:
    replies = grid.send_and_receive(messages_to(grid, **values), timeout=timeout)
    return {reply.metadata.src_node_id: reply for reply in replies}


def messages_to(grid: LocalGrid, **values: Any) -> list[Message]:
    content = RecordDict({"in": ConfigRecord(values)})
    return [Message(content, dst_node_id=n, message_type="train") for n in grid.get_node_ids()]


def number(context: Context) -> int:
    return int(str(context.node_config["partition-id"]))


def echo(message: Message, context: Context) -> Message:
    record = ConfigRecord({"client": number(context), **message.content["in"]})
    return Message(RecordDict({"out": record}), reply_to=message)


def test_every_client_replies_once(grid_of: Grids) -> None:
    replies = ask(grid_of(echo, 4), x=3)
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


def test_clients_train_while_replies_are_waited_for(grid_of: Grids) -> None:
    served = []

    def train(message: Message, context: Context) -> Message:
        served.append(number(context))
        return echo(message, context)

    grid = grid_of(train)
    assert [len(served) for _ in grid.send_and_receive(messages_to(grid))] == [1, 2, 3]
    served.clear()
    asked = messages_to(grid)
    replies: Any = grid.send_and_receive(asked)
    next(replies)
    replies.close()  # of whom nobody wants the others
    late = list(grid.pull_messages([m.metadata.message_id for m in asked]))
    assert served == [0] and [r.metadata.src_node_id for r in late] == [2, 3]
    assert all("over before" in r.error.reason for r in late)


def test_all_clients_are_waited_for(grid_of: Grids) -> None:
    """What a federation learns does not depend on the machine's speed."""
    assert len(ask(grid_of(echo), timeout=1e-9)) == 3


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


def test_messages_go_together_in_their_order_and_the_last_alone(grid_of: Grids) -> None:
    seen = []

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    replies = ask(grid_of(echo, 7, together, 3))
    assert seen == [[0, 1, 2], [3, 4, 5]]  # the seventh as ever
    assert {n: r.content["out"]["client"] for n, r in replies.items()} == {
        n: n - 1 for n in range(1, 8)
    }


def test_what_raises_between_replies_is_the_error_of_those_that_are_left(grid_of: Grids) -> None:
    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        yield 1, echo(messages[1], contexts[1])
        yield 0, ZeroDivisionError("no batches")
        raise MemoryError("all at once")

    replies = ask(grid_of(echo, 4, together, 4))
    assert [replies[n].has_error() for n in (1, 2, 3, 4)] == [True, False, True, True]
    assert replies[1].error.reason == "ZeroDivisionError: no batches"
    assert replies[4].error.reason.splitlines()[-1].startswith("MemoryError: all at once")


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
