"""Context-adaptive position coding: a grid whose rows and columns send unlike amounts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from compressors.bits import BitReader, BitWriter
from compressors.errors import PayloadError
from compressors.kernels import context, grid

_WEIGHTS = ((1, 0), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 16))
"""(Weight of a column at first, what an entry adds); the first: columns stay alike."""

_PRIORS = np.array([first / added for first, added in _WEIGHTS[1:]])
_WIDTHS = 12  # widths that are tried
_WIDEST = 1 << 18  # columns or rows of a grid
_SAMPLE = 512  # entries, beside an eighth of all, by which three widths are chosen
_LEAST = 8  # entries below which nothing can be learnt
_WORTH = 16  # bits that a grid must be expected to save, and a share of one for every entry:
_A_SHARE = 0.02  # the header, and what it takes to learn how many entries rows have
_MOST = 1 << 46  # entries of a tensor: shares of the coder have 32 bits
_ONE_ROW = 4096  # entries up to which a tensor that is not a grid is one row
_A_ROW = 8  # entries of a row where it is more than one


@lru_cache(maxsize=1024)
def _divisors(n: int) -> np.ndarray:
    found = grid.divisors(n, _WIDTHS)
    return found[(found <= _WIDEST) & (n // found <= _WIDEST)]


def _widths(n: int, k: int) -> np.ndarray:
    """Rows that a grid of ``n`` entries may have, in an order that both sides know."""
    if k < _LEAST or 4 * k > n:
        return np.empty(0, np.int64)
    return _divisors(n)


def _turn(indices: np.ndarray, rows: int, width: int) -> np.ndarray:
    """Sorted indices of the grid (rows, width), read column by column."""
    row = indices // width
    return np.sort((indices - row * width) * rows + row)


@dataclass(frozen=True)
class _Layout:
    """How positions are scanned: rows of ``width``, column by column first if ``turned``."""

    n: int
    width: int
    turned: bool = False
    weights: tuple[int, int] = _WEIGHTS[0]

    @classmethod
    def plain(cls, n: int, k: int) -> "_Layout":
        """All entries alike."""
        return cls(n, n if k <= _ONE_ROW else max(1, n * _A_ROW // k))

    @classmethod
    def grid(cls, n: int, width: int, weights: int) -> "_Layout":
        """Rows are the shorter side: there are fewer numbers of entries to tell."""
        rows = n // width
        return cls(n, max(rows, width), rows > width, _WEIGHTS[weights])

    def scan(self, indices: np.ndarray) -> np.ndarray:
        """The positions in the order in which they are coded."""
        return _turn(indices, self.width, self.n // self.width) if self.turned else indices

    def restore(self, scan: np.ndarray) -> np.ndarray:
        """What ``scan`` was given."""
        return _turn(scan, self.n // self.width, self.width) if self.turned else scan


@dataclass(frozen=True)
class Context:
    """Positions as a grid, whose rows and columns are learnt while they are coded.

    Real updates are weight matrices: some rows (outputs) and some columns (inputs) send
    much more than others, and gaps between positions show little of that. The writer
    looks for the width of the matrix among the divisors of n (shapes do not travel, and
    a divisor costs 4 bits); the side with fewer cells becomes the rows. A range coder then
    codes for every row how many entries it sends, with learnt chances, and where they are,
    with weights of columns that grow with what was sent before. Where no grid is worth its
    cost there is one row, and the code is within about 2 bits of log2 of (n choose k).

    Layout: where k >= 8 and 4 k <= n and n has divisors, one bit, grid or not, then the
    width's number in as few bits as the number of widths takes and 3 bits for how fast
    columns are learnt; then the range coder's bits.

    Source: this project. Adaptive binary contexts as in Witten, Neal and Cleary 1987
    (Arithmetic coding for data compression), columns as a Polya urn.

    Example:
        >>> indices = np.array([2, 3, 5, 9])
        >>> out = BitWriter()
        >>> _ = Context().write_positions(indices, 12, out, 0)
        >>> Context().read_positions(BitReader(out.to_bytes()), 12, 4, 0)
        array([2, 3, 5, 9])
    """

    needs_seed: ClassVar[bool] = False

    def write_positions(
        self, indices: np.ndarray, n: int, out: BitWriter, seed: int
    ) -> np.ndarray:
        """Writes every index exactly."""
        k = indices.size
        if k == 0:
            return indices
        if n > _MOST:
            raise ValueError(f"context: n is {n}: a tensor has at most 2**46 entries")
        layout = _choose(indices, n, out)
        scan, (first, gain) = layout.scan(indices), layout.weights
        out.reserve(_room(layout, k))
        out.position = context.encode(scan, n, layout.width, first, gain, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code does not fit the tensor or the end."""
        if k == 0:
            return np.empty(0, np.int64)
        if n > _MOST:
            raise PayloadError(f"context positions: a tensor of {n} entries is above 2**46")
        layout = _read_layout(bits, n, k)
        scan, (first, gain) = np.empty(k, np.int64), layout.weights
        position = context.decode(
            bits.words, bits.position, bits.end, n, layout.width, first, gain, scan
        )
        if position < 0:
            raise PayloadError(f"context positions of {n} entries run past the payload's end")
        bits.position = position
        return layout.restore(scan)


def _choose(indices: np.ndarray, n: int, out: BitWriter) -> _Layout:
    """The layout that is expected to be cheapest, written to ``out``."""
    k = indices.size
    widths = _widths(n, k)
    if not widths.size:
        return _Layout.plain(n, k)
    sample = _SAMPLE + k // 8
    at, prior, saved = grid.best(indices, n, widths, _PRIORS, sample)
    worth = saved > _WORTH + _A_SHARE * k
    out.uint(int(worth), 1)
    if not worth:
        return _Layout.plain(n, k)
    out.uint(int(at), (widths.size - 1).bit_length())
    out.uint(int(prior) + 1, 3)
    return _Layout.grid(n, int(widths[at]), int(prior) + 1)


def _read_layout(bits: BitReader, n: int, k: int) -> _Layout:
    widths = _widths(n, k)
    if not widths.size or not bits.uint(1):
        return _Layout.plain(n, k)
    at = bits.uint((widths.size - 1).bit_length())
    if at >= widths.size:
        raise PayloadError(f"context positions: width number {at} of {widths.size}")
    return _Layout.grid(n, int(widths[at]), bits.uint(3))


def _room(layout: _Layout, k: int) -> int:
    """Bits that ``k`` entries can take at most.

    A bit of a row's number takes at most 12, a column at most 32, a plain distance 64; of
    the bits of all rows at most k say yes and one a row says no.
    """
    rows = -(-layout.n // layout.width)
    return 80 * k + 32 * rows + 128
