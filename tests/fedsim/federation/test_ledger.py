"""Bits: eight times the length of what was sent, split without a rest."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch

from fedsim import run
from fedsim.federation import ledger
from fedsim.ground.columns import row_of
from fedsim.ground.files import digest_of
from fedsim.runs import totals
from fedsim.show.curves import spent_so_far
from strategies import Downlink, RoundTraffic, Uplink
from strategies.channel.framing import Travel, Wire
from strategies.channel.payload import APPLIED, BUFFERS, OUTCOME
from tests.support.books import bits_of, books_of
from tests.support.runs import clients, layers, rounds, small

SPLIT = ("header_bits", "position_bits", "value_bits", "side_bits")


def spans(header: int, positions: int, values: int, side: int) -> dict:
    return {"header": header, "positions": positions, "values": values, "side": side}


def traffic() -> RoundTraffic:
    """Clients 0 and 2 replied, 1 did not; 0 got the initial model, 1 and 2 were charged.

    Buffers beside: 5 bytes to each, 4 from client 2. What 1 sent cannot be decoded; 3 is late.
    Of what 0 is sent, 128 bits are the initial model and its buffers.
    """
    model, update = spans(24, 0, 64, 0), spans(26, 3, 0, 35)
    return RoundTraffic(
        round=4,
        downlinks={
            0: Downlink(b"m" * 11, "model", model, False, {BUFFERS: b"b" * 5}),
            1: Downlink(b"m" * 11, "model", model, side_payloads={BUFFERS: b"b" * 5}),
            2: Downlink(
                b"u" * 8, "update", update, side_payloads={BUFFERS: b"b" * 5, APPLIED: b"nn"}
            ),
        },
        uplinks={
            2: Uplink(
                b"x" * 10,
                spans(30, 5, 13, 32),
                {},
                {"num-examples": 7, "sent": 3.0},
                side_payloads={BUFFERS: b"s" * 4, OUTCOME: b"f"},
                returned=True,
            ),
            0: Uplink(
                b"y" * 9,
                spans(28, 4, 8, 32),
                {},
                {"num-examples": 5, "sent": 2.0, "train-loss": 0.5},
            ),
        },
        failures={1: "no\n reply"},
        failed_bits={1: 48, 3: 80},
        wire=Wire(
            requests={0: Travel(100, 3), 1: Travel(101, 3), 2: Travel(102, 3)},
            used={0: Travel(20, 70), 2: Travel(21, 71)},
            unused={1: Travel(22, 72), 3: Travel(23, 73)},
        ),
    )


def test_a_round_by_hand() -> None:
    assert row_of(bits_of(traffic())) == {
        "up_wire_bits": 184,
        "up_content_bits": 94,
        "up_header_bits": 58,
        "up_position_bits": 9,
        "up_value_bits": 21,
        "up_side_bits": 64,
        "up_buffer_bits": 32,
        "down_wire_bits": 232,
        "down_content_bits": 102,
        "down_header_bits": 50,
        "down_buffer_bits": 80,
        "down_position_bits": 3,
        "down_value_bits": 64,
        "down_side_bits": 35,
        "up_sent": 5,
        "down_news_bits": 16,
        "up_fate_bits": 8,
        "up_message_bits": 8 * (70 + 3 + 71 + 3),
        "down_message_bits": 8 * (100 + 20 + 101 + 102 + 21) - 128,
        "total_bits": 8 * (303 + 9 + 41 + 141 + 45 + 145),
    }


def test_clients_by_hand() -> None:
    first, failed, second, late = map(row_of, books_of(traffic()).values())
    assert first == {
        "round": 4,
        "client": 0,
        "samples": 5,
        "up_wire_bits": 72,
        "up_content_bits": 44,
        "up_buffer_bits": 0,
        "down_wire_bits": 0,
        "up_sent": 2,
        "train_loss": 0.5,
        "up_message_bits": 584,
        "down_message_bits": 832,
        "failures": 0,
        "failure_reasons": "",
        "failed_up_bits": 0,
        "down_news_bits": 0,
        "down_buffer_bits": 0,
        "up_fate_bits": 0,
        "returned": 0,
        "lost": 0,
        "digest_down": digest_of(b"m" * 11 + b"b" * 5),
        "digest_up": digest_of(b"y" * 9),
    }
    assert failed["train_loss"] != failed.pop("train_loss")  # NaN
    assert failed == {
        "round": 4,
        "client": 1,
        "samples": 0,
        "up_wire_bits": 0,
        "up_content_bits": 0,
        "up_buffer_bits": 0,
        "down_wire_bits": 128,
        "up_sent": 0,
        "up_message_bits": 0,
        "down_message_bits": 808,
        "failures": 1,
        "failure_reasons": "no reply",
        "failed_up_bits": 48,
        "down_news_bits": 0,
        "down_buffer_bits": 40,
        "up_fate_bits": 0,
        "returned": 0,
        "lost": 0,
        "digest_down": digest_of(b"m" * 11 + b"b" * 5),
        "digest_up": "",
    }
    assert late["digest_down"] == late["digest_up"] == ""
    assert second["digest_up"] == digest_of(b"x" * 10 + b"s" * 4)
    assert (late["client"], late["failures"], late["failed_up_bits"]) == (3, 0, 80)
    assert late["down_wire_bits"] == late["samples"] == 0
    assert (second["client"], second["up_wire_bits"], second["down_wire_bits"]) == (2, 112, 104)
    assert second["up_buffer_bits"] == 32
    assert (second["down_news_bits"], second["returned"], second["lost"]) == (16, 1, 0)
    assert second["train_loss"] != second["train_loss"]  # it did not say


def test_failures_by_hand() -> None:
    assert row_of(ledger.count_failures(traffic())) == {
        "failures": 1,
        "failure_reasons": "no reply x 1",
        "failed_up_bits": 128,
        "absent": 0,
        "returned": 1,
        "lost": 0,
    }
    assert row_of(ledger.count_failures(RoundTraffic(1))) == {
        "failures": 0,
        "failure_reasons": "",
        "failed_up_bits": 0,
        "absent": 0,
        "returned": 0,
        "lost": 0,
    }


def test_nothing_reaches_a_client_without_a_node() -> None:
    """Two uplinks, one failure that was sent a model, one that was not: three receivers."""
    absent = traffic()
    absent.failures[5] = "no node is connected"
    assert (ledger.count_failures(absent).failures, ledger.count_failures(absent).absent) == (2, 1)
    last = books_of(absent)[5]
    assert (last.client, last.failures, last.down_wire_bits) == (5, 1, 0)
    rounds = pd.DataFrame([{"clients": 2, "failures": 2, "absent": 1, "down_wire_bits": 30}])
    assert totals.per_participation(rounds) == {"down_wire_bits": 10.0}


def test_runs_without_late_updates_have_receivers_next_to_one_with_some() -> None:
    """The column `late` is NaN in the rounds of a run without ``--late count``."""
    each = {"clients": [2, 2, 3], "failures": [0, 1, 0], "late": [math.nan, math.nan, 1]}
    bits = {"up_wire_bits": [20, 20, 30], "down_wire_bits": [0, 60, 60], "run": [0, 0, 1]}
    rounds = pd.DataFrame(each | bits)
    assert spent_so_far(rounds, "wire", "total").tolist() == [10.0, 40.0, 40.0]


def test_what_was_sent_before_the_model_is_charged() -> None:
    wished = traffic()
    first = Downlink(b"u" * 8, "update", spans(24, 0, 40, 0), side_payloads={APPLIED: b"n"})
    wished.unused.append((2, first))
    bits = bits_of(wished)
    assert (bits.down_wire_bits, bits.down_news_bits) == (232 + 64, 24)
    own = books_of(wished)[2]
    assert (own.down_wire_bits, own.down_news_bits) == (104 + 64, 24)


def test_layers_by_hand() -> None:
    update = {"w": torch.zeros(3, 4), "b": torch.zeros(3)}
    ups = [{"w": 5, "b": 3}, {"w": 2, "b": 1}, {}]  # the third does not say
    uplinks = {k: Uplink(b"", {}, update, {}, sent) for k, sent in enumerate(ups)}
    told = RoundTraffic(7, uplinks=uplinks)
    assert [*map(row_of, ledger.layer_records(told, update))] == [
        {"round": 7, "tensor": "w", "entries": 12, "sent": 3.5},
        {"round": 7, "tensor": "b", "entries": 3, "sent": 2.0},
    ]
    assert ledger.layer_records(traffic(), update) == []


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "raw"},
        {"method": "gradient_dropping(0.05)", "cohort": 3},
        {"downlink": "sbc(0.1)", "cohort": 2, "strategy": "fedadam"},
        {"method": "topk(0.01) | float32 | golomb", "clients": 3},
    ],
)
def test_the_books_of_a_run_balance(settings: dict, tmp_path: Path) -> None:
    config = small(**settings)
    summary = run(config, tmp_path).summary
    frame, by_client = rounds(tmp_path), clients(tmp_path)
    for way in ("up", "down"):
        parts = frame[[f"{way}_{name}" for name in SPLIT]].sum(axis=1)
        assert (parts == frame[f"{way}_wire_bits"]).all()
        content = frame[f"{way}_wire_bits"] - frame[f"{way}_header_bits"]
        assert (content == frame[f"{way}_content_bits"]).all()
    sums = by_client.groupby("round")[["up_wire_bits", "up_content_bits", "down_wire_bits"]].sum()
    for column in sums.columns:
        assert sums[column].tolist() == frame[column].tolist()
    assert by_client.groupby("round").size().tolist() == [config.plan.cohort] * 4
    assert frame["down_wire_bits"].iloc[0] == 0  # the initial model
    assert (frame["down_wire_bits"].iloc[1:] > 0).all()
    for name in ("up_wire_bits", "up_content_bits", "down_wire_bits", "up_sent"):
        assert summary[name] == pytest.approx((frame[name] / config.plan.cohort).sum(), rel=1e-12)
    by_layer = layers(tmp_path)
    assert by_layer.groupby("round")["entries"].sum().unique() == [summary["parameters"]]
    scored = frame[frame["metric"].notna()].set_index("round")
    sent = by_layer.groupby("round")["sent"].sum() * config.plan.cohort
    assert sent.round(6).to_dict() == scored["up_sent"].to_dict()
    assert summary["trained_parameters"] == summary["parameters"]
    for name in ("up_wire_bits", "up_content_bits", "down_wire_bits"):
        whole = frame[name].sum() / config.plan.clients
        assert summary[f"{name}_per_client"] == pytest.approx(whole, rel=1e-12)
        assert whole <= summary[name] * (1 + 1e-12)
    assert (summary["failures"], summary["failed_up_bits"]) == (0, 0)
    dense = 32 * summary["trained_parameters"] * summary["iterations"]
    assert summary["ratio_wire"] == pytest.approx(dense / summary["up_wire_bits"])
    assert summary["ratio_content"] == pytest.approx(dense / summary["up_content_bits"])


def test_raw_costs_what_it_costs(tmp_path: Path) -> None:
    """21,386 parameters of 32 bits and 24 of header; four rounds, a model each way."""
    summary = run(small(method="raw"), tmp_path).summary
    assert summary["parameters"] == 21_386
    assert summary["up_content_bits"] == 4 * 32 * 21_386
    assert summary["up_wire_bits"] == 4 * (32 * 21_386 + 24)
    assert summary["down_wire_bits"] == 3 * (32 * 21_386 + 24)
    assert summary["ratio_content"] == 5.0
    assert summary["up_sent"] == 4 * 21_386


def test_the_seconds_of_a_round_are_summed_over_clients() -> None:
    """Clients say 3 + 4, 0.5 + 0.25 and 2 seconds, one says nothing; the server took 8 and 16."""
    made = RoundTraffic(
        round=1,
        downlinks={},
        uplinks={
            client: Uplink(b"", spans(0, 0, 0, 0), {}, said)
            for client, said in enumerate(
                (
                    {"train-seconds": 3.0, "encode-seconds": 0.5, "decode-seconds": 2.0},
                    {"train-seconds": 4.0, "encode-seconds": 0.25},
                    {},
                )
            )
        },
        decode_seconds=8.0,
        downlink_seconds=16.0,
    )
    assert row_of(ledger.round_seconds(made)) == {
        "train_seconds": 7.0,
        "encode_seconds": 0.75,
        "decode_seconds": 8.0,
        "downlink_seconds": 18.0,
        "receive_seconds": 2.0,
    }


def test_bits_of_a_round_without_an_update_are_those_of_one_client() -> None:
    """Uploads are none there; what a sampler asked clients for is not counted free."""
    assert (ledger.of_each(80, 2), ledger.of_each(0, 0), ledger.of_each(80, 0)) == (40.0, 0.0, 80.0)
    columns = ["clients", "failures", "up_wire_bits", "down_wire_bits"]
    rounds = pd.DataFrame([[2, 0, 80, 60], [0, 3, 64, 60]], columns=columns)
    sums = totals.per_participation(rounds)
    assert (sums["up_wire_bits"], sums["down_wire_bits"]) == (40.0 + 64.0, 30.0 + 20.0)
