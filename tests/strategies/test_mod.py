"""``client_mod``: an ordinary Flower client app behind a compressed channel."""

import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict

from compressors import Raw, compress, decompress, gradient_dropping, parse
from compressors.whole.memory import unnest
from fedsim.engines import compat
from strategies import client_mod
from strategies.channel.payload import get, put, to_tensors
from strategies.client_mod import MEMORY
from tests.support.linear import Pull, record, tensor, vector

HALF = gradient_dropping(0.5)
LIKE = tensor(0.0, 0.0)


@pytest.fixture(autouse=True)
def identity() -> None:
    compat.identify()


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


def sent(reply: Message) -> list[float]:
    return vector(decompress(HALF, get(reply.content)[0], LIKE))


def residual(context: Context) -> list[float]:
    memory = to_tensors(context.state.array_records[MEMORY])
    return unnest("uplink", memory)["residual/w"].tolist()


def test_the_residual_stays_and_is_sent_later() -> None:
    mod, context, pull = (
        client_mod(HALF, HALF, record([0.0, 0.0])),
        context_of(0),
        Pull([(8.0, 4.0)]),
    )
    first = mod(model(1, 0.0, 0.0), context, pull.train)
    assert sent(first) == [4.0, 0.0] and residual(context) == [0.0, 2.0]
    assert not first.content.array_records
    assert first.content.metric_records["metrics"]["num-examples"] == 1
    second = mod(update(2, 4.0, 0.0), context, pull.train)  # w (4, 0): u (2, 2) + (0, 2)
    assert pull.seen[0] == [[0.0, 0.0], [4.0, 0.0]]
    assert sent(second) == [0.0, 4.0] and residual(context) == [2.0, 0.0]


def test_a_whole_model_replaces_the_base_and_keeps_the_residual() -> None:
    mod, context, pull = (
        client_mod(HALF, HALF, record([0.0, 0.0])),
        context_of(0),
        Pull([(8.0, 4.0)]),
    )
    mod(model(1, 0.0, 0.0), context, pull.train)
    third = mod(model(3, 8.0, 2.0), context, pull.train)  # u (0, 1) + (0, 2)
    assert pull.seen[0][-1] == [8.0, 2.0]
    assert sent(third) == [0.0, 3.0] and residual(context) == [0.0, 0.0]


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


def test_clients_do_not_share_memory() -> None:
    mod, pull = client_mod(HALF, HALF, record([0.0, 0.0])), Pull([(8.0, 4.0), (-2.0, -6.0)])
    contexts = [context_of(0), context_of(1)]
    for context in contexts:
        mod(model(1, 0.0, 0.0), context, pull.train)
    assert [residual(c) for c in contexts] == [[0.0, 2.0], [-1.0, 0.0]]


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


def test_the_template_gives_shapes_and_no_values() -> None:
    template = ArrayRecord({"w": Array(torch.full((2,), torch.nan).numpy())})
    mod, context, pull = client_mod(HALF, HALF, template), context_of(0), Pull([(8.0, 4.0)])
    assert sent(mod(model(1, 0.0, 0.0), context, pull.train)) == [4.0, 0.0]


def test_a_stateless_method_keeps_only_the_base() -> None:
    up = parse("per_tensor(topk(0.5) | float32 | golomb)")
    mod, context, pull = (
        client_mod(up, Raw(), record([0.0, 0.0])),
        context_of(0),
        Pull([(8.0, 4.0)]),
    )
    for number in (1, 2):
        mod(model(number, 0.0, 0.0), context, pull.train)
    assert not [k for k in context.state.array_records[MEMORY] if k.startswith("uplink/")]
