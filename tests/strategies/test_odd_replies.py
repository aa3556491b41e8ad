"""What clients say that cannot be: none of it ends a round for the others, or is believed."""

import math
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg

from compressors import Raw, compress
from fedsim.federation import ledger
from fedsim.federation.ledger import round_seconds
from fedsim.ground.records import LayerRecord
from strategies import DSGD, ChannelStrategy, Compressed, DelayedDSGD
from strategies.channel.orders import from_report, to_report
from strategies.channel.payload import KEY, METRICS, SENT
from strategies.channel.replies import metrics_of
from tests.support.books import bits_of, books_of
from tests.support.linear import Pull, grid_of, modded_app, record, tensor, vector

NAN, INF = math.nan, math.inf
LIAR = 2
TARGETS = [(8.0, 4.0), (4.0, 8.0), (2.0, 2.0), (6.0, 0.0)]
HONEST: dict[str, Any] = {
    "sent": 2,
    SENT: [2],
    "decode-seconds": 0.25,
    "train-seconds": 0.5,
    "encode-seconds": 0.125,
}
"""What fedsim's own clients say beside the number of their samples and their loss."""

Odd = Callable[[RecordDict], None]


def metric(name: str, value: Any) -> Odd:
    def change(content: RecordDict) -> None:
        told = {k: v for k, v in content[METRICS].items() if k != name}
        content[METRICS] = MetricRecord(told if value is None else told | {name: value})

    return change


def setting(name: str, value: Any) -> Odd:
    def change(content: RecordDict) -> None:
        told = {k: v for k, v in content[KEY].items() if k != name}
        content[KEY] = ConfigRecord(told if value is None else told | {name: value})

    return change


def instead(name: str, value: Any) -> Odd:
    def change(content: RecordDict) -> None:
        content[name] = value

    return change


def without(name: str) -> Odd:
    def change(content: RecordDict) -> None:
        del content[name]

    return change


