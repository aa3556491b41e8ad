"""Flower's wrappers and mods together with ours: what is right, and what is refused."""

import json
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import LocalDpMod, fixedclipping_mod
from flwr.serverapp import NeighboringRelation, PrivacyConfig, PrivacySpent, SamplingMethod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    Strategy,
)

from compressors import Raw, parse
from strategies import Compressed, DelayedDSGD, TooFewReplies, WrongOrder, answer_partition
from strategies import client_mod as compressing
from strategies.server.inner_checks import record_name
from tests.support.linear import Pull, grid_of, record

TRAIN_ONLY = {"fraction_evaluate": 0.0, "min_train_nodes": 1, "min_available_nodes": 1}
TARGETS = [(0.84, 0.0)] * 3  # every update is (0.42, 0)
CLIP = 0.15
SBC, TOPK = parse("sbc(0.5)"), parse("per_tensor(topk(0.5) | float32 | golomb)")


def fixed(inner: Strategy, noise: float = 0.0, clients: int = 3) -> Strategy:
    return DifferentialPrivacyServerSideFixedClipping(inner, noise, CLIP, clients)


def client_side(inner: Strategy) -> Strategy:
    return DifferentialPrivacyClientSideFixedClipping(inner, 0.0, CLIP, 3)


def model(strategy: Strategy, mods: list[Any], pull: Pull | None = None, rounds: int = 1) -> Any:
    app = ClientApp(mods=mods)
    app.train()((pull or Pull(TARGETS)).train)
    answer_partition(app)
    grid = grid_of(app, 3)
    return strategy.start(grid, record([0.0, 0.0]), num_rounds=rounds).arrays["w"].numpy()


def mod(uplink: Any) -> Any:
    return compressing(uplink, Raw(), record([0.0, 0.0]))


def test_a_clip_inside_clips_what_was_decoded() -> None:
    """Without a clip the model moves by 0.42."""
    plain = model(Compressed(FedAvg(**TRAIN_ONLY), SBC), [mod(SBC)])
    np.testing.assert_allclose(plain, [0.42, 0.0], rtol=1e-6)
    private = model(Compressed(fixed(FedAvg(**TRAIN_ONLY)), SBC), [mod(SBC)])
    np.testing.assert_allclose(private, [CLIP, 0.0], rtol=1e-6)


def test_the_noise_is_that_of_the_clip() -> None:
    """Standard deviation: multiplier 2 times clip 0.15 over 3 clients, 0.1; of 4,000 entries."""
    app = ClientApp(
        mods=[
            compressing(
                Raw(), Raw(), zeros := ArrayRecord({"w": Array(np.zeros(4000, np.float32))})
            )
        ]
    )
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        one = ArrayRecord({"w": Array(np.eye(1, 4000, dtype=np.float32)[0])})
        content = {"arrays": one, "metrics": MetricRecord({"num-examples": 1})}
        return Message(RecordDict(content), reply_to=message)

    grid = grid_of(app, 3)
    strategy = Compressed(fixed(FedAvg(**TRAIN_ONLY), noise=2.0), Raw())
    after = strategy.start(grid, zeros, num_rounds=1).arrays["w"].numpy()
    assert 0.095 < after[1:].std() < 0.105


@pytest.mark.parametrize(
    "ours", [lambda: Compressed(FedAvg(**TRAIN_ONLY), SBC), lambda: DelayedDSGD(SBC, clients=3)]
)
@pytest.mark.parametrize(
    "around",
    [
        fixed,
        client_side,
        lambda s: fixed(fixed(s)),
        lambda s: DifferentialPrivacyServerSideAdaptiveClipping(s, 0.0, 3),
    ],
)
def test_a_clip_around_is_refused_before_any_training(
    ours: Callable[[], Strategy], around: Callable[[Strategy], Strategy]
) -> None:
    pull = Pull(TARGETS)
    with pytest.raises(WrongOrder, match=r"works is Compressed\(Differential[^\n]*$"):
        model(around(ours()), [mod(SBC)], pull)
    assert not any(pull.seen.values())


