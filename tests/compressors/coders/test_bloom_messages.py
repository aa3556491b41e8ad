"""Bloom filters in messages: there and back, in pipelines, and filters that nobody wrote."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, Bloom, PayloadError, compress, parse, text
from compressors.base import tensor_seed
from compressors.coders.bloom import POLICIES, filter_size
from compressors.kernels.noise import key
from tests.support.generators import decoded, from_bits, uniform, whole_numbers

every_policy = pytest.mark.parametrize("policy", POLICIES)


@every_policy
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_round_trip_between_other_bits(policy: str, seed: int, r: int) -> None:
    n, indices = 400, uniform(400, r, r)
    out = BitWriter()
    out.uint(5, 3)
    rebuilt = Bloom(0.05, policy).write_positions(indices, n, out, seed)
    out.uint(9, 4)
    bits = BitReader(out.to_bytes())
    assert bits.uint(3) == 5
    assert np.array_equal(Bloom(0.05, policy).read_positions(bits, n, r, seed), rebuilt)
    assert bits.uint(4) == 9
    assert rebuilt.size == r or policy == "p0"
    assert bool((np.diff(rebuilt) > 0).all())
    assert 0 <= rebuilt[0] <= rebuilt[-1] < n


@every_policy
def test_nothing_costs_nothing(policy: str) -> None:
    out = BitWriter()
    assert Bloom(0.1, policy).write_positions(np.empty(0, np.int64), 50, out, 1).size == 0
    assert out.position == 0
    assert Bloom(0.1, policy).read_positions(BitReader(b""), 50, 0, 1).size == 0


def test_values_of_the_rebuilt_positions_travel() -> None:
    """P0 loses nothing: true values at all positives, more than were selected."""
    x = whole_numbers(2000, 3)
    packet, _ = compress(parse("topk(0.05) | float32 | bloom(0.05)"), {"w": x}, seed=4)
    sent = packet.sent["w"]
    assert sent.count > 100
    assert torch.equal(sent.values, x[sent.indices])
    plain, _ = compress(parse("topk(0.05) | float32"), {"w": x})
    assert set(plain.sent["w"].indices.tolist()) <= set(sent.indices.tolist())


def test_the_naive_scheme_shifts_values() -> None:
    """The values of what was selected, in order, at the first r positives (figure 13)."""
    x = whole_numbers(2000, 3)
    packet, _ = compress(parse("topk(0.05) | float32 | bloom(0.05, naive)"), {"w": x}, seed=4)
    plain, _ = compress(parse("topk(0.05) | float32"), {"w": x})
    sent, true = packet.sent["w"], plain.sent["w"]
    assert torch.equal(sent.values, true.values)
    wrong = sent.indices != true.indices
    first = int(wrong.nonzero()[0])
    assert first < 60
    assert bool(wrong[first:].all())
    assert torch.equal(
        decoded("topk(0.05) | float32 | bloom(0.05, naive)", packet.payload, {"w": x})["w"],
        sent.decoded,
    )


def test_feedback_keeps_what_the_receiver_lacks() -> None:
    x = {"w": whole_numbers(2000, 3)}
    for policy in POLICIES[1:]:  # naive is refused
        method = parse(f"ef(topk(0.05) | float32 | bloom(0.05, {policy}))")
        packet, state = compress(method, x)
        (kept,) = state.values()
        assert torch.equal(kept, x["w"] - packet.sent["w"].decoded)


def test_a_filter_that_nobody_wrote_is_refused() -> None:
    """All ones would make everything positive; all zeros nothing; both are known at once."""
    m, _ = filter_size(10, 0.01)
    for body, why in (("1" * m, "more bits are set"), ("0" * m, "0 positives where 10")):
        with pytest.raises(PayloadError, match=why):
            Bloom(0.01).read_positions(BitReader(from_bits(body)), 1000, 10, 1)
    with pytest.raises(PayloadError, match="ends early"):
        Bloom(0.01).read_positions(BitReader(b"\xff" * 5), 1000, 10, 1)
    with pytest.raises(PayloadError, match="ends early"):
        Bloom(0.01).read_positions(BitReader(b"\xff" * 5), 1 << 40, 1 << 39, 1)


@pytest.mark.parametrize("eps", [0, 1, -0.1, 1e-11, True, "small", math.nan])
def test_rates_that_cannot_be(eps: object) -> None:
    with pytest.raises(ValueError, match=r"bloom: eps is .*from 2\*\*-32 to below 1"):
        Bloom(eps)


def test_bad_combinations() -> None:
    with pytest.raises(ValueError, match="policy is 'p3': give one of naive, p0"):
        parse("topk(0.1) | float32 | bloom(0.1, p3)")
    with pytest.raises(ValueError, match="adds positions of any sign"):
        parse("one_sided(0.1) | mean | bloom(0.1)")
    with pytest.raises(ValueError, match="shifts values by single entries"):
        parse("blocks(4, 0.1) | float32 | bloom(0.1, naive)")
    with pytest.raises(ValueError, match="at most 2\\*\\*31 - 1"):
        Bloom(1e-9).write_positions(np.broadcast_to(np.int64(0), (10**8,)), 10**9, BitWriter(), 1)
    assert text(parse("topk(0.1) | float32 | bloom(0.1)")).endswith("bloom(0.1))")


def test_blocks_go_through_a_filter() -> None:
    """Positions of blocks: a false block brings all its entries."""
    method, x = "blocks(4, 0.1) | float32 | bloom(0.05)", {"w": whole_numbers(403, 2)}
    packet, _ = compress(parse(method), x, seed=1)
    assert torch.equal(decoded(method, packet.payload, x)["w"], packet.sent["w"].decoded)
    assert packet.sent["w"].count > 40


def test_words_do_not_repeat_between_purposes() -> None:
    """Hashes and choices come from streams of their own."""
    assert len({key(tensor_seed(1, purpose)) for purpose in range(1, 6)}) == 5
