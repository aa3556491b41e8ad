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
from compressors.kernels import bloom as kernel
from compressors.kernels.noise import key, words_torch
from tests.support.generators import DEVICES, decoded, from_bits, to_bits, uniform, whole_numbers

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


def positives_torch(
    words: np.ndarray, n: int, seeds: tuple[int, int], m: int, h: int, device: torch.device
) -> torch.Tensor:
    """``positives`` of ``Hashes.of(*seeds, m, h)`` on any device, by torch; m is below 2**31."""
    filled = torch.from_numpy(np.unpackbits(words.astype(">u8").view(np.uint8))).to(device)
    index = torch.arange(n, device=device)
    a, b = words_torch(seeds[0], index), words_torch(seeds[1], index) | 1
    for _ in range(h):
        inside = filled[(a * m) >> 32].bool()
        index, a, b = index[inside], a[inside], b[inside]
        a = (a + b) & 0xFFFFFFFF
    return index


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 20_000])
def test_torch_makes_the_same_positives(device: str, n: int) -> None:
    indices = uniform(n, max(1, n // 50), n)
    m, h = filter_size(indices.size, 0.02)
    filled = np.zeros(-(-m // 64), np.uint64)
    kernel.build_filter(indices, kernel.Hashes.of(11, 12, m, h), filled)
    found = kernel.positives(filled, n, kernel.Hashes.of(11, 12, m, h), 1)
    twin = positives_torch(filled, n, (11, 12), m, h, torch.device(device))
    assert twin.device.type == device
    assert np.array_equal(twin.cpu().numpy(), found)


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


@every_policy
@given(st.binary(min_size=13, max_size=13), st.integers(1, 60))
def test_made_up_filters(policy: str, body: bytes, k: int) -> None:
    try:
        found = Bloom(0.3, policy).read_positions(BitReader(body), 500, k, 3)
    except PayloadError:
        return
    assert found.size == k or policy == "p0"
    assert bool((np.diff(found) > 0).all())


def test_a_flipped_bit_of_a_message_is_seen_or_harmless() -> None:
    method, x = "topk(0.1) | float32 | bloom(0.05, p2)", {"w": whole_numbers(300, 2)}
    payload = compress(parse(method), x)[0].payload
    for bit in range(56, 300):
        flipped = to_bits(payload)
        flipped = flipped[:bit] + "10"[int(flipped[bit])] + flipped[bit + 1 :]
        try:
            got = decoded(method, from_bits(flipped), x)["w"]
        except PayloadError:
            continue
        assert bool(torch.isfinite(got).all())


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
