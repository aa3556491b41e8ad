"""Context-adaptive position coding: a grid whose rows and columns send unlike amounts."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compressors.arraycache import keeps_arrays
from compressors.bits import BitReader, BitWriter
from compressors.coders.fixed import check_rising
from compressors.coders.golomb import Golomb
from compressors.errors import PayloadError
from compressors.kernels import grid
from compressors.kernels.context import coder

_PLAIN = Golomb(kind="exact")
_WEIGHTS = ((16, 1), (4, 1), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8), (1, 16))
"""(Weight of a column at first, what an entry adds)."""
_WEIGHT_BITS = 3

_PRIORS = np.array([first / added for first, added in _WEIGHTS])
_WIDTHS = 12  # widths that are tried
_WIDEST = 1 << 18  # columns or rows of a grid
_LEAST = 8  # entries below which nothing can be learnt
_WORTH = 16  # bits that a grid must be expected to save, and a share of one for every entry:
_A_SHARE = 0.02  # the header, and what it takes to learn how many entries rows have


@keeps_arrays
def _divisors(n: int) -> np.ndarray:
    divisors = grid.divisors(n, _WIDTHS)
    return divisors[(divisors <= _WIDEST) & (n // divisors <= _WIDEST)]


def _widths(n: int, k: int) -> np.ndarray:
    """Rows that a grid of ``n`` entries may have, in an order that both sides know."""
    if k < _LEAST or 4 * k > n:
        return np.empty(0, np.int64)
    return _divisors(n)


@dataclass(frozen=True)
class _Grid:
    """``rows`` of ``width`` entries; ``turned`` where positions stand column by column."""

    rows: int
    width: int
    turned: bool
    weights: tuple[int, int]

    @classmethod
    def of(cls, n: int, width: int, weights: int) -> "_Grid":
        """Rows are the shorter side: there are fewer numbers of entries to tell."""
        rows = n // width
        return cls(min(rows, width), max(rows, width), rows > width, _WEIGHTS[weights])

    @property
    def room(self) -> int:
        """Bits that all rows take at most, without those of every entry."""
        return 64 * self.rows + 128


@dataclass(frozen=True)
class Context:
    """Positions as a grid, whose rows and columns are learnt while they are coded.

    Real updates are weight matrices: some rows (outputs) and some columns (inputs) send
    much more than others, and gaps between positions show little of that. The writer
    looks for the width of the matrix among the divisors of n (shapes do not travel, and
    a divisor costs 4 bits); the side with fewer cells becomes the rows. A range coder then
    codes for every row how many entries it sends, with learnt chances, and where they are,
    with weights of columns that grow with every entry. Where no grid is expected to be worth
    its cost positions travel as ``golomb(exact)``: a bit more than that is what they take.

    Layout: where k >= 8 and 4 k <= n and n has divisors, one bit, grid or not. Behind a 1
    follow the width's number in as few bits as the number of widths takes, 3 bits for how fast
    columns are learnt, and the range coder's bits; behind a 0, and without that bit in
    all other cases, ``golomb(exact)``.

    Source: this project. Adaptive contexts as in Witten, Neal and Cleary 1987 (Arithmetic
    coding for data compression), columns as a Polya urn.

    Example:
        >>> indices = np.array([2, 3, 5, 9])
        >>> out = BitWriter()
        >>> _ = Context().write_positions(indices, 12, out, 0)
        >>> Context().read_positions(BitReader(out.to_bytes()), 12, 4, 0)
        array([2, 3, 5, 9])
    """

    codec_id: ClassVar[str] = "context"
    needs_seed: ClassVar[bool] = False

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        check_rising(indices, n)
        k = indices.size
        widths = _widths(n, k)
        if not widths.size:
            return _PLAIN.write_positions(indices, n, out, seed)
        at, weights, saved = grid.best_grid(indices, n, widths, _PRIORS)
        if saved <= _WORTH + _A_SHARE * k:
            out.uint(0, 1)
            return _PLAIN.write_positions(indices, n, out, seed)
        bits = (widths.size - 1).bit_length()
        header = (((1 << bits) | int(at)) << _WEIGHT_BITS) | int(weights)
        out.uint(header, 1 + bits + _WEIGHT_BITS)
        g = _Grid.of(n, int(widths[at]), weights)
        scan = grid.turn(indices, g.width, g.rows) if g.turned else indices
        out.reserve(64 * k + g.room)
        out.position = coder.encode_grid(scan, g.rows, g.width, *g.weights, out.words, out.position)
        return indices

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """The ``k`` indices; ``PayloadError`` where the code does not fit the tensor or the end."""
        widths = _widths(n, k)
        if not widths.size or not bits.uint(1):
            return _PLAIN.read_positions(bits, n, k, seed)
        at = bits.uint((widths.size - 1).bit_length())
        if at >= widths.size:
            raise PayloadError(f"context positions: width number {at} of {widths.size}")
        g = _Grid.of(n, int(widths[at]), bits.uint(_WEIGHT_BITS))
        scan = np.empty(k, np.int64)
        refusal = f"context positions of {n} entries run past the payload's end"
        bits.decode(coder.decode_grid, g.rows, g.width, *g.weights, scan, refusals=[refusal])
        return grid.turn(scan, g.rows, g.width) if g.turned else scan