def test_what_the_client_clipped_arrives_clipped() -> None:
    strategy = Compressed(client_side(FedAvg(**TRAIN_ONLY)), TOPK)
    np.testing.assert_allclose(model(strategy, [mod(TOPK), fixedclipping_mod]), [CLIP, 0.0], 1e-6)


def test_a_client_that_does_not_clip_is_found_out() -> None:
    strategy = Compressed(client_side(FedAvg(**TRAIN_ONLY)), TOPK)
    with pytest.raises(WrongOrder, match="norm 0.42 and the clip allows 0.15.*fixedclipping_mod"):
        model(strategy, [mod(TOPK)])


@pytest.mark.parametrize(
    ("uplink", "why"),
    [("sbc(0.1)", "of earlier updates too"), ("cnat", "of norm 1 one of norm 1.05")],
)
def test_a_method_that_lengthens_clipped_updates_is_refused(uplink: str, why: str) -> None:
    with pytest.raises(WrongOrder, match=f"{why}.*ServerSideFixedClipping"):
        Compressed(client_side(FedAvg(**TRAIN_ONLY)), parse(uplink))


@pytest.mark.parametrize(
    "setting", [{"clients": 4}, {"clients": 3, "required": 2}, {"clients": 5, "cohort": 2}]
)
def test_noise_for_other_numbers_of_clients_is_refused(setting: dict[str, int]) -> None:
    with pytest.raises(WrongOrder, match="num_sampled_clients, 3: they have to be equal"):
        Compressed(fixed(FedAvg(**TRAIN_ONLY)), SBC, **setting)


def test_what_cannot_stand_inside_is_refused() -> None:
    with pytest.raises(WrongOrder, match="compressed once"):
        Compressed(Compressed(FedAvg(**TRAIN_ONLY), SBC), SBC)
    with pytest.raises(WrongOrder, match="FedMedian .* 10% of the entries"):
        Compressed(FedMedian(**TRAIN_ONLY), parse("sbc(0.1)"))
    Compressed(FedMedian(**TRAIN_ONLY), parse("ef_sign"))
    with pytest.raises(WrongOrder, match="FedAvg waits for 3 nodes, and clients or cohort is 2"):
        Compressed(FedAvg(min_train_nodes=3, min_available_nodes=2), SBC, clients=4, cohort=2)


def test_local_privacy_stands_after_the_compression() -> None:
    local = LocalDpMod(CLIP, 0.0, 1.0, 1e-5)
    strategy = Compressed(FedAvg(**TRAIN_ONLY), TOPK)
    np.testing.assert_allclose(model(strategy, [mod(TOPK), local]), [CLIP, 0.0], rtol=1e-6)
    with pytest.raises(TooFewReplies, match=r"LocalDpMod.*order that works is mods=\[client_mod"):
        model(strategy, [local, mod(TOPK)])


class Looking:
    """A mod that writes down the keys of what passes, and the record itself."""

    def __init__(self) -> None:
        self.came: list[list[str]] = []
        self.went: list[list[str]] = []

    def __call__(self, message: Message, context: Context, call: Any) -> Message:
        content = message.content
        self.came.append([*content])
        reply = call(message, context)
        self.went.append([*reply.content])
        assert message.content is content
        assert [*content] == self.came[-1]  # what is inside changes nothing outside
        return reply


