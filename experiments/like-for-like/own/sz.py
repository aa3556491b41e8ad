"""An error-bounded predictive coder: predict, round within the bound, code what is left."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from numba import njit
from torch import Tensor

from compressors import CATALOGUE, Row
from compressors.base import ALL, SentTensor
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction, neither
from compressors.coders.rans import Ans
from compressors.errors import PayloadError
from compressors.grammar import shown
from compressors.settings import plain

_ALPHABET = 1 << 15
_MIDDLE = _ALPHABET // 2


@dataclass(frozen=True)
class SZ:
    """No entry is off by more than ``bound`` times the spread of its tensor, greatest less least.

    After SZ (Tao, Di, Chen & Cappello 2017, https://arxiv.org/abs/1706.03939), which scientific
    data are coded with: an entry is predicted from its decoded neighbours (Lorenzo: left plus
    upper minus upper left of the matrix of the first axis by all others), what is left
    is rounded to steps of twice the bound, and steps are coded by their frequencies. An entry
    that lies 16,384 steps off, or that float32 cannot bring within the bound, travels as it is. SZ
    codes by Huffman, this by range ANS, without SZ's last pass through a general coder. Updates
    have no smooth neighbours; what it costs on them is the reference that bounded errors give.

    Side information: the bound as a float32. Values: symbols, then the entries as they are.

    Args:
        bound: 0 < bound < 0.5, relative to the spread: an error is smaller than the largest entry.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([0.0, 0.6, 1.1, 2.0])}
        >>> compress(parse("sz(0.25)"), x)[0].sent["w"].decoded
        tensor([0., 1., 1., 2.])
    """

    bound: float
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        number = isinstance(self.bound, int | float) and not isinstance(self.bound, bool)
        if not number or not 0 < self.bound < 0.5:
            raise ValueError(f"sz: bound is {shown(self.bound)}: 0 < bound < 0.5")

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        if x.numel() == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        flat = x.detach().reshape(_sides(x)).cpu().contiguous().numpy()
        spread = float(flat.max()) - float(flat.min())
        limit = np.array([min(self.bound * spread, 3e38)], np.float32)
        if float(limit[0]) > self.bound * spread:  # rounded up: one number below
            limit = np.nextafter(limit, np.float32(0))
        codes, done = np.empty(flat.shape, np.int16), np.empty(flat.shape, np.float32)
        _encode(flat, float(limit[0]), _MIDDLE, codes, done)
        with out.span("side"):
            out.float32s(limit)
        with out.span("values"):
            Ans().write_symbols(torch.from_numpy(codes.reshape(-1)), _ALPHABET, out)
            out.float32s(flat[codes == 0])
        return SentTensor(torch.from_numpy(done).to(x.device).view(x.shape), ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        if n == 0:
            return torch.zeros_like(template)
        with bits.span("side"):
            limit = float(bits.float32s(1)[0])
        if not 0 <= limit <= 3.1e38:
            raise PayloadError(f"sz: the bound {limit:g} is none that is written")
        with bits.span("values"):
            symbols = Ans().read_symbols(bits, n, _ALPHABET).numpy()
            raw = bits.float32s(int(np.count_nonzero(symbols == 0)))
        done = np.empty(_sides(template), np.float32)
        _decode(symbols.reshape(done.shape), raw, limit, _MIDDLE, done)
        return torch.from_numpy(done).to(template.device).view(template.shape)

    def bound_on(self, d: int) -> Bound:
        """d (bound spread)^2 of error, and spread^2 <= 2 ||x||^2, as for minmax."""
        lost = 2 * d * self.bound**2
        if lost >= 1:
            return neither("each error is within the bound, and d of them may exceed the update")
        return contraction(1 - lost, "1 - 2 d bound^2")


def _sides(x: Tensor) -> tuple[int, int]:
    return (x.shape[0], prod(x.shape[1:])) if x.dim() > 1 else (1, x.numel())


# The Lorenzo predictor of a matrix: left plus upper minus upper left, zeros outside. Symbol 0 says
# that an entry travels as it is; symbol s is s - ``middle`` steps off the prediction.


@njit(nogil=True, inline="always")
def _predicted(done, i, j):
    left = np.float64(done[i, j - 1]) if j else 0.0
    upper = np.float64(done[i - 1, j]) if i else 0.0
    corner = np.float64(done[i - 1, j - 1]) if i and j else 0.0
    return left + upper - corner


@njit(nogil=True)
def _encode(x, bound, middle, codes, done):
    """Fills symbols and what will be decoded; how many entries travel as they are.

    Args:
        x: float32 (rows, columns).
        bound: the largest error, float64; a step is twice that.
        middle: the symbol of no step.
        codes: int16 (rows, columns), filled.
        done: float32 (rows, columns), filled.
    """
    raw = 0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            value = np.float64(x[i, j])
            guess = _predicted(done, i, j)
            steps = np.rint((value - guess) / (2.0 * bound)) if bound > 0.0 else 0.0
            codes[i, j] = 0
            done[i, j] = x[i, j]
            if abs(steps) < middle:
                near = np.float32(guess + 2.0 * bound * steps)
                if abs(np.float64(near) - value) <= bound:
                    codes[i, j] = middle + np.int64(steps)
                    done[i, j] = near
            raw += int(codes[i, j] == 0)
    return raw


@njit(nogil=True)
def _decode(codes, raw, bound, middle, done):
    """Fills ``done`` (rows, columns) from symbols and the entries that travel as they are."""
    used = 0
    for i in range(done.shape[0]):
        for j in range(done.shape[1]):
            if codes[i, j] == 0:
                done[i, j] = raw[used]
                used += 1
            else:
                guess = _predicted(done, i, j)
                done[i, j] = np.float32(guess + 2.0 * bound * (np.int64(codes[i, j]) - middle))


CATALOGUE["sz"] = Row(
    "sz",
    "codec",
    SZ,
    "Predicted and rounded within a bound, as SZ does",
    "Tao et al. 2017",
    "sz(0.01)",
)
