"""SketchML: quantile buckets in grouped MinMaxSketches, keys by group."""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import SentTensor, scatter, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.coders.fixed import check_sorted
from compressors.coders.gaps import read_keys, write_keys
from compressors.errors import PayloadError, UpdateError
from compressors.kernels.noise import words
from compressors.parts import Place
from compressors.quantize.sketch import Sketch
from compressors.settings import check_share, check_whole, plain
from compressors.sparsify.topk import TopK

_ROW = 16  # rows use the purposes 16, 17, ... of a tensor's seed


def columns_of(count: int, share: float) -> int:
    """Cells in a row of the sketch of ``count`` keys."""
    return math.ceil(count * share)


def _cells(keys: np.ndarray, row: int, columns: int, seed: int) -> np.ndarray:
    """The cell of each key in a row: the high part of counter noise times the row's length."""
    drawn = words(tensor_seed(seed, _ROW + row), keys).astype(np.uint64)
    return ((drawn * np.uint64(columns)) >> np.uint64(32)).astype(np.int64)


def make_table(
    keys: np.ndarray, numbers: np.ndarray, size: int, rows: int, columns: int, seed: int
) -> np.ndarray:
    """The table (rows, columns) of ``numbers`` from 0 to size - 1 of ``keys``.

    A cell holds the smallest number of the keys that fall on it; size - 1 if none does
    (SketchML, section 3.3, the insert phase).
    """
    table = np.full((rows, columns), size - 1, np.int64)
    for row in range(rows):
        np.minimum.at(table[row], _cells(keys, row, columns, seed), numbers)
    return table


def ask(table: np.ndarray, keys: np.ndarray, seed: int) -> np.ndarray:
    """The largest of each key's cells: its number, or a smaller one where every cell was shared."""
    rows, columns = table.shape
    values = [table[row][_cells(keys, row, columns, seed)] for row in range(rows)]
    return np.max(values, axis=0)


def write_table(table: np.ndarray, size: int, out: BitWriter) -> None:
    """Every cell in ceil(log2 size) bits, row by row."""
    out.uints(table.reshape(-1).astype(np.uint64), (size - 1).bit_length())


def read_table(bits: BitReader, rows: int, columns: int, size: int) -> np.ndarray:
    """The table that ``write_table`` wrote; a number beyond ``size`` - 1 is taken for that."""
    cells = bits.uints(rows * columns, (size - 1).bit_length(), np.int64)
    return np.minimum(cells, size - 1).reshape(rows, columns)


_SELECT = 1
_FLAG = 2  # bits that say how many bytes a key takes: 1 to 4
_LONGEST = 1 << 32


class _Group(NamedTuple):
    """Buckets ``low`` to ``high`` - 1 of one sign; ``near`` is the one nearest to zero."""

    low: int
    high: int
    near: int