@pytest.mark.parametrize(("arrays", "config"), [("arrays", "config"), ("model", "settings")])
def test_only_our_own_record_comes_and_goes(arrays: str, config: str) -> None:
    outside, within = Looking(), Looking()
    inner = FedAvg(**TRAIN_ONLY, arrayrecord_key=arrays, configrecord_key=config)
    after = model(Compressed(inner, SBC), [outside, mod(SBC), within], rounds=2)
    np.testing.assert_allclose(after, [0.63, 0.0], rtol=1e-6)
    trains = slice(-6, None)  # two rounds of three clients, after the question who is who
    assert all({*keys} == {config, "fedsim"} for keys in outside.came[trains])
    assert all({*keys} == {config, arrays} for keys in within.came[trains])
    assert all({*keys} == {"arrays", "metrics"} for keys in within.went[trains])
    assert all({*keys} == {"fedsim", "metrics"} for keys in outside.went[trains])


class Personal(FedAvg):
    """Sends what ``sends`` makes of the model."""

    sends: Callable[[ArrayRecord], dict[str, ArrayRecord]]

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Any
    ) -> list[Message]:
        content: Any = self.sends(arrays)
        return [Message(RecordDict(content), dst_node_id=1, message_type="train")]


@pytest.mark.parametrize(
    ("sends", "why"),
    [
        (lambda a: {"arrays": record([1.0, 1.0])}, "another model than the shared one"),
        (lambda a: {"arrays": a, "controls": a}, r"2 ArrayRecords \(arrays, controls\)"),
        (lambda a: {}, "0 ArrayRecords"),
    ],
)
def test_what_would_be_left_out_of_the_message_is_refused(sends: Any, why: str) -> None:
    inner = Personal(**TRAIN_ONLY)
    inner.sends = sends
    grid = grid_of(ClientApp(), 1)
    with pytest.raises(WrongOrder, match=why):
        Compressed(inner, SBC).configure_train(1, record([0.0, 0.0]), ConfigRecord(), grid)


def test_an_equal_copy_of_the_shared_model_may_be_sent() -> None:
    message: Any = SimpleNamespace(content=RecordDict({"model": record([0.0, 0.0])}))
    assert record_name([message], record([0.0, 0.0])) == "model"


def test_a_strategy_within_a_wrapper_is_told_what_clients_hold_and_remembered() -> None:
    half = parse("ef(per_tensor(topk(0.5) | float32 | golomb))")
    wide = lambda inner: DifferentialPrivacyServerSideFixedClipping(inner, 0.0, 100.0, 3)  # noqa: E731
    pull = [(8.0, 4.0)] * 3
    results = []
    for inner in (
        FedAvgM(**TRAIN_ONLY, server_momentum=0.5),
        wide(FedAvgM(**TRAIN_ONLY, server_momentum=0.5)),
    ):
        strategy = Compressed(inner, Raw(), half)
        app = compressing(Raw(), half, record([0.0, 0.0]))
        results.append(model(strategy, [app], Pull(pull), rounds=4))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-6)

    first = Compressed(wide(FedAdam(**TRAIN_ONLY)), Raw())
    model(first, [mod(Raw())], Pull(pull), rounds=2)
    second = Compressed(wide(FedAdam(**TRAIN_ONLY)), Raw())
    second.restore(*first.state())
    mine, theirs = (s.strategy.strategy for s in (first, second))
    assert np.array_equal(mine.m_t["w"], theirs.m_t["w"]) and np.any(mine.m_t["w"])
    assert torch.equal(first.channel.weights["w"], second.channel.weights["w"])


def test_noise_is_for_a_whole_cohort() -> None:
    pull = Pull(TARGETS, fails=lambda client, call: client == 2)
    with pytest.raises(TooFewReplies, match="2 of 3 clients replied and 3 are required"):
        model(Compressed(fixed(FedAvg(**TRAIN_ONLY)), SBC), [mod(SBC)], pull)


def test_noise_is_for_the_number_of_clients_that_answer() -> None:
    """Where neither ``clients`` nor ``required`` says how many there are."""
    with pytest.raises(WrongOrder, match="3 clients answered.*num_sampled_clients, 100"):
        model(Compressed(fixed(FedAvg(**TRAIN_ONLY), clients=100), Raw()), [mod(Raw())])