SAMPLES = "whole number from 1 to"
SECONDS = "number from 0 to"
UNLIKE = "not like the others"
REPLIES: dict[str, tuple[Odd, str, str]] = {
    # what is odd, why a mean does not use it (empty: it does), and why FedAvg inside does not
    "no metrics": (without(METRICS), "", UNLIKE),
    "settings for metrics": (instead(METRICS, ConfigRecord({"a": 1})), "", UNLIKE),
    "arrays for metrics": (instead(METRICS, record([1.0])), "", UNLIKE),
    "more metrics": (instead("more", MetricRecord({"a": 1})), "", UNLIKE),
    "more settings": (instead("more", ConfigRecord({"a": 1})), "", UNLIKE),
    "more arrays": (instead("more", record([1.0])), "", UNLIKE),
    "another metric": (metric("loss", 1.0), "", UNLIKE),
    "no samples": (metric("num-examples", None), "", UNLIKE),
    "samples nan": (metric("num-examples", NAN), SAMPLES, SAMPLES),
    "samples inf": (metric("num-examples", INF), SAMPLES, SAMPLES),
    "samples -inf": (metric("num-examples", -INF), SAMPLES, SAMPLES),
    "samples below zero": (metric("num-examples", -1077), SAMPLES, SAMPLES),
    "no sample": (metric("num-examples", 0), SAMPLES, SAMPLES),
    "half a sample": (metric("num-examples", 1.5), SAMPLES, SAMPLES),
    "samples 1e18": (metric("num-examples", 10**18), SAMPLES, SAMPLES),
    "samples 1e300": (metric("num-examples", 1e300), SAMPLES, SAMPLES),
    "list of samples": (metric("num-examples", [3]), SAMPLES, SAMPLES),
    "no loss": (metric("train-loss", None), "", UNLIKE),
    "loss nan": (metric("train-loss", NAN), "train-loss is nan", "train-loss is nan"),
    "loss inf": (metric("train-loss", INF), "train-loss is inf", "train-loss is inf"),
    "loss -inf": (metric("train-loss", -INF), "train-loss is -inf", "train-loss is -inf"),
    "list of losses": (metric("train-loss", [1.0]), "finite number", "finite number"),
    "no count": (metric("sent", None), "", UNLIKE),
    "count nan": (metric("sent", NAN), "", ""),
    "count inf": (metric("sent", INF), "", ""),
    "count 2^62": (metric("sent", 2**62), "", ""),
    "count below zero": (metric("sent", -5), "", ""),
    "list of counts": (metric("sent", [1]), "", UNLIKE),
    "no counts": (metric(SENT, None), "", UNLIKE),
    "counts nan": (metric(SENT, [NAN]), "", ""),
    "counts inf": (metric(SENT, [INF]), "", ""),
    "counts 2^62": (metric(SENT, [2**62]), "", ""),
    "counts below zero": (metric(SENT, [-1]), "", ""),
    "counts of none": (metric(SENT, []), "", UNLIKE),
    "counts of more": (metric(SENT, [1, 2, 3]), "", UNLIKE),
    "one count for all": (metric(SENT, 3), "", UNLIKE),
    "seconds nan": (metric("train-seconds", NAN), SECONDS, SECONDS),
    "seconds inf": (metric("encode-seconds", INF), SECONDS, SECONDS),
    "seconds below zero": (metric("decode-seconds", -1.0), SECONDS, SECONDS),
    "seconds 1e300": (metric("train-seconds", 1e300), SECONDS, SECONDS),
    "list of seconds": (metric("train-seconds", [1.0]), SECONDS, SECONDS),
    "no seconds": (metric("train-seconds", None), "", UNLIKE),
    "another round": (setting("round", 7), "of round 7", "of round 7"),
    "round below zero": (setting("round", -1), "of round -1", "of round -1"),
    "round in words": (setting("round", "one"), "of round 'one'", "of round 'one'"),
    "list of rounds": (setting("round", [1]), "of round", "of round"),
    "no round": (setting("round", None), "", ""),
    "another fate": (setting("fate", "eaten"), "fate is 'eaten'", "fate is 'eaten'"),
    "a fate that is cut": (setting("fate", b"\x80"), "number is cut", "number is cut"),
    "two fates": (setting("fate", b"\x02\x02"), "one whole number", "one whole number"),
    "too many lost": (setting("fate", b"\x80" * 8 + b"\x01"), "below 2**54", "below 2**54"),
    "payload in words": (setting("payload", "x"), "no payload", "no payload"),
    "empty payload": (setting("payload", b""), "ends early", "ends early"),
    "no payload": (setting("payload", None), "no payload", "no payload"),
    "no record": (without(KEY), "no payload", "no payload"),
    "metrics for the record": (instead(KEY, MetricRecord({"a": 1})), "no payload", "no payload"),
    "arrays for the record": (instead(KEY, ArrayRecord()), "no payload", "no payload"),
}


def round_of(strategy: ChannelStrategy, odd: Odd) -> ChannelStrategy:
    """A round of four clients, of which one answers oddly."""
    grid = grid_of(modded_app(Pull(TARGETS), Raw()), 4)
    strategy.open(tensor(0.0, 0.0))
    replies: list[Message] = list(grid.send_and_receive(strategy.ask(1, ConfigRecord(), grid)))
    for reply in replies:
        reply.content[METRICS] = MetricRecord({**reply.content[METRICS], **HONEST})
        if reply.metadata.src_node_id == LIAR + 1:
            odd(reply.content)
    strategy.advance(replies)
    return strategy


def check(strategy: ChannelStrategy, why: str) -> None:
    """Three or four are used, the failure has its reason, and the books hold what can be."""
    channel = strategy.channel
    assert channel is not None
    traffic = channel.traffic
    assert sorted(traffic.uplinks) == [c for c in range(4) if c != LIAR or not why]
    assert why in traffic.failures.get(LIAR, "") and bool(traffic.failures) == bool(why)
    assert torch.isfinite(channel.weights["w"]).all()
    assert bits_of(traffic).up_sent == 2 * len(traffic.uplinks)
    assert ledger.count_failures(traffic).failures == int(bool(why))
    books = books_of(traffic)
    assert [own.up_sent for own in books.values()].count(2) == len(traffic.uplinks)
    assert ledger.layer_records(traffic, channel.weights) == [LayerRecord(1, "w", 2, 2.0)]
    assert any(math.isfinite(own.train_loss) for own in books.values())
    assert all(0 <= seconds < 1e6 for seconds in astuple(round_seconds(traffic)))
    alive = 4 - bool(why)
    assert len(traffic.wire.used) == alive and len(traffic.wire.unused) == 4 - alive


