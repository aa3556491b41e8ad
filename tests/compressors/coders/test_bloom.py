"""Bloom filter positions: their size, Lemma 5, and what the policies choose."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, Bloom, PayloadError, compress, parse
from compressors.base import tensor_seed
from compressors.coders.bloom import POLICIES, expected_answers, filter_size
from compressors.kernels.noise import words
from tests.support.generators import decoded, from_bits, uniform, whole_numbers

every_policy = pytest.mark.parametrize("policy", POLICIES)


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
    Bloom(eps).write_positions(uniform(n, r, 1), n, out, 7)
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
        rebuilt = Bloom(eps).write_positions(uniform(n, r, seed), n, BitWriter(), seed)
        sizes.append(rebuilt.size)
    mean = eps * (n - r)
    four = 4 * math.sqrt(mean / 5 * (1 + 0.01))
    assert expected_answers(r, n, eps) / r == pytest.approx(1.099)
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
    indices, n = uniform(400, 40, 3), 400
    m, h = filter_size(40, eps)
    for seed in range(4):
        found = plain_positives(indices, n, eps, seed)
        assert len(found) > 40
        got = Bloom(eps, "p2").write_positions(indices, n, BitWriter(), seed)
        assert got.tolist() == plain_p2(found, 40, m, h, seed)


def test_policies_choose_r_of_the_positives() -> None:
    indices, n, seed = uniform(3000, 100, 1), 3000, 9
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
