"""A reply that comes after the timeout: nobody hears of it, and the client keeps what it had."""

import threading
from typing import Any

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedsim.engines.local import LocalGrid
from fedsim.federation.client_memory import InProcess


def test_a_late_client_keeps_its_memory_and_cannot_overwrite_newer() -> None:
    states = InProcess(deferred=True)
    app, go, ended = ClientApp(), threading.Event(), threading.Event()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        number = int(str(message.content["settings"]["round"]))
        if number == 1:
            go.wait(20)
        reply = Message(RecordDict({"m": MetricRecord({"round": number})}), reply_to=message)
        states.commit(context, {"round": torch.tensor(number)})
        if number == 1:
            ended.set()
        return reply

    grid = LocalGrid(app, clients=1, workers=2, settle=states.settle)
    assert ask(grid, 1, timeout=0.2) == []
    assert states.states == {}
    assert ask(grid, 2, timeout=20) == [2]
    go.set()  # the first round's client now ends, long after its round
    assert ended.wait(20)
    grid.close()
    for thread in grid._threads:
        thread.join(20)
    assert states.states[0]["round"] == 2


def ask(grid: Any, number: int, timeout: float) -> list[int]:
    content = RecordDict({"settings": MetricRecord({"round": number})})
    message = Message(content, dst_node_id=1, message_type="train")
    replies = grid.send_and_receive([message], timeout=timeout)
    return [int(reply.content["m"]["round"]) for reply in replies]


def test_what_came_too_late_is_not_kept_by_a_later_query() -> None:
    states = InProcess(deferred=True)
    context = Context(1, 1, {"partition-id": 0}, RecordDict(), {})
    states.commit(context, {"round": torch.tensor(1)})
    states.settle(False)  # the reply to that was late
    states.settle(True)  # the reply to something that commits nothing, on the same thread
    assert states.states == {}
