"""The books of a run by hand: three rounds with absent, late and failed clients in one frame.

===== ==== ======== ====== ==== ========= ======= ========= ===================================
round used failures absent late up bits   failed  down bits who received something
===== ==== ======== ====== ==== ========= ======= ========= ===================================
1     3    2        1      0    300       0       400       3 used and the failed one that is there
2     4    1        0      1    200       48      80        4 + 1, less the late one of round 1
3     1    0        0      0    30        0       10        1
===== ==== ======== ====== ==== ========= ======= ========= ===================================
"""

from math import inf, isnan
from typing import Any

import pandas as pd
import pytest

from fedsim.federation import ledger
from fedsim.federation.failures import reasons
from fedsim.ground.columns import row_of
from fedsim.runs import totals
from strategies import Downlink, RoundTraffic, Uplink
from strategies.channel.orders import to_report
from strategies.channel.payload import ORDER, REPORT, USUAL
from tests.support.books import bits_of, books_of

ROUNDS = pd.DataFrame({
    "round": [1, 2, 3], "clients": [3, 4, 1], "failures": [2, 1, 0], "absent": [1, 0, 0],
    "late": [0, 1, 0], "up_wire_bits": [300, 200, 30], "up_content_bits": [240, 160, 24],
    "up_sent": [60, 40, 6], "down_wire_bits": [400, 80, 10], "down_news_bits": [8, 16, 0],
    "downlink_seconds": [1.0, 1.0, 1.0], "total_bits": [900, 500, 100],
    "failed_up_bits": [0, 48, 0], "returned": [0, 1, 0], "lost": [0, 0, 2],
})  # fmt: skip


def test_a_client_of_every_round_by_hand() -> None:
    """Up 300 / 3 + 200 / 4 + 30 / 1 = 180; down over 4, 4 and 1 receivers: 100 + 20 + 10 = 130."""
    assert totals.per_participation(ROUNDS) == {
        "up_wire_bits": 180,
        "up_content_bits": 80 + 40 + 24,
        "up_sent": 20 + 10 + 6,
        "down_wire_bits": 130,
        "down_news_bits": 2 + 4,
        "total_bits": 1500,
    }


def test_where_nobody_says_who_was_absent_or_late_all_were_there() -> None:
    """As older folders have it: 400 / 5 + 80 / 5 + 10 = 106; a round that lacks it counts as 0."""
    older = ROUNDS.drop(columns=["absent", "late", "total_bits"])
    found = totals.per_participation(older)
    assert found["down_wire_bits"] == 106 and "total_bits" not in found
    gaps = ROUNDS.assign(absent=[1, None, None], late=[None, 1, None])
    assert totals.per_participation(gaps)["down_wire_bits"] == 130


def test_a_number_that_a_round_lacks_is_not_known() -> None:
    gaps = ROUNDS.assign(up_content_bits=[240, None, 24], total_bits=[900, None, 100])
    found = totals.per_participation(gaps)
    assert isnan(found["up_content_bits"]) and isnan(found["total_bits"])
    assert found["up_wire_bits"] == 180


def test_the_whole_federation_over_its_clients() -> None:
    """Ten clients: 530 + 48 that were not used up, 424 content, 490 down."""
    assert totals.of_federation(ROUNDS, 10) == {
        "up_wire_bits_per_client": 57.8,
        "up_content_bits_per_client": 42.4,
        "down_wire_bits_per_client": 49.0,
    }


def test_failures_by_hand() -> None:
    """Two rounds' losses differ in numbers alone; who did not fail says nothing."""
    clients = pd.DataFrame(
        {
            "failures": [1, 1, 1, 0],
            "failure_reasons": ["no node", "loss nan (round 1)", "loss nan (round 2)", "not told"],
            "client": [0, 1, 1, 0],
            "round": [1, 1, 2, 2],
        }
    )
    assert totals.failed(ROUNDS, clients) == {
        "failures": 3,
        "failure_reasons": "loss nan (round …) x 2; no node x 1",
        "failed_up_bits": 48,
        "returned": 1,
        "lost": 2,
        "failed_clients": "client 0, client 1 (2 times)",
    }


def test_the_share_is_of_all_uploads_that_were_used() -> None:
    """106 entries of 8 uploads of 53: a quarter."""
    assert totals.share(ROUNDS, 53) == 0.25


def test_the_ratio_is_of_trained_entries_and_iterations() -> None:
    """32 bits times 45 entries times 2 iterations over 180 bits: 16."""
    assert (
        totals.compression_ratio(45, 2, 180.0) == 16 and totals.compression_ratio(45, 2, 0.0) == inf
    )


def spans(header: int, positions: int, values: int, side: int) -> Any:
    return {"header": header, "positions": positions, "values": values, "side": side}


def with_orders() -> RoundTraffic:
    """Client 0 is told 2 bytes and reports two numbers; client 1 is told 3 bytes and fails; client
    2 was dropped for being late, and its message before is lost."""
    zero = spans(24, 0, 40, 0)
    order = [{ORDER: b"o" * k} for k in (2, 3)]
    return RoundTraffic(
        5,
        downlinks={
            0: Downlink(b"d" * 8, "update", zero, side_payloads=order[0]),
            1: Downlink(b"d" * 8, "update", zero, side_payloads=order[1]),
        },
        uplinks={
            0: Uplink(
                b"u" * 9,
                spans(24, 8, 30, 10),
                {},
                {},
                lost=1,
                side_payloads={REPORT: to_report([1.0, 2.0])},
            )
        },
        failures={1: "no reply"},
        dropped=[2, 2],
        side_names=(*USUAL, ORDER, REPORT),
    )


def test_orders_and_reports_are_charged() -> None:
    """Up 72 + 64 bits of two numbers; down 2 * 64 + 16 + 24 of the orders."""
    bits = bits_of(with_orders())
    assert (bits.up_wire_bits, bits.up_report_bits) == (136, 64)
    assert (bits.down_wire_bits, bits.down_order_bits) == (168, 40)
    assert (bits.up_content_bits, bits.down_content_bits) == (48, 80)
    first, second = (
        [own.up_wire_bits, own.up_report_bits, own.down_wire_bits, own.down_order_bits]
        for own in books_of(with_orders()).values()
    )
    assert first == [136, 64, 80, 16] and second == [0, 0, 88, 24]


def test_what_is_lost_counts_every_update() -> None:
    """One that client 0 told of, two of client 2 that were dropped."""
    found = ledger.count_failures(with_orders())
    assert (found.lost, found.returned, found.failures, found.absent) == (3, 0, 1, 0)


def test_without_orders_there_are_no_such_columns() -> None:
    traffic = RoundTraffic(1, downlinks={0: Downlink(b"d", "model", spans(8, 0, 0, 0))})
    row = row_of(bits_of(traffic))
    assert "down_order_bits" not in row and row["down_wire_bits"] == 8


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], ""),
        (["a"], "a x 1"),
        (["b", "a"], "a x 1; b x 1"),
        (["b", "a", "b"], "b x 2; a x 1"),
        (["loss 1.5e3", "loss 2"], "loss … x 2"),
        (["loss 2", "loss 2"], "loss 2 x 2"),
        (["client2 left"], "client2 left x 1"),  # a name, not a number
        (list("abcdd"), "d x 2; a x 1; b x 1; other reasons x 1"),
        (["long " * 100], f"{'long ' * 23}long… x 1"),
    ],
)
def test_reasons_by_hand(given: list[str], told: str) -> None:
    assert reasons(given) == told