@pytest.mark.parametrize("odd", REPLIES)
def test_an_odd_reply_ends_no_round(odd: str) -> None:
    change, why, _ = REPLIES[odd]
    strategy = DelayedDSGD(Raw(), clients=4, required=3, rule=DSGD("samples"))
    check(round_of(strategy, change), why)


@pytest.mark.parametrize("odd", REPLIES)
def test_an_odd_reply_ends_no_round_of_a_strategy_inside(odd: str) -> None:
    change, _, why = REPLIES[odd]
    inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=3, min_available_nodes=3)
    strategy = round_of(Compressed(inner, Raw(), clients=4, required=3), change)
    check(strategy, why)
    if why == UNLIKE:  # raw has no residual: what is not used is lost, and counted
        assert strategy.channel is not None and strategy.channel.traffic.dropped == [LIAR]


def test_of_two_updates_of_a_client_the_first_counts_with_its_own_samples() -> None:
    ends = []
    for twice in (False, True):
        inner = FedAvg(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
        strategy = Compressed(inner, Raw(), clients=4)
        grid = grid_of(modded_app(Pull(TARGETS), Raw()), 4)
        strategy.open(tensor(0.0, 0.0))
        asked = list(strategy.ask(1, ConfigRecord(), grid))
        replies = list(grid.send_and_receive(asked))
        again = RecordDict({**replies[LIAR].content})
        metric("num-examples", 10**6)(again)
        replies += [Message(again, reply_to=asked[LIAR])] * twice
        strategy.advance(replies)
        assert strategy.channel is not None
        ends.append(vector(strategy.channel.weights))
    assert ends[0] == ends[1]


def test_a_custom_weight_is_looked_at() -> None:
    for weight in (NAN, INF, -1.0, [1.0]):
        inner = FedAvg(
            fraction_evaluate=0.0,
            weighted_by_key="train-seconds",
            min_train_nodes=3,
            min_available_nodes=3,
        )
        strategy = Compressed(inner, Raw(), clients=4, required=3)
        channel = round_of(strategy, metric("train-seconds", weight)).channel
        assert channel is not None and list(channel.traffic.failures) == [LIAR]


def test_a_report_is_finite() -> None:
    for value in (NAN, INF, -INF):
        with pytest.raises(ValueError, match="reports norm"):
            from_report(to_report([1.0, value]), ("loss", "norm"))


@pytest.mark.parametrize(("most", "used"), [(100.0, 4), (3.0, 2)])
def test_a_longer_update_than_allowed_is_not_used(most: float, used: int) -> None:
    strategy = DelayedDSGD(Raw(), clients=4, required=2, max_norm=most)
    channel = round_of(strategy, lambda content: None).channel
    assert channel is not None
    assert len(channel.traffic.uplinks) == used  # of norms 4.47, 4.47, 1.41 and 3
    told = dict.fromkeys((0, 1), "the update has norm 4.47: at most 3 is allowed")
    assert channel.traffic.failures == (told if used == 2 else {})


def test_a_norm_beyond_float32_is_a_number() -> None:
    def huge(content: RecordDict) -> None:
        payload = compress(Raw(), tensor(3e38, 3e38))[0].payload
        content[KEY] = ConfigRecord({**content[KEY], "payload": payload})

    strategy = DelayedDSGD(Raw(), clients=4, required=3, max_norm=1e30)
    channel = round_of(strategy, huge).channel
    assert channel is not None and "norm 4.24e+38" in channel.traffic.failures[LIAR]


@pytest.mark.parametrize("name", ["num-examples", "decode-seconds", "train-seconds"])
def test_the_limits_of_numbers_are_allowed_and_no_more(name: str) -> None:
    least = int(name == "num-examples")
    for value in (least, 2**53):
        assert metrics_of(RecordDict({METRICS: MetricRecord({name: value})})) == {name: value}
    for value in (least - 1, 2**53 + 1):
        with pytest.raises(ValueError, match=f"{name} is {value}: it is a"):
            metrics_of(RecordDict({METRICS: MetricRecord({name: value})}))
