"""``compress_evaluation``: the model that clients evaluate travels as a round's update does."""

from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg

from compressors import Raw, gradient_dropping
from fedsim.engines.local import LocalGrid
from strategies import Buffers, Compressed, WrongOrder, answer_partition, client_mod
from strategies.channel.framing import to_client, to_server
from strategies.channel.payload import KEY, get, to_arrays
from strategies.client_mod import MEMORY
from tests.support.linear import client_of

FEW = gradient_dropping(0.05)
LENGTH, CLIENTS, ROUNDS = 200, 3, 5
BUFFERS = {"mean": torch.full((4,), 2.0)}
ALL = {"min_train_nodes": 1, "min_available_nodes": 1, "min_evaluate_nodes": 1}


class Model:
    """A model of 200 numbers, with buffers or a frozen part; what each client was sent to score."""

    def __init__(self, buffers: bool = False, frozen: bool = False, mods: bool = True) -> None:
        parts = {"w": torch.zeros(LENGTH)} | (BUFFERS if buffers else {})
        parts |= {"base": torch.ones(3)} if frozen else {}
        self.initial, self.seen, self.forgets = to_arrays(parts), list[Any](), set[int]()
        self.sent: list[Message] = []
        own = {"buffers": [*BUFFERS] if buffers else (), "frozen": ["base"] if frozen else ()}
        mod = client_mod(FEW, FEW, self.initial, **own)
        self.app = ClientApp()
        answer_partition(self.app)
        self.app.train(mods=[mod])(self.train)
        self.app.evaluate(mods=[self.forgetting, mod] if mods else [])(self.evaluate)

    def train(self, message: Message, context: Context) -> Message:
        """A step to a target of the client's own; its buffers move by its number."""
        (arrays,) = message.content.array_records.values()
        state, client = arrays.to_torch_state_dict(), client_of(context)
        target = torch.randn(LENGTH, generator=torch.Generator().manual_seed(client))
        state["w"] = (state["w"] + target) / 2
        state |= {"mean": state["mean"] + client} if "mean" in state else {}
        metrics = MetricRecord({"num-examples": 1})
        content = RecordDict({"model": ArrayRecord(state), "metrics": metrics})
        return Message(content, reply_to=message)

    def evaluate(self, message: Message, context: Context) -> Message:
        """Notes what it is asked to score."""
        ((name, arrays),) = message.content.array_records.items()
        state = {n: x.tolist() for n, x in arrays.to_torch_state_dict().items()}
        lr = message.content.config_records["config"]["lr"]
        self.seen.append((client_of(context), name, lr, state))
        metrics = MetricRecord({"num-examples": 1, "score": sum(state["w"])})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    def forgetting(self, message: Message, context: Context, call: Any) -> Message:
        """A client of ``forgets`` was restarted: its memory is gone."""
        self.sent.append(message)
        if client_of(context) in self.forgets and MEMORY in context.state:
            del context.state[MEMORY]
        return call(message, context)


