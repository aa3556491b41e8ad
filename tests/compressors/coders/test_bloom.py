"""Bloom filter positions: their size, Lemma 5, the policies, and what hostile filters do."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, Bloom, PayloadError, compress, parse, text
from compressors.base import tensor_seed
from compressors.coders.bloom import POLICIES, expected_positives, filter_size
from compressors.kernels import bloom as kernel
from compressors.kernels.noise import key, words
from tests.support.generators import DEVICES, decoded, from_bits, to_bits, whole_numbers

every_policy = pytest.mark.parametrize("policy", POLICIES)


def some(n: int, r: int, seed: int) -> np.ndarray:
    """``r`` of ``n`` positions, sorted."""
    return np.sort(np.random.default_rng(seed).choice(n, r, replace=False)).astype(np.int64)


def places(index: int, m: int, h: int, seed: int) -> list[int]:
    """The filter bits of an index, by whole numbers: the format, written down again."""
    a, b = (int(words(tensor_seed(seed, purpose), np.array([index]))[0]) for purpose in (3, 4))
    return [(((a + j * (b | 1)) % 2**32) * m) >> 32 for j in range(h)]


def plain_positives(indices: np.ndarray, n: int, eps: float, seed: int) -> list[int]:
    m, h = filter_size(indices.size, eps)
    filled = {bit for index in indices for bit in places(int(index), m, h, seed)}
    return [i for i in range(n) if filled.issuperset(places(i, m, h, seed))]


def plain_p2(found: list[int], r: int, m: int, h: int, seed: int) -> list[int]:
    """Algorithm 1 with sets of Python, as methods.md settles it."""
    sets: dict[int, list[int]] = {}
    for x in found:
        for bit in sorted(set(places(x, m, h, seed))):
            sets.setdefault(bit, []).append(x)
    order = sorted(sets, key=lambda bit: (len(sets[bit]), bit))
    chosen: set[int] = set()
    drawn = 0
    while len(chosen) < r:
        for bit in order:
            left = [x for x in sets[bit] if x not in chosen]
            if left:
                word = int(words(tensor_seed(seed, 5), np.array([drawn]))[0])
                drawn += 1
                chosen.add(left[(word * len(left)) >> 32])
            if len(chosen) == r:
                break
    return sorted(chosen)


@pytest.mark.parametrize(("eps", "bits"), [(0.01, 9.585), (0.001, 14.378), (1e-4, 19.170)])
def test_bits_a_position(eps: float, bits: float) -> None:
    """-ln eps / (ln 2)^2, as methods.md gives them; what is written is that, rounded up once."""
    r, n = 20_000, 100_000
    out = BitWriter()
    Bloom(eps).write_positions(some(n, r, 1), n, out, 7)
    assert out.position == math.ceil(-r * math.log(eps) / math.log(2) ** 2)
    assert out.position / r == pytest.approx(bits, abs=0.0006)


@pytest.mark.parametrize(
    ("eps", "hashes"), [(0.99, 1), (0.6, 1), (0.5, 1), (0.1, 3), (0.01, 7), (0.001, 10), (1e-4, 13)]
)
def test_hashes_are_the_nearest_whole_number(eps: float, hashes: int) -> None:
    """k = -log2 eps (remark 2), at least one."""
    assert filter_size(1000, eps)[1] == hashes


def test_lemma_5() -> None:
    """E|P| = r + eps (n - r) at eps = 0.001, r = n / 100: 1.099 r (measured elsewhere: 1.0985).

    False positives are close to a Poisson number with mean eps (n - r) = 1980 a draw; how
    many bits are set varies too and moves the rate by h / sqrt(m) (0.03 %) more.
    Five draws, four standard errors.
    """
    n, r, eps = 2_000_000, 20_000, 0.001
    sizes = []
    for seed in range(5):
        rebuilt = Bloom(eps).write_positions(some(n, r, seed), n, BitWriter(), seed)
        sizes.append(rebuilt.size)
    mean = eps * (n - r)
    four = 4 * math.sqrt(mean / 5 * (1 + 0.01))
    assert expected_positives(r, n, eps) / r == pytest.approx(1.099)
    assert abs(np.mean(sizes) - r - mean) < four


@given(
    st.integers(1, 300).flatmap(
        lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), min_size=1))
    ),
    st.sampled_from([0.9, 0.3, 0.05, 0.001]),
    st.integers(0, 2**32 - 1),
)
def test_positives_are_those_of_a_plain_filter(
    case: tuple[int, set[int]], eps: float, seed: int
) -> None:
    n, chosen = case
    indices = np.array(sorted(chosen), np.int64)
    rebuilt = Bloom(eps).write_positions(indices, n, BitWriter(), seed)
    assert rebuilt.tolist() == plain_positives(indices, n, eps, seed)
    assert set(rebuilt.tolist()) >= chosen


@pytest.mark.parametrize("eps", [0.5, 0.1, 0.02])
def test_p2_is_algorithm_1(eps: float) -> None:
    indices, n = some(400, 40, 3), 400
    m, h = filter_size(40, eps)
    for seed in range(4):
        found = plain_positives(indices, n, eps, seed)
        assert len(found) > 40
        got = Bloom(eps, "p2").write_positions(indices, n, BitWriter(), seed)
        assert got.tolist() == plain_p2(found, 40, m, h, seed)


def test_policies_choose_r_of_the_positives() -> None:
    indices, n, seed = some(3000, 100, 1), 3000, 9
    made = {
        policy: Bloom(0.05, policy).write_positions(indices, n, BitWriter(), seed).tolist()
        for policy in POLICIES
    }
    found = made["p0"]
    over = len(found) - 100
    assert over > 50
    assert made["leftmost"] == made["naive"] == found[:100]
    assert made["rightmost"] == found[over:]
    assert made["middle"] == found[over // 2 : over // 2 + 100]
    drawn = words(tensor_seed(seed, 5), np.array(found))
    assert made["p1"] == sorted(np.array(found)[np.argsort(drawn)[:100]].tolist())
    true = {policy: len(set(got) & set(indices.tolist())) for policy, got in made.items()}
    assert true["p0"] == 100
    assert true["p2"] > true["p1"]  # which is what conflict sets are for


@every_policy
@given(st.integers(0, 2**32 - 1), st.integers(1, 400))
def test_round_trip_between_other_bits(policy: str, seed: int, r: int) -> None:
    n, indices = 400, some(400, r, r)
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
    assert torch.equal(decoded("topk(0.05) | float32 | bloom(0.05, naive)", packet.payload,
                               {"w": x})["w"], sent.decoded)  # fmt: skip


def test_feedback_keeps_what_the_receiver_lacks() -> None:
    x = {"w": whole_numbers(2000, 3)}
    for policy in POLICIES[1:]:  # naive is refused
        method = parse(f"ef(topk(0.05) | float32 | bloom(0.05, {policy}))")
        packet, state = compress(method, x)
        (kept,) = state.values()
        assert torch.equal(kept, x["w"] - packet.sent["w"].decoded)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("n", [1, 4095, 4096, 4097, 20_000])
def test_torch_makes_the_same_positives(device: str, n: int) -> None:
    indices = some(n, max(1, n // 50), n)
    m, h = filter_size(indices.size, 0.02)
    filled = np.zeros(-(-m // 64), np.uint64)
    kernel.build(indices, kernel.Hashes.of(11, 12, m, h), filled)
    found = kernel.positives(filled, n, kernel.Hashes.of(11, 12, m, h), 1)
    twin = kernel.positives_torch(filled, n, (11, 12), m, h, torch.device(device))
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
    with pytest.raises(ValueError, match="policy is 'p3': it is one of naive, p0"):
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
