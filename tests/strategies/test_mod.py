"""``client_mod``: an ordinary Flower client app behind a compressed channel."""

import pytest
import torch
from flwr.app import ConfigRecord, Context, Error, Message, RecordDict

from compressors import Raw, compress, gradient_dropping
from strategies import client_mod
from strategies.channel.payload import put, to_tensors
from strategies.client_mod import MEMORY
from tests.support.linear import Pull, record, tensor

HALF = gradient_dropping(0.5)


def context_of(client: int) -> Context:
    return Context(1, client + 1, {"partition-id": client}, RecordDict(), {})


def model(number: int, *values: float) -> Message:
    content = RecordDict()
    put(
        content,
        compress(Raw(), tensor(*values))[0].payload,
        kind="model",
        round=number,
        version=number,
        applied=bytes([number - 1]),
    )
    return Message(content, dst_node_id=1, message_type="train")


def update(number: int, *values: float) -> Message:
    content = RecordDict()
    put(
        content,
        compress(HALF, tensor(*values))[0].payload,
        kind="update",
        round=number,
        version=number,
        base=number - 1,
        applied=bytes([number - 1]),
    )
    return Message(content, dst_node_id=1, message_type="train")


@pytest.mark.parametrize("how", ["raises", "error reply"])
def test_a_client_that_failed_keeps_what_it_had(how: str) -> None:
    mod, context = client_mod(HALF, HALF, record([0.0, 0.0])), context_of(0)
    pull = Pull([(8.0, 4.0)])
    mod(model(1, 0.0, 0.0), context, pull.train)
    before = to_tensors(context.state.array_records[MEMORY])

    def broken(message: Message, context: Context) -> Message:
        if how == "raises":
            raise RuntimeError("out of order")
        return Message(Error(code=2, reason="out of order"), reply_to=message)

    if how == "raises":
        with pytest.raises(RuntimeError, match="out of order"):
            mod(update(2, 4.0, 0.0), context, broken)
    else:
        assert mod(update(2, 4.0, 0.0), context, broken).has_error()
    after = to_tensors(context.state.array_records[MEMORY])
    assert list(after) == list(before)
    assert all(torch.equal(after[name], x) for name, x in before.items())


def test_a_nan_update_is_refused_by_name_and_forgotten() -> None:
    mod, context = client_mod(HALF, HALF, record([0.0, 0.0])), context_of(0)
    with pytest.raises(ValueError, match="'w'"):
        mod(model(1, 0.0, 0.0), context, Pull([(float("nan"), 1.0)]).train)
    assert MEMORY not in context.state


def test_other_messages_pass_through() -> None:
    mod, context, pull = (
        client_mod(HALF, HALF, record([0.0, 0.0])),
        context_of(0),
        Pull([(8.0, 4.0)]),
    )
    content = RecordDict({"arrays": record([2.0, 2.0]), "config": ConfigRecord({"lr": 0.1})})
    message = Message(content, dst_node_id=1, message_type="train")
    reply = mod(message, context, pull.train)
    assert reply.content.array_records["arrays"]["w"].numpy().tolist() == [5.0, 3.0]
    assert MEMORY not in context.state