def run(model: Model, packed: bool, **common: Any) -> tuple[Compressed, Any, list[list[bytes]]]:
    """Five rounds; the payloads that trained, both ways, of each."""
    from flwr.app import ConfigRecord

    inner, trained = common.pop("inner", {}), list[list[bytes]]()
    strategy = Compressed(
        FedAvg(**{"fraction_evaluate": 1.0} | ALL | inner),
        FEW,
        FEW,
        clients=CLIENTS,
        compress_evaluation=packed,
        **common,
    )

    def note(number: int, arrays: ArrayRecord) -> None:
        if number:
            traffic = strategy.channel.traffic
            parts = [*traffic.downlinks.values(), *traffic.uplinks.values()]
            trained.append([part.payload for part in parts])

    grid = LocalGrid(model.app, CLIENTS)
    config = ConfigRecord({"lr": 0.5})
    result = strategy.start(grid, model.initial, ROUNDS, evaluate_config=config, evaluate_fn=note)
    return strategy, result, trained


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "as it is": ({}, {}),
    "another key": ({}, {"inner": {"arrayrecord_key": "model"}}),
    "two of three": ({}, {"cohort": 2}),
    "two of three, caught up": ({}, {"cohort": 2, "catch_up": True}),
    "frozen": ({"frozen": True}, {"frozen": ["base"]}),
    "buffers": ({"buffers": True}, {"buffers": Buffers(BUFFERS)}),
    "buffers of their own": (
        {"buffers": True},
        {"buffers": Buffers(BUFFERS, down=False, up=lambda n: n == 2), "cohort": 2},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_clients_score_what_they_score_without(name: str) -> None:
    """And train what they train without, to the byte."""
    given, common = CASES[name]
    dense, packed = Model(**given), Model(**given)
    one, expected, before = run(dense, False, **common)
    other, result, after = run(packed, True, **common)
    seen, expected_seen = (sorted(m.seen, key=lambda one: one[0]) for m in (packed, dense))
    assert seen == expected_seen and len(seen) == ROUNDS * CLIENTS  # Flower's order is random
    assert after == before and result.arrays == expected.arrays
    kept, state = one.state(), other.state()
    own = {"channel_id": 0}
    assert state[1] | own == kept[1] | own
    assert all(torch.equal(x, kept[0][n]) for n, x in state[0].items())
    travel, plain = (s.channel.traffic.wire.scored() for s in (other, one))
    assert travel.up == plain.up and travel.down < plain.down


def test_every_byte_is_booked() -> None:
    model = Model()
    strategy, result, _ = run(model, True)
    end = strategy.channel
    assert end.policy.last is not None and len(model.sent) == ROUNDS * CLIENTS
    for message in model.sent[-CLIENTS:]:
        payload, said = get(message.content)
        client = said["client"]
        assert payload == end.policy.last.payload == end.traffic.scoring[client].payload
        assert (said["kind"], said["base"], said["version"]) == ("update", ROUNDS - 1, ROUNDS)
        assert not message.content.array_records
    down = sum(to_client(m.content, "evaluate").down for m in model.sent[-CLIENTS:])
    answers = [
        to_server(
            RecordDict({"metrics": MetricRecord({"num-examples": 1, "score": 0.0})}), "evaluate"
        )
    ] * CLIENTS
    down += sum(answer.down for answer in answers)
    told = result.evaluate_metrics_clientapp[ROUNDS]
    assert told["bytes-down"] == down == end.traffic.wire.scored().down
    assert told["bytes-up"] == end.traffic.wire.scored().up
    told, wire = result.train_metrics_clientapp[ROUNDS], end.traffic.wire
    assert (told["bytes-down"], told["bytes-up"]) == (wire.trained().down, wire.trained().up)
    total = wire.total()
    assert total.down == wire.trained().down + down
    assert sorted(end.traffic.scoring) == [0, 1, 2]


def test_a_client_that_lost_its_model_is_sent_it_and_is_waited_for() -> None:
    """It asks for the model in evaluation, and in the next round the server knows what it holds."""
    model = Model()
    model.forgets = {1}
    strategy, result, _ = run(model, True)
    assert len(model.seen) == ROUNDS * CLIENTS
    assert len(model.sent) == (ROUNDS + 1) * CLIENTS + 2
    kinds = [m.content[KEY]["kind"] for m in model.sent if m.content[KEY]["client"] == 1]
    assert kinds == ["update", "model"] * ROUNDS
    last = [state for client, _, _, state in model.seen[-CLIENTS:]]
    assert last[0] == last[1] == last[2]
    assert result.arrays["w"].numpy().tolist() == last[0]["w"]
    assert [len(told) for told in result.evaluate_metrics_clientapp.values()] == [3] * ROUNDS


def test_a_mod_that_evaluation_lacks_is_told() -> None:
    with pytest.raises(WrongOrder, match=r"no client evaluates the model .*@app.evaluate\(mods="):
        run(Model(mods=False), True)


def test_a_raw_downlink_has_nothing_to_compress() -> None:
    with pytest.raises(ValueError, match=r"compress_evaluation is True and downlink is raw.*give"):
        Compressed(FedAvg(), FEW, Raw(), compress_evaluation=True)
