"""Orders as bytes: n in 7 bits a byte, p as a power of ten and three digits, the iterations so far.

p is a number of 16 bits: 1000 times the places behind the point, plus three digits. 0.0123 is
123 / 10^4: 4123 = 0x101b.
"""

from typing import Any

import pytest

from fedsim import RunConfig
from fedsim.federation.orders import Work, from_payload, round_p, to_payload, uplink_at
from fedsim.settings.methods import resolve


@pytest.mark.parametrize(
    ("n", "data"),
    [
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (129, "8101"),
        (300, "ac02"),
        (16_383, "ff7f"),
        (16_384, "808001"),
        (2_097_151, "ffff7f"),
    ],
)
def test_n(n: int, data: str) -> None:
    config = RunConfig(method="raw")
    assert to_payload(config, Work(n, 1.0, 0)).hex() == data
    assert from_payload(config, bytes.fromhex(data)) == Work(n, 1.0, 0)


@pytest.mark.parametrize(
    ("p", "data"),
    [
        (1.0, "0834"),
        (0.999, "0f9f"),
        (0.5, "0dac"),
        (0.25, "0cb2"),
        (0.1, "0c1c"),
        (0.0999, "1387"),
        (0.0123, "101b"),
        (0.01, "1004"),
        (0.00101, "13ed"),
        (0.001, "13ec"),
        (1e-06, "1fa4"),
    ],
)
def test_p(p: float, data: str) -> None:
    """1.0 is 100 / 10^2: 2100; 0.999 is 3999; 0.0999 is 4999; 0.001 is 5100; 1e-6 is 8100."""
    config = RunConfig(method="sbc")
    assert round_p(p) == p
    assert to_payload(config, Work(5, p, 0)).hex() == "05" + data
    assert from_payload(config, bytes.fromhex("05" + data)) == Work(5, p, 0)


def test_all_three_digits_come_back() -> None:
    config = RunConfig(method="sbc")
    for places in (3, 4, 6):
        for digits in range(100, 1000):
            p = float(f"{digits}e-{places}")
            assert round_p(p) == p
            assert from_payload(config, to_payload(config, Work(1, p, 0))).p == p


@pytest.mark.parametrize(
    ("p", "travels"),
    [
        (1 / 3, 0.333),
        (2 / 3, 0.667),
        (0.012345, 0.0123),
        (0.012355, 0.0124),
        (0.99951, 1.0),
        (0.09996, 0.1),
        (1.0, 1.0),
    ],
)
def test_p_has_three_digits(p: float, travels: float) -> None:
    assert round_p(p) == travels


@pytest.mark.parametrize(
    ("start", "data"), [(0, "00"), (127, "7f"), (128, "8001"), (16_383, "ff7f"), (60_000, "e0d403")]
)
def test_the_iterations_so_far_where_the_rate_has_steps(
    start: int, data: str, make_task: Any
) -> None:
    """Behind n, and behind p where the method takes a fraction."""
    task = make_task(lr_steps=((6, 0.1),)).name
    raw, sparse = RunConfig(task=task, method="raw"), RunConfig(task=task, method="sbc")
    assert to_payload(raw, Work(128, 1.0, start)).hex() == "8001" + data
    assert to_payload(sparse, Work(128, 0.25, start)).hex() == "80010cb2" + data
    assert from_payload(raw, bytes.fromhex("8001" + data)) == Work(128, 1.0, start)
    assert from_payload(sparse, bytes.fromhex("80010cb2" + data)) == Work(128, 0.25, start)


@pytest.mark.parametrize(
    ("method", "data", "said"),
    [
        ("raw", "80", "number is cut"),
        ("raw", "0101", "2 bytes: its numbers have 1"),
        ("sbc", "010cb205", "4 bytes: its numbers have 3"),
    ],
)
def test_what_is_no_order(method: str, data: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_payload(RunConfig(method=method), bytes.fromhex(data))


def test_how_a_client_encodes_at_a_fraction() -> None:
    config = RunConfig(method="sbc", gradient=0.05)
    assert uplink_at(config, 0.05) == resolve("sbc", 0.05).compressor
    assert uplink_at(config, 0.1) == resolve("sbc", 0.1).compressor != uplink_at(config, 0.05)
