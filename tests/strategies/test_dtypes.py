"""Arrays keep their dtypes at both ends; the server makes no bytes of what it decodes."""

import logging

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAdam, FedAvg, FedMedian

from compressors import Compressor, Raw, compress, decompress, gradient_dropping
from strategies import Compressed, DelayedDSGD, answer_partition, client_mod
from strategies.channel import payload
from strategies.channel.nodes import Roster
from tests.support.linear import Pull, grid_of, modded_app, record, tensor

HALF = gradient_dropping(0.5)
TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}


def ends(dtype: str, step: float, strategy: Compressed | DelayedDSGD) -> tuple[set[str], Array]:
    """The dtypes that the app of one client saw, which adds ``step``, and the model at the end."""
    first = ArrayRecord({"w": Array(np.array([0.1, 0.7], dtype)), "b": Array(np.zeros((), dtype))})
    app, seen = ClientApp(mods=[client_mod(HALF, strategy.downlink, first)]), set[str]()
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        seen.update(array.dtype for array in arrays.values())
        moved = {n: Array(np.asarray(x.numpy() + np.array(step, dtype))) for n, x in arrays.items()}
        content = {"arrays": ArrayRecord(moved), "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    grid = grid_of(app, 1)
    result = strategy.start(grid, first, num_rounds=3)
    return seen, result.arrays["w"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("down", [Raw(), HALF], ids=["raw", "half"])
def test_the_app_sees_and_ends_with_its_own_dtype(dtype: str, down: Compressor) -> None:
    wrapped = Compressed(FedAvg(**TRAIN_ONLY), HALF, down, clients=1)
    for strategy in (wrapped, DelayedDSGD(HALF, down, clients=1)):
        seen, after = ends(dtype, 0.25, strategy)
        assert seen == {dtype} and after.dtype == dtype
        assert float(after.numpy().sum()) > 0.8 + 0.25
        assert strategy.channel is not None
        kinds = [one.kind for one in strategy.channel.traffic.downlinks.values()]
        assert kinds == ["model" if isinstance(down, Raw) else "update"]  # it is the same model


def test_what_a_dtype_cannot_hold_of_the_model_is_no_update() -> None:
    """0.1 in float32 is not in float16: an app that answers what it saw has learned nothing."""
    content = RecordDict()
    packet, _ = compress(Raw(), tensor(0.1, 0.7))
    payload.put(content, packet.payload, kind="model", round=1, version=1)
    half = ArrayRecord({"w": Array(np.zeros(2, np.float16))})

    def same(message: Message, context: Context) -> Message:
        arrays = message.content.array_records["arrays"]
        assert arrays["w"].numpy().astype("float32").tolist() != tensor(0.1, 0.7)["w"].tolist()
        return Message(RecordDict({"arrays": arrays}), reply_to=message)

    context = Context(1, 1, {"partition-id": 0}, RecordDict(), {})
    message = Message(content, dst_node_id=1, message_type="train")
    reply = client_mod(Raw(), Raw(), half)(message, context, same)
    sent = decompress(Raw(), payload.get(reply.content)[0], tensor(0.0, 0.0))
    assert sent["w"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [FedAvg, FedAdam, FedMedian])
def test_no_bytes_are_made_of_what_the_server_decodes(
    make: type[FedAvg], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 9.4 million entries these bytes took longer than all else that the server did."""

    def asked(self: payload.LazyArray) -> bytes:
        raise AssertionError("somebody asked for the bytes of a decoded model")

    monkeypatch.setattr(payload.LazyArray, "data", property(asked))
    grid = grid_of(modded_app(Pull([(8.0, 4.0), (2.0, 6.0)]), Raw()), 2)
    result = Compressed(make(**TRAIN_ONLY), Raw()).start(grid, record([0.0, 0.0]), num_rounds=2)
    assert result.arrays["w"].numpy().tolist() != [0.0, 0.0]


def test_numbers_that_a_strategy_changes_are_its_own() -> None:
    one = payload.lazy_arrays({"w": payload.to_tensors(record([1.0, 2.0]))["w"]})["w"]
    one.numpy()[:] = 0.0
    assert one.numpy().tolist() == [1.0, 2.0] and Array(one.numpy()).data == one.data


def test_a_node_beyond_the_clients_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    log = logging.getLogger("flwr")
    monkeypatch.setattr(log, "error", lambda text, *given: told.append(text % given))
    grid = grid_of(modded_app(Pull([(8.0, 4.0)] * 4), Raw()), 4)
    roster = Roster(3, 5.0)
    roster.gather(grid, 3)
    roster.look(grid)
    assert told == ["node 4 is passed over: the strategy is for clients=3"]
