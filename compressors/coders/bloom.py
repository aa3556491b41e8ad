"""Positions as a Bloom filter (DeepReduce): fewer bits than a list, and false positives."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.base import tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.kernels import bloom as kernel
from compressors.kernels.noise import key, words
from compressors.settings import check_number, check_one_of, plain

POLICIES = ("naive", "p0", "p1", "p2", "leftmost", "middle", "rightmost")
_HASH_A, _HASH_B, _PICK = 3, 4, 5  # purposes of a tensor's seed
_LEAST = 2.0**-32


def filter_size(r: int, eps: float) -> tuple[int, int]:
    """Bits m and hashes h of a filter for ``r`` indices at a rate ``eps`` of false positives.

    m = ceil(-r ln eps / (ln 2)**2) and h = -log2 eps as the nearest whole number, at least 1
    (DeepReduce, remark 2): h is whole, so the rate differs a little from ``eps``.

    Example:
        >>> filter_size(1000, 0.01), filter_size(1000, 0.001)
        ((9586, 7), (14378, 10))
    """
    return math.ceil(-r * math.log(eps) / math.log(2) ** 2), max(1, round(-math.log2(eps)))


def expected_answers(r: int, n: int, eps: float) -> float:
    """E|P| = r + eps (n - r), of which r are true (DeepReduce, lemma 5).

    Example:
        >>> round(expected_answers(1000, 100_000, 0.001) / 1000, 4)
        1.099
    """
    return r + eps * (n - r)


@dataclass(frozen=True)
class Bloom:
    """A Bloom filter of the positions (Kostopoulou et al., DeepReduce, 2021, section 4): LOSSY.

    Both sides ask the filter for all n entries; of the positives P, which hold all r positions
    and some false ones, a policy takes the set that is rebuilt, and true values travel for it:

    - ``p0``: all of P: nothing is lost, more values travel;
    - ``p1``: r of P by chance;
    - ``p2``: r of P by conflict sets (Algorithm 1): smaller sets first, which hold more
      true positions; the loop ends at r, and emptied sets are skipped;
    - ``leftmost``, ``middle``, ``rightmost``: the first, middle or last r of P (section 10.4);
    - ``naive``: the first r of P, and the values of the ORIGINAL positions in order: from the first
      false position on every value is at a wrong place. The paper shows it to warn of it.

    m bits travel, nothing else: m and the number of hashes follow from r and ``eps``
    (``filter_size``), and the hashes and choices from the message's seed by the project's
    counter noise. A filter with more bits set than r positions can set is refused, which also
    bounds the work on it. Golomb codes need fewer bits at the rates where few positions are
    lost (8.1 a position at p = 0.01; Bloom 14.4 at eps = 0.001): kept for fidelity.

    Args:
        eps: the rate of false positives aimed at, from 2**-32 to below 1.
        policy: one of the above.

    Raises ``ValueError`` for other settings.

    Example:
        >>> out = BitWriter()
        >>> rebuilt = Bloom(0.01).write_positions(np.array([3, 70, 900]), 1000, out, seed=1)
        >>> set([3, 70, 900]) <= set(rebuilt.tolist()), out.position
        (True, 29)
    """

    codec_id: ClassVar[str] = "bloom"
    eps: float
    policy: str = "p0"

    needs_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain(self)
        allowed = "a rate from 2**-32 to below 1"
        check_number("bloom: eps", self.eps, lambda eps: _LEAST <= eps < 1, allowed)
        check_one_of("bloom: policy", self.policy, POLICIES)

    @property
    def shifts(self) -> bool:
        """Whether values of the written positions travel in order: the naive scheme."""
        return self.policy == "naive"

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        """Writes the filter; returns what the policy makes of its positives."""
        r = indices.size
        if r == 0:
            return indices
        hashes = self._hashes(r, seed)
        filled = np.zeros(-(-hashes.m // 64), np.uint64)
        kernel.build_filter(indices, hashes, filled)
        full_words, last_bits = divmod(hashes.m, 64)
        out.uints(filled[:full_words], 64)
        if last_bits:
            out.uint(int(filled[full_words]) >> (64 - last_bits), last_bits)
        return self._rebuild(filled, n, r, hashes, seed)

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """What was rebuilt; ``PayloadError`` for a filter that ``k`` positions cannot have made."""
        if k == 0:
            return np.empty(0, np.int64)
        bits.need(filter_size(k, self.eps)[0])
        hashes = self._hashes(k, seed)
        full_words, last_bits = divmod(hashes.m, 64)
        filled = np.zeros(-(-hashes.m // 64), np.uint64)
        filled[:full_words] = bits.uints(full_words, 64)
        if last_bits:
            filled[full_words] = bits.uint(last_bits) << (64 - last_bits)
        if int(np.bitwise_count(filled).sum()) > k * hashes.h:
            raise PayloadError(f"Bloom filter: more bits are set than {k} positions set")
        return self._rebuild(filled, n, k, hashes, seed)

    def _hashes(self, r: int, seed: int) -> kernel.Hashes:
        m, h = filter_size(r, self.eps)
        if m >= 1 << 31:
            raise ValueError(f"bloom: {r} positions take a filter of {m} bits: at most 2**31 - 1")
        return kernel.Hashes.of(tensor_seed(seed, _HASH_A), tensor_seed(seed, _HASH_B), m, h)

    def _rebuild(
        self, filled: np.ndarray, n: int, r: int, hashes: kernel.Hashes, seed: int
    ) -> np.ndarray:
        """What both sides make of a filter: sorted int64 positions."""
        candidates = kernel.positives(filled, n, hashes, int(expected_answers(r, n, self.eps)))
        if candidates.size < r:
            raise PayloadError(f"Bloom filter: {candidates.size} positives where {r} were written")
        if self.policy == "p0" or candidates.size == r:
            return candidates.copy()
        if self.policy == "p1":
            by_chance = np.argpartition(words(tensor_seed(seed, _PICK), candidates), r - 1)[:r]
            return np.sort(candidates[by_chance])
        if self.policy == "p2":
            return kernel.resolve(candidates, r, hashes, *key(tensor_seed(seed, _PICK)))
        over = candidates.size - r
        first = {"middle": over // 2, "rightmost": over}.get(self.policy, 0)
        return candidates[first : first + r].copy()
