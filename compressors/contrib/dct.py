"""A cosine transform before another codec, and DeMo, which chooses its largest coefficients."""

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import read_tensor, write_tensor
from compressors.base import ALL, Compressor, SentTensor, VectorCodec, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound
from compressors.kernels import cosine as kernel
from compressors.quantize.floats import Float32
from compressors.settings import check_codec, check_whole, plain
from compressors.sparsify.blocks import ChunkTopK
from compressors.whole.feedback import ErrorFeedback
from compressors.whole.lift import PerTensor
from compressors.whole.pipeline import Pipeline
from compressors.whole.rotate import Transform

_TILED = 1  # purpose of a tensor's seed


@dataclass(frozen=True)
class Cosine(Transform):
    """The codec on the discrete cosine transform (DCT-II, orthonormal) of tiles of the tensor.

        Y = A T B',  T_hat = A' C(Y) B
        A_ki = c_k sqrt(2 / a) cos(pi (i + 1 / 2) k / a),  c_0 = 1 / sqrt(2),  c_k = 1 for k > 0

    T is a tile of a rows and b columns, A' the transpose of A (a, a), and B (b, b) as A.

    DeMo (Peng, Quesnelle & Kingma 2024, https://arxiv.org/abs/2411.19870, section 3) keeps the
    largest coefficients: neighbouring entries of a momentum that move together lie in few of them.
    A tensor is a matrix of its first axis by all others, cut into tiles of ``size`` by ``size``; a
    vector into pieces of ``size``. The last tiles are smaller (the paper takes the largest
    divisor of a side in the place of ``size``). Coefficients are handed on tile after tile, so that
    ``chunk_topk(p, size * size)`` chooses tile by tile in a matrix whose sides are multiples of
    ``size``. Pieces of a vector and smaller tiles share a chunk; the paper chooses in each.
    Orthonormal: errors keep their norm. What leaves float32 saturates.

    Args:
        size: the sides of a tile, 1 to 256.
        codec: of the coefficients, a flat vector.

    Raises ``ValueError`` for another size, and for anything but a codec of one tensor.

    Example:
        >>> from compressors import compress, parse
        >>> flat = {"w": torch.full((4, 4), 2.0)}
        >>> compress(parse("dct(4, topk(0.01) | float32)"), flat)[0].sent["w"].decoded.flatten()[:2]
        tensor([2., 2.])
    """

    codec_id: ClassVar[str] = "dct"
    size: int
    codec: VectorCodec

    def __post_init__(self) -> None:
        plain(self)
        check_whole("dct: size", self.size, 1, 256)
        check_codec("dct", self.codec)

    @property
    def needs_seed(self) -> bool:
        return self.codec.needs_seed

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        """See ``VectorCodec.write``; where anything is sent, every entry may differ from zero."""
        turned = self._turn(x.detach().reshape(-1), x.shape, False)
        sent = write_tensor(self.codec, turned, out, tensor_seed(seed, _TILED))
        if not sent.count:  # of a tensor of zeros
            nowhere = torch.empty(0, dtype=torch.int64, device=x.device)
            return SentTensor(x.new_empty(0), nowhere, x.shape)
        return SentTensor(self._turn(sent.decoded, x.shape, True).view(x.shape), ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        flat = template.new_empty(template.numel())
        turned = read_tensor(self.codec, bits, flat, tensor_seed(seed, _TILED))
        if bits.places is not None and bits.places.numel():
            bits.places = None  # every entry may differ from zero, as ``write`` says
        return self._turn(turned, template.shape, True).view(template.shape)

    def _turn(self, x: Tensor, shape: torch.Size, back: bool) -> Tensor:
        rows, columns = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, x.numel())
        height, width = min(self.size, rows), min(self.size, columns)
        done = np.empty((rows, columns), np.float32)
        kernel.transform(
            x.contiguous().numpy(),
            height,
            width,
            (kernel.basis(height), kernel.basis(width)),
            kernel.basis(rows % height or height),
            kernel.basis(columns % width or width),
            back,
            done,
        )
        return torch.from_numpy(done).view(-1)

    def bound_on(self, d: int) -> Bound:
        """The codec's: norms stay."""
        return bound(self.codec, d)


def demo(p: float, decay: float = 0.999, size: int = 64) -> Compressor:
    """DeMo (Peng et al. 2024, Algorithm 1): the largest cosine coefficients of a client's momentum.

        demo(p, decay, size) =
            ef(per_tensor(dct(size, chunk_topk(p, size * size) | float32 | golomb)), decay)

    The fading memory is the momentum, from which what was sent is taken away. The paper takes one
    step between messages (``temporal`` 1) and adds the sign of what all sent; here the server adds
    the mean. Raises ``ValueError`` for settings that the parts do not take.

    Example:
        >>> from compressors import text
        >>> text(demo(0.01))
        'ef(per_tensor(dct(64, chunk_topk(0.01) | float32 | golomb)), 0.999)'
    """
    coefficients = Pipeline(ChunkTopK(p, size * size), Float32())
    return ErrorFeedback(PerTensor(Cosine(size, coefficients)), decay)