@dataclass(frozen=True)
class SketchML:
    """SketchML (Jiang, Fu, Yang & Cui 2018, section 3) of the largest fraction of a tensor.

        T_rc = min of b_i over the keys i of the group with h_r(i) = c
        x_hat_i = mean of bucket b,  b = max_r T_rh,  h = h_r(i)

    b_i is the number of the bucket of key i, from the group's nearest to zero, and h_r(i) its cell
    in row r.

    Values become the numbers of quantile buckets (``Sketch``, whose means are those of values, the
    paper's are the middles of buckets), positive and negative apart. The buckets of a sign are
    parted into groups of neighbours, each with its keys (positions) and a MinMaxSketch of its own:
    a table of hash rows whose cells hold the smallest number, counted from the bucket of the group
    nearest to zero, of the keys that fall on them. A key's number is read as the largest of its
    cells: never more than its own, so collisions shrink values and never enlarge them or change
    their sign, within a group. Biased: use error feedback, ``ef(sketchml(0.01))``.

    Layout: the number of values (gamma of one more), the buckets' means (``Sketch``), and for
    each group the number of its keys (gamma of one more; the last is what is left), the steps
    between keys in 1 to 4 whole bytes with 2 bits each that say how many (delta-binary
    encoding), and the table, ceil(log2 of the group's buckets) bits per cell. Hash functions are
    the project's counter noise of the message's seed.

    Args:
        p: the fraction sent; entries of value zero are never sent, so 1 sends all others (the
            paper's inherently sparse gradients).
        buckets: 2 to 65536; groups: 2 to ``buckets``, for both signs together; rows: 1 to 16;
        columns: cells of a row a key of the group, above 0 and at most 1. The defaults are the
            paper's 256 buckets and its authors' program's 8 groups, 2 rows, 0.3.

    Raises ``ValueError`` for other settings; ``UpdateError`` for a tensor of more than 2**32
    entries.

    Example:
        >>> from compressors import compress, parse
        >>> x = torch.tensor([0.0, 3.0, -5.0, 0.0])
        >>> compress(parse("sketchml(0.5)"), {"w": x})[0].sent["w"].decoded
        tensor([ 0.,  3., -5.,  0.])
    """

    codec_id: ClassVar[str] = "sketchml"
    p: float
    buckets: int = 256
    groups: int = 8
    rows: int = 2
    columns: float = 0.3
    needs_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        plain(self)
        check_share("sketchml: p", self.p)
        check_whole("sketchml: buckets", self.buckets, 2, 1 << 16)
        check_whole("sketchml: groups", self.groups, 2, self.buckets)
        check_whole("sketchml: rows", self.rows, 1, 16)
        check_share("sketchml: columns", self.columns)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        flat = x.detach().reshape(-1)
        if flat.numel() > _LONGEST:
            raise UpdateError(f"sketchml: {flat.numel()} entries: keys have at most 4 bytes")
        chosen, _ = TopK(self.p).select(flat, tensor_seed(seed, _SELECT))
        k = chosen.numel()
        with out.span("header"):
            out.gamma(k + 1)
        values, place = flat[chosen], Place(None, torch.Size([k]))
        if k == 0:
            return SentTensor(values, chosen, x.shape)
        with out.span("side"):
            symbols = Sketch(self.buckets).quantize(values, place, out, 0)
        keys, codes = chosen.numpy(), symbols.codes.numpy().astype(np.int64)
        means = symbols.side.numpy()
        buckets = np.empty(k, np.int64)
        groups = self._groups(means)
        for group in groups:
            members = (codes >= group.low) & (codes < group.high)
            group_keys, size = keys[members], group.high - group.low
            with out.span("positions"):
                if group is not groups[-1]:
                    out.gamma(group_keys.size + 1)
                write_keys(group_keys, 4, out, lambda counts: out.uints(counts, _FLAG))
            columns = columns_of(group_keys.size, self.columns)
            away = np.abs(codes[members] - group.near)
            cells = make_table(group_keys, away, size, self.rows, columns, seed)
            with out.span("values"):
                write_table(cells, size, out)
            buckets[members] = _buckets(cells, group_keys, group, seed)
        return SentTensor(torch.from_numpy(means[buckets]), chosen, x.shape)

    def _groups(self, means: np.ndarray) -> list[_Group]:
        """The groups of buckets with these means: each sign has its share, at least one."""
        count, below = means.size, int(np.count_nonzero(means < 0))
        share = round(self.groups * below / count)
        share = min(max(share, int(below > 0)), self.groups - int(below < count))
        groups = []
        for first, last, parts in ((0, below, share), (below, count, self.groups - share)):
            edges = np.unique(first + np.arange(parts + 1) * (last - first) // max(1, parts))
            for low, high in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                groups.append(_Group(low, high, high - 1 if low < below else low))
        return groups

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        with bits.span("header"):
            k = bits.gamma() - 1
        if k > n:
            raise PayloadError(f"{k} values announced for a tensor of {n}")
        if k == 0:
            bits.places = torch.empty(0, dtype=torch.int64, device="cpu")
            return torch.zeros_like(template)
        with bits.span("side"):
            _, side = Sketch(self.buckets).read_side(bits, Place(None, torch.Size([k])))
        means, keys, values_of_groups, left = side.numpy(), [], [], k
        groups = self._groups(means)
        for group in groups:
            with bits.span("positions"):
                count = left if group is groups[-1] else bits.gamma() - 1
                if count > left:
                    raise PayloadError(f"{count} keys announced for a group where {left} are left")
                keys.append(read_keys(bits, bits.uints(count, _FLAG, np.uint8), n))
            columns = columns_of(count, self.columns)
            with bits.span("values"):
                cells = read_table(bits, self.rows, columns, group.high - group.low)
            values_of_groups.append(means[_buckets(cells, keys[-1], group, seed)])
            left -= count
        all_keys = np.concatenate(keys)
        order = np.argsort(all_keys, kind="stable")
        indices = torch.from_numpy(check_sorted(all_keys[order], n))
        values = torch.from_numpy(np.concatenate(values_of_groups)[order])
        bits.places = indices
        return scatter(values, indices, template.shape)

    def bound_on(self, d: int) -> Bound:
        """None."""
        return neither("a collision may take most of the largest entry")


def _buckets(cells: np.ndarray, keys: np.ndarray, group: _Group, seed: int) -> np.ndarray:
    """The buckets that a table gives for its keys."""
    if not keys.size:
        return np.empty(0, np.int64)
    away = ask(cells, keys, seed)
    return group.near - away if group.near == group.high - 1 else group.near + away