def moves(updates: list[list[float]], examples: list[int]) -> Callable[..., Message]:
    """What clients answer whose updates and weights are these; the model begins at zero."""

    def train(message: Message, context: Context) -> Message:
        client = int(context.node_config["partition-id"])
        metrics = MetricRecord({"num-examples": examples[client]})
        content = RecordDict({"arrays": record(updates[client]), "metrics": metrics})
        return Message(content, reply_to=message)

    return train


def answered(strategy: Strategy, train: Callable[..., Message], rounds: int = 1) -> Any:
    app = ClientApp(mods=[mod(Raw())])
    app.train()(train)
    answer_partition(app)
    grid = grid_of(app, 3)
    return strategy.start(grid, record([0.0, 0.0]), num_rounds=rounds).arrays["w"].numpy()


def test_no_weight_moves_a_private_model_further_than_the_clip() -> None:
    liar = moves([[0.0, 1e-6], [0.0, 1e-6], [9.0, 0.0]], [5, 5, 2**50])
    moved = answered(Compressed(fixed(FedAvg(**TRAIN_ONLY)), Raw(), clients=3), liar)
    np.testing.assert_allclose(moved, [CLIP / 3, 2e-6 / 3], rtol=1e-5)


@pytest.mark.parametrize("adaptive", [False, True])
def test_an_update_of_zero_counts_as_zero_under_a_clip(adaptive: bool) -> None:
    inner = FedAvg(**TRAIN_ONLY)
    private = fixed(inner)
    if adaptive:
        private = DifferentialPrivacyServerSideAdaptiveClipping(inner, 0.0, 3, CLIP)
    zero = moves([[0.09, 0.0], [0.0, 0.0], [0.0, 0.0]], [5] * 3)
    moved = answered(Compressed(private, Raw(), clients=3), zero)
    np.testing.assert_allclose(moved, [0.03, 0.0], rtol=1e-6, atol=0)


class Accountant:
    """Counts releases, as Flower's accountants do."""

    config = PrivacyConfig(
        1e-5, 3, NeighboringRelation.ADD_OR_REMOVE_ONE, SamplingMethod.NO_AMPLIFICATION
    )
    num_releases = 0

    def compose(self, event: Any, count: int = 1) -> None:
        """One more."""
        self.num_releases += count

    def get_privacy_spent(self, delta: float | None = None) -> PrivacySpent:
        """An epsilon of one per release."""
        return PrivacySpent(float(self.num_releases), 1e-5, self.num_releases, "count")

    def state_dict(self) -> dict[str, object]:
        """See ``PrivacyAccountant``."""
        return {"n": self.num_releases}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See ``PrivacyAccountant``."""
        self.num_releases = state["n"]


def test_the_spent_privacy_goes_on_after_a_restore() -> None:
    """With a client of another number of examples, which Flower alone would not account for."""
    train, last = moves([[0.1, 0.0]] * 3, [5, 5, 7]), None
    for _ in range(2):
        accountant = Accountant()
        private: Any = DifferentialPrivacyServerSideFixedClipping(
            FedAvg(**TRAIN_ONLY), 1.0, CLIP, 3, accountant=accountant
        )
        strategy = Compressed(private, Raw(), clients=3)
        if last:
            strategy.restore(last[0], json.loads(json.dumps(last[1])))
        answered(strategy, train, rounds=3)
        last = strategy.state()
    assert accountant.num_releases == 6


class Own(FedAvg):
    """As in Flower's advanced example."""

    def start(self, *given: Any, **named: Any) -> Any:
        """See ``Strategy.start``."""
        return super().start(*given, **named)


def test_a_start_of_its_own_is_refused_where_nobody_would_call_it() -> None:
    own = r"Own has a start\(\) of its own, .* subclass of Compressed"
    for inner in (Own(), fixed(Own())):
        with pytest.raises(WrongOrder, match=own):
            Compressed(inner, SBC)
