"""PowerSGD: every matrix of an update as two thin factors, found by one power iteration.

Vogels, Karimireddy & Jaggi, PowerSGD: Practical Low-Rank Gradient Compression for
Distributed Optimization, NeurIPS 2019, Algorithm 1.
"""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, Tensors, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.kernels import noise
from compressors.kernels.factors import product
from compressors.settings import check_whole, plain
from compressors.whole.memory import recall

_SEED = 20190531  # of the first Q: every sender starts from the same one, as in the paper
_DEPENDENT = 1e-10  # what is left of a row, as a share, if it lies in the span of those before


@dataclass(frozen=True)
class LowRank:
    """A tensor of two or more dimensions, seen as a matrix (shape[0], rest), by rank ``rank``.

        P = orthonormal(M Q),  Q <- M' P,  M_hat = P Q'

    One power iteration per message (PowerSGD; Vogels et al. 2019, Algorithm 1): P and Q travel, as
    float32, and M' is the transpose of the matrix M. Q is kept and is the next message's start
    (warm start), so that over messages of a steady M the rank-r truncation is found. The first Q is
    symmetric uniform noise from a counter, fixed by the tensor's ordinal. A matrix of n x m where r
    (n + m) >= n m, a vector and a scalar travel raw.

    Against the paper: workers there average P before it is made orthonormal, in two
    all-reduces a step; here a message is one sender's and holds its own two factors. Error
    feedback is not in here: see ``powersgd``. Each matrix is normalised by itself, and a
    direction of Q that the message has no use for (M is zero, or of lower rank) is kept for
    later instead of becoming zero for ever.

    Raises ``ValueError`` unless ``rank`` is a whole number of at least 1.

    Example:
        >>> from compressors import compress
        >>> matrix = torch.arange(1.0, 7)[:, None] * torch.arange(1.0, 9)
        >>> packet, _ = compress(LowRank(1), {"w": matrix})
        >>> packet.spans["values"] == 32 * (6 + 8)
        True
        >>> torch.allclose(packet.sent["w"].decoded, matrix)
        True
    """

    codec_id: ClassVar[str] = "lowrank"
    keeps: ClassVar[tuple[str, ...] | None] = ("q",)
    rank: int
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_whole("lowrank: rank", self.rank, 1)

    def init(self, template: Tensors) -> State:
        """A starting Q (rank, rest) for every tensor that is sent by its factors."""
        state: State = {}
        for ordinal, (name, x) in enumerate(template.items()):
            if self._pays(x.shape):  # uniform in [-1, 1): the same on every machine
                room = self.rank, _sides(x.shape)[1]
                words = noise.words(tensor_seed(_SEED, ordinal), np.arange(room[0] * room[1]))
                uniform = (words.astype(np.float64) / 2.0**31 - 1.0).astype(np.float32)
                state[f"q/{name}"] = torch.from_numpy(uniform).view(room)
        return state

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        starts = recall(
            "q",
            state,
            {
                name: (self.rank, _sides(x.shape)[1])
                for name, x in update.items()
                if self._pays(x.shape)
            },
        )
        sent: Sent = {}
        after: State = {}
        with out.span("values"):
            for name, x in update.items():
                x = x.detach()
                if not self._pays(x.shape):
                    out.float32s(x.numpy())
                    sent[name] = SentTensor(x, ALL, x.shape)
                    continue
                p, q, after[f"q/{name}"] = iterate(
                    x.reshape(x.shape[0], -1).contiguous(), starts[name]
                )
                out.float32s(p.numpy())
                out.float32s(q.numpy())
                sent[name] = SentTensor(product(p, q).view(x.shape), ALL, x.shape)
        return sent, after

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        update = {}
        with bits.span("values"):
            for name, x in template.items():
                pays = self._pays(x.shape)
                shapes = [(self.rank, n) for n in _sides(x.shape)] if pays else [tuple(x.shape)]
                parts = [
                    torch.from_numpy(bits.float32s(prod(shape))).view(shape) for shape in shapes
                ]
                update[name] = product(*parts).view(x.shape) if pays else parts[0]
        return update

    def _pays(self, shape: torch.Size) -> bool:
        """Whether the factors have fewer entries than the tensor."""
        n, m = _sides(shape)
        return len(shape) >= 2 and self.rank * (n + m) < n * m

    def bound_on(self, d: int) -> Bound:
        """None for one power iteration."""
        return neither(
            "a projection, so the error never exceeds the update, but one power iteration may "
            "miss a matrix; delta = r / min(n, m) once it has converged"
        )


def iterate(matrix: Tensor, guess: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One power iteration: P (r, n) with orthonormal rows, Q (r, m), and the next guess (r, m).

    ``matrix`` (n, m) is divided by its largest magnitude first, so that no sum overflows on the
    way to P; the next guess has rows of largest magnitude 1, as only their span matters.
    """
    with torch.autocast("cpu", enabled=False):  # a caller's would round the products
        return _iterate(matrix, guess)


def _iterate(matrix: Tensor, guess: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    top = matrix.abs().max()
    if not bool(top):
        return matrix.new_zeros(len(guess), len(matrix)), torch.zeros_like(guess), guess.clone()
    scaled = matrix / top
    p = orthonormal((guess @ scaled.T).double()).float()
    q = p @ scaled
    size = q.abs().amax(dim=1, keepdim=True)
    used = size > 0
    return p, q * top, torch.where(used, q / torch.where(used, size, 1), guess)


def orthonormal(rows: Tensor) -> Tensor:
    """``rows`` (r, n), float64, made orthonormal in order; a row in the span of others is zero.

    Gram-Schmidt, each row twice: the second pass removes what rounding left of the first.
    """
    done = torch.zeros_like(rows)
    for k, row in enumerate(rows):
        before = done[:k]
        residual = row - (before @ row) @ before
        if float(residual.norm()) > _DEPENDENT * float(row.norm()):
            residual = residual - (before @ residual) @ before
            done[k] = residual / residual.norm()
    return done


def _sides(shape: torch.Size) -> tuple[int, int]:
    return (shape[0] if shape else 1), prod(shape[1:])
