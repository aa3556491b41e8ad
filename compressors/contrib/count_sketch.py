"""A count sketch: a few rows of sums of entries with random signs, linear in the update."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.arraycache import keeps_arrays
from compressors.base import SentTensor, nominal_count, scatter, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.errors import PayloadError
from compressors.kernels import select
from compressors.kernels.noise import words
from compressors.settings import check_share, check_whole, plain
from compressors.sparsify.topk import largest
from compressors.whole.growth import Fault

MOST_COLUMNS = 1 << 24
_HASH = 0x5CE7C4  # of all sketches, whoever makes them: else they could not be added


@dataclass(frozen=True)
class CountSketch:
    """``rows`` rows of ``columns`` sums, of which the receiver takes the largest estimates.

        T_rc = sum of s_r(i) x_i over the i with h_r(i) = c
        y_i = median_r s_r(i) T_rh,  h = h_r(i)
        x_hat_i = y_i for the k largest |y_i|, else 0,  k = max(1, round(p n))

    h_r(i) is the cell of entry i in row r and s_r(i) its sign.

    Every entry is added, with a random sign, to one random cell of each row. An entry's estimate is
    the median over the rows of its cell times its sign. Cells and signs follow from the entry's
    number alone, so that the sketch of a sum is the sum of sketches: the server of FetchSGD
    (Rothchild et al. 2020, https://arxiv.org/abs/2007.07682) adds up tables and looks for large
    entries in the sum (strategy ``fetchsgd``). Behind any other strategy each message is decoded by
    itself, and entries that are large in the sum alone are missed. An estimate is off by about
    ||x|| / sqrt(columns): with more entries taken than a tenth of the columns, noise is what comes,
    and training may diverge; ``ef`` and ``ef21`` refuse that. The sketch is that of Charikar,
    Chen & Farach-Colton 2002.

    A message is the table as float32, for a tensor of any size. Of equal estimates the lowest index
    is taken first, and zeros never.

    Args:
        p: the fraction of entries that are taken from a sketch, 0 < p <= 1.
        rows: 1 to 63; the paper has 5. The median of an even number is the mean of the middle two.
        columns: cells of a row, 1 to 2**24.

    Raises ``ValueError`` for any other setting.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([0.0, 8.0, 0.0, -0.5])}
        >>> packet, _ = compress(parse("count_sketch(0.25, 5, 8)"), update)
        >>> packet.sent["w"].decoded, packet.spans["values"]
        (tensor([0., 8., 0., 0.]), 1280)
    """

    codec_id: ClassVar[str] = "count_sketch"
    p: float
    rows: int = 5
    columns: int = 1000
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_share("count_sketch: p", self.p)
        check_whole("count_sketch: rows", self.rows, 1, 63)
        check_whole("count_sketch: columns", self.columns, 1, MOST_COLUMNS)

    def sketch(self, x: Tensor) -> Tensor:
        """The table (rows, columns) of ``x``, summed in float64 and rounded to float32, on the CPU.

        A sum beyond the largest float32 is that.
        """
        flat = x.detach().reshape(-1).numpy().astype(np.float64)
        table = np.zeros((self.rows, self.columns))
        for row, line in enumerate(table):
            cells, signs = _places(row, flat.size, self.columns)
            line += np.bincount(cells, flat * signs, self.columns)
        largest = float(np.finfo(np.float32).max)
        return torch.from_numpy(table.clip(-largest, largest).astype(np.float32))

    def estimates(self, table: Tensor, n: int) -> Tensor:
        """The estimates (n,) of all entries from a ``table`` (rows, columns)."""
        guesses = np.empty((self.rows, n), np.float32)
        for row, line in enumerate(table.numpy()):
            cells, signs = _places(row, n, self.columns)
            guesses[row] = line[cells] * signs
        guesses.sort(axis=0)
        low, high = guesses[(self.rows - 1) // 2], guesses[self.rows // 2]
        return torch.from_numpy(low if self.rows % 2 else low / 2 + high / 2)

    def unsketch(self, table: Tensor, n: int) -> tuple[Tensor, Tensor]:
        """The largest estimates of n entries: sorted positions (k,) and values (k,)."""
        estimates = self.estimates(table, n)
        chosen = largest(estimates, nominal_count(self.p, n), select.MAGNITUDE)
        return chosen, estimates[chosen]

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        table = self.sketch(x)
        out.float32s(table.numpy())
        chosen, values = self.unsketch(table, x.numel())
        return SentTensor(values, chosen, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        chosen, values = self.unsketch(self.read_table(bits), template.numel())
        bits.places = chosen
        return scatter(values, chosen, template.shape)

    def read_table(self, bits: BitReader) -> Tensor:
        """The table (rows, columns) of a tensor that is not empty."""
        cells = np.array(bits.float32s(self.rows * self.columns), np.float32)
        if not np.isfinite(cells).all():
            raise PayloadError("a sum of the sketch is NaN or infinity")
        return torch.from_numpy(cells.reshape(self.rows, self.columns))

    def faults_on(self, d: int) -> tuple[Fault, ...]:
        """Fewer than five rows, or more entries taken than a tenth of the columns.

        Entries that collide with one that is taken are taken, too, unless every entry could have a
        cell of its own.
        """
        k = nominal_count(self.p, d)
        if self.rows < 5:
            return (Fault(self, "has fewer than 5 rows", replace(self, rows=5)),)
        if not d > self.columns < 10 * k:
            return ()
        cure = replace(self, columns=min(10 * k, MOST_COLUMNS))
        if 10 * k > MOST_COLUMNS:  # more columns cure it, or fewer entries
            cure = replace(cure, p=MOST_COLUMNS // 10 / d)
        return (Fault(self, "takes more entries than a tenth of its columns", cure),)

    def bound_on(self, d: int) -> Bound:
        """None."""
        return neither("a collision in most rows may take all of an entry")


@keeps_arrays
def _places(row: int, n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """For each of n entries its cell of a row, and its sign."""
    noise = words(tensor_seed(_HASH, row), np.arange(n))
    cells = (noise >> np.uint32(1)).astype(np.int64) * columns >> 31
    signs = 1 - 2 * (noise & np.uint32(1)).astype(np.int8)
    return cells.astype(np.int32), signs
