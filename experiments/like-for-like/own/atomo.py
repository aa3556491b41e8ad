"""ATOMO on singular values: an unbiased choice of a matrix's atoms."""

from dataclasses import dataclass
from math import isqrt, prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors import CATALOGUE, Row
from compressors.base import ALL, SentTensor
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, unbiased
from compressors.contrib.sparsifiers import least_sent
from compressors.errors import PayloadError
from compressors.kernels.factors import product
from compressors.kernels.noise import words
from compressors.settings import check_flags, check_whole, plain

_LARGEST = float(torch.finfo(torch.float32).max)


@dataclass(frozen=True)
class Atomo:
    """Singular vectors of a matrix, each kept with a chance in proportion to its singular value.

    Spectral ATOMO (Wang et al. 2018, https://arxiv.org/abs/1806.04090, Algorithm 1): a tensor is
    a matrix of its first axis by all others, sum over i of s_i u_i v_i'. Atom i travels with the
    chance p_i = min(1, lambda s_i), where all chances sum to ``rank``, as s_i / p_i times u_i v_i':
    unbiased, and of all such choices the one of least variance. ``scaled=False`` leaves s_i as it
    is, for ``ef``. A tensor of one axis, or one where ``rank`` atoms have as many numbers
    as it has entries, travels as it is.

    Layout: the number of atoms (gamma), then u_i times its factor and v_i as float32. The singular
    values are those of this machine's linear algebra, and so are the bytes.

    Args:
        rank: how many atoms are expected, 1 to 4096.
        scaled: whether what is kept is divided by its chance.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.outer(torch.ones(6), torch.arange(8.0))}
        >>> packet, _ = compress(parse("atomo(1)"), x)
        >>> packet.spans["values"]  # one atom: 6 + 8 numbers
        448
    """

    rank: int
    scaled: bool = True
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_whole("atomo: rank", self.rank, 1, 4096)
        check_flags("atomo", scaled=self.scaled)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        x = x.detach()
        if not self._pays(x.shape):
            with out.span("values"):
                out.float32s(x.cpu().numpy())
            return SentTensor(x, ALL, x.shape)
        p, q = self._atoms(x.reshape(x.shape[0], -1).cpu(), seed)
        with out.span("header"):
            out.gamma(len(p) + 1)
        with out.span("values"):
            out.float32s(p.numpy())
            out.float32s(q.numpy())
        return SentTensor(_added(p, q, x), ALL, x.shape)

    def _atoms(self, matrix: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """The kept left vectors times their factors (k, n), and the right ones (k, m)."""
        top = float(matrix.abs().max())
        scaled = matrix.double() / top if top else matrix.double()
        u, sizes, v = (part.numpy() for part in torch.linalg.svd(scaled, full_matrices=False))
        shares = sizes.astype(np.float32)
        shares[shares < 1e-6 * shares.max()] = 0  # what rounding leaves of a matrix of lower rank
        least = least_sent(shares, self.rank)
        chances = np.minimum(1.0, shares / least) if least else (shares > 0).astype(np.float64)
        kept = np.flatnonzero(words(seed, np.arange(shares.size)) < chances * 2.0**32)
        factor = sizes[kept] * top / (chances[kept] if self.scaled else 1.0)
        left = np.ascontiguousarray(np.clip((u[:, kept] * factor).T, -_LARGEST, _LARGEST))
        left = left.astype(np.float32)
        return torch.from_numpy(left), torch.from_numpy(v[kept].astype(np.float32))

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        if not self._pays(template.shape):
            with bits.span("values"):
                return _floats(bits, tuple(template.shape)).to(template.device)
        n, m = _sides(template.shape)
        with bits.span("header"):
            k = bits.gamma() - 1
        if k > min(n, m):
            raise PayloadError(f"atomo: {k} atoms announced for a matrix of {n} by {m}")
        with bits.span("values"):
            p, q = _floats(bits, (k, n)), _floats(bits, (k, m))
        return _added(p, q, template)

    def _pays(self, shape: torch.Size) -> bool:
        """Whether the expected atoms have fewer numbers than the tensor has entries."""
        n, m = _sides(shape)
        return len(shape) >= 2 and self.rank * (n + m) < n * m

    def bound_on(self, d: int) -> Bound:
        """Of a matrix of at most sqrt(d) atoms: as gspar of its singular values."""
        share = min(1.0, self.rank / max(1, isqrt(d)))
        if self.scaled:
            return unbiased(1 / share - 1, "sqrt(d) / rank - 1 for a square matrix of equal atoms")
        return contraction(share, "rank / sqrt(d), in the mean: larger atoms are likelier")


def _sides(shape: torch.Size) -> tuple[int, int]:
    return (shape[0] if shape else 1), prod(shape[1:])


def _added(p: Tensor, q: Tensor, template: Tensor) -> Tensor:
    """The sum of atoms (k, n) and (k, m), shaped and placed like ``template``."""
    if not len(p):
        return torch.zeros(template.shape, device=template.device)
    return product(p, q).to(template.device).view(template.shape)


def _floats(bits: BitReader, shape: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(bits.float32s(prod(shape))).view(shape)


CATALOGUE["atomo"] = Row(
    "atomo",
    "codec",
    Atomo,
    "ATOMO: singular vectors by chance, unbiased",
    "Wang et al. 2018, Algorithm 1",
    "atomo(2)",
    portable=False,
)
