"""The in-process grid with several messages at once: whole runs, and clients that fail in them."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from safetensors.torch import load_file

from fedsim import RunConfig, run
from fedsim.engines.local import AnswerSeveral, LocalGrid, NodeQueue
from strategies.channel.client_end import ClientEnd
from tests.support.runs import assert_same, clients, make_task, rounds

__all__ = ["make_task"]  # the fixture


def config(task: str, **more: Any) -> RunConfig:
    given = {"method": "raw", "temporal": 3, "iterations": 12, "clients": 5}
    return RunConfig(task=task, **(given | more))


def test_a_run_is_that_of_one_after_the_other(make_task: Any, tmp_path: Path) -> None:
    task = make_task().name
    run(config(task), tmp_path / "one", progress=False)
    run(config(task, stack=2), tmp_path / "two", progress=False)
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, x in one.items():
        torch.testing.assert_close(two[name], x, rtol=1e-4, atol=1e-6)
    first, other = rounds(tmp_path / "one"), rounds(tmp_path / "two")
    told = [c for c in first.columns if "loss" not in c and c != "metric"]
    assert first[told].equals(other[told])  # the same bits
    torch.testing.assert_close(*(torch.tensor(f["train_loss"]) for f in (first, other)))


def test_the_number_of_workers_changes_nothing(make_task: Any, tmp_path: Path) -> None:
    """Who is trained with whom follows from the cohort; with residuals, a model that travels."""
    task, more = make_task().name, {"method": "sbc(0.3)", "downlink": "sbc(0.5)", "cohort": 4}
    for workers in (1, 2):
        run(config(task, stack=3, workers=workers, **more), tmp_path / str(workers), progress=False)
    assert_same(tmp_path / "1", tmp_path / "2")


def test_a_client_that_fails_in_a_stack_fails_alone(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Client 1 in round 2 when it decodes, client 3 in round 3 when it encodes."""
    decode, encode = ClientEnd.decode, ClientEnd.encode

    def failing_decode(end: ClientEnd, content: Any, memory: Any) -> Any:
        delivery = decode(end, content, memory)
        if delivery.round == 2 and next(told) == 1:
            raise OSError("cannot read")
        return delivery

    def failing_encode(end: ClientEnd, client: Any, update: Any, delivery: Any) -> Any:
        if (client, delivery.round) == (3, 3):
            raise OSError("cannot write")
        return encode(end, client, update, delivery)

    told = iter(range(5))
    monkeypatch.setattr(ClientEnd, "decode", failing_decode)
    monkeypatch.setattr(ClientEnd, "encode", failing_encode)
    run(config(make_task().name, stack=5, min_replies=4), tmp_path, progress=False)
    failed = clients(tmp_path).query("failures > 0")
    assert failed[["round", "client"]].to_numpy().tolist() == [[2, 1], [3, 3]]
    assert failed["failure_reasons"].tolist() == ["OSError: cannot read", "OSError: cannot write"]


def number(context: Context) -> int:
    return int(str(context.node_config["partition-id"]))


def echo(message: Message, context: Context) -> Message:
    content = RecordDict({"out": ConfigRecord({"client": number(context)})})
    return Message(content, reply_to=message)


@pytest.fixture
def grid_of() -> Iterator[Callable[..., LocalGrid]]:
    """Grids over what is done with several messages; closed at the end."""
    grids = []

    def make(together: AnswerSeveral, clients: int, at_once: int, workers: int = 1) -> LocalGrid:
        app = ClientApp()
        app.train()(echo)
        grids.append(LocalGrid(app, clients, workers, together, at_once))
        return grids[-1]

    yield make
    for grid in grids:
        grid.close()


def ask(grid: LocalGrid, count: int | None = None) -> dict[int, Message]:
    """The replies of all nodes by node, or the first so many: the call is over with them."""
    content = RecordDict({"in": ConfigRecord({})})
    messages = [Message(content, dst_node_id=n, message_type="train") for n in grid.get_node_ids()]
    replies: Any = grid.send_and_receive(messages, timeout=60)
    came = {reply.metadata.src_node_id: reply for reply in islice(replies, count)}
    replies.close()
    return came


def test_messages_go_together_in_their_order_and_the_last_alone(grid_of: Any) -> None:
    seen = []

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    replies = ask(grid_of(together, 7, 3))
    assert seen == [[0, 1, 2], [3, 4, 5]]  # the seventh as ever
    assert {n: r.content["out"]["client"] for n, r in replies.items()} == {
        n: n - 1 for n in range(1, 8)
    }


def test_what_raises_between_replies_is_the_error_of_those_that_are_left(grid_of: Any) -> None:
    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        yield 1, echo(messages[1], contexts[1])
        yield 0, ZeroDivisionError("no batches")
        raise MemoryError("all at once")

    replies = ask(grid_of(together, 4, 4))
    assert [replies[n].has_error() for n in (1, 2, 3, 4)] == [True, False, True, True]
    assert replies[1].error.reason == "ZeroDivisionError: no batches"
    assert replies[4].error.reason == "MemoryError: all at once"


def test_who_is_still_at_work_is_waited_for_by_itself(grid_of: Any) -> None:
    go, seen = threading.Event(), []

    def together(messages: Sequence[Message], contexts: Sequence[Context]) -> Iterator[Any]:
        seen.append([number(context) for context in contexts])
        if 0 in seen[-1] and not go.is_set():
            go.wait(30)
        for i, message in enumerate(messages):
            yield i, echo(message, contexts[i])

    grid = grid_of(together, 4, 2, 2)
    assert sorted(ask(grid, 2)) == [3, 4]
    assert sorted(ask(grid, 2)) == [3, 4]  # 1 and 2 wait for their nodes
    go.set()
    assert sorted(ask(grid)) == [1, 2, 3, 4]
    assert [0, 1] in seen and seen.count([2, 3]) >= 2


def test_nodes_are_free_before_their_replies_are_there(
    grid_of: Any, monkeypatch: pytest.MonkeyPatch
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
    grid = grid_of(together, 4, 2, 2)
    for _ in range(5):
        ask(grid)
    assert sorted(seen) == [[0, 1]] * 5 + [[2, 3]] * 5
