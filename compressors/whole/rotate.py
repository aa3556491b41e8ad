"""A random rotation or a cosine transform before another codec, undone by the receiver."""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import write_tensor
from compressors.base import ALL, SentTensor, VectorCodec, finite, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, contraction
from compressors.kernels import cosine as kernel
from compressors.kernels.hadamard import rotate
from compressors.quantize.lloyd import Lloyd, lloyd_spread
from compressors.settings import check_codec, check_whole, plain
from compressors.sparsify.identity import Identity

_SIGNS, _INNER = 1, 2  # purposes of a tensor's seed


class _Turned(SentTensor):
    """What the receiver will see of a rotated tensor, turned back when it is asked for.

    Args:
        sent: of the rotated one.
        seed: of its signs.
        shape: the tensor's.
    """

    sent: SentTensor
    seed: int

    def __init__(self, sent: SentTensor, seed: int, shape: torch.Size) -> None:
        vars(self).update(sent=sent, seed=seed, indices=ALL, shape=shape)

    @cached_property
    def values(self) -> Tensor:
        """See ``SentTensor``."""
        return rotate(self.sent.decoded, self.seed, back=True).view(self.shape)

    @property
    def count(self) -> int:
        """See ``SentTensor``."""
        return self.shape.numel()

    def overflows(self, x: Tensor) -> bool:
        """See ``SentTensor``: a rotation of what is finite is finite."""
        return not finite(self.sent.values)

    def __reduce__(self) -> Any:
        return SentTensor, (self.values, ALL, self.shape)


@dataclass(frozen=True)
class Rotate:
    """The codec after random signs and a normalised fast Walsh-Hadamard transform.

        x_hat = D H C(H D x)

    D is diagonal with random signs and H the Hadamard matrix over sqrt(d). Structured random
    rotations (Konečný et al. 2016, Federated Learning: Strategies for Improving Communication
    Efficiency, section 3): the entries of a rotated vector are of about equal size, so that a
    uniform grid or a random choice among them loses less. The signs follow from the seed, which
    travels. The transform is orthonormal: errors keep their norm, and an unbiased codec stays
    unbiased. A vector whose length is not a power of two is rotated in blocks that are, the largest
    first; nothing is padded. Values that the rotation takes out of float32's range saturate.

    Raises ``ValueError`` for anything but a codec of one tensor.

    Example:
        >>> from compressors import compress, parse
        >>> update = {"w": torch.tensor([0.0, 0.0, 6.0, 0.0])}
        >>> compress(parse("rotate(topk(1) | float32)"), update)[0].sent["w"].decoded
        tensor([0., 0., 6., 0.])
    """

    codec_id: ClassVar[str] = "rotate"
    codec: VectorCodec
    needs_seed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_codec("rotate", self.codec)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        """See ``VectorCodec.write``; every entry of what is decoded may differ from zero."""
        if x.numel() == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        rotated = rotate(x.detach().reshape(-1), tensor_seed(seed, _SIGNS))
        sent = write_tensor(self.codec, rotated, out, tensor_seed(seed, _INNER))
        return _Turned(sent, tensor_seed(seed, _SIGNS), x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        if template.numel() == 0:
            return torch.zeros_like(template)
        flat = template.new_empty(template.numel())
        rotated = self.codec.read(bits, flat, tensor_seed(seed, _INNER))
        bits.places = None  # every entry of what is turned back may differ from zero
        return rotate(rotated, tensor_seed(seed, _SIGNS), back=True).view(template.shape)

    def bound_on(self, d: int) -> Bound:
        """The codec's: norms stay. Of rotated values more is known of their levels.

        By Khintchine's inequality with its best constant (Szarek 1976) a rotated entry has
        E|y| >= ||x|| / sqrt(2 d), so that E||y||_1^2 >= d ||x||^2 / 2 in every block.
        """
        quantizer: Any = getattr(self.codec, "quantize", None)
        dense = type(getattr(self.codec, "sparsify", None)) is Identity
        if dense and type(quantizer) is Lloyd and quantizer.scale == "least":
            delta = lloyd_spread(quantizer.bits) / 2
            return contraction(delta, "1 / 2 for one bit, in the mean (Vargaftik et al. 2021)")
        return bound(self.codec, d)


_TILED = 1  # purpose of a tensor's seed


@dataclass(frozen=True)
class Cosine:
    """The codec on the discrete cosine transform (DCT-II, orthonormal) of tiles of the tensor.

        Y = A T B',  T_hat = A' C(Y) B
        A_ki = c_k sqrt(2 / a) cos(pi (i + 1 / 2) k / a),  c_0 = 1 / sqrt(2),  c_k = 1 for k > 0

    T is a tile of a rows and b columns, A' the transpose of A (a, a), and B (b, b) as A.

    DeMo (Peng, Quesnelle & Kingma 2024, https://arxiv.org/abs/2411.19870, section 3) keeps the
    largest coefficients: neighbouring entries of a momentum that move together lie in few of them.
    A tensor is a matrix of its first axis by all others, cut into tiles of ``size`` by ``size``; a
    vector into pieces of ``size``. The last tiles are smaller (the paper takes the largest
    divisor of a side in the place of ``size``). Coefficients are handed on tile after tile, so that
    ``chunk_topk(p, size * size)`` chooses tile by tile where sides are multiples of ``size``.
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
        """As the codec."""
        return self.codec.needs_seed

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        """See ``VectorCodec.write``; where anything is sent, every entry may differ from zero."""
        if x.numel() == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        turned = self._turn(x.detach().reshape(-1), x.shape, False)
        sent = write_tensor(self.codec, turned, out, tensor_seed(seed, _TILED))
        if not sent.count:  # of a tensor of zeros
            nowhere = torch.empty(0, dtype=torch.int64, device=x.device)
            return SentTensor(x.new_empty(0), nowhere, x.shape)
        return SentTensor(self._turn(sent.decoded, x.shape, True).view(x.shape), ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        if template.numel() == 0:
            return torch.zeros_like(template)
        flat = template.new_empty(template.numel())
        turned = self.codec.read(bits, flat, tensor_seed(seed, _TILED))
        if bits.places is not None and bits.places.numel():
            bits.places = None  # every entry may differ from zero, as ``write`` says
        return self._turn(turned, template.shape, True).view(template.shape)

    def _turn(self, x: Tensor, shape: torch.Size, back: bool) -> Tensor:
        rows, columns = (shape[0], prod(shape[1:])) if len(shape) > 1 else (1, x.numel())
        height, width = min(self.size, rows), min(self.size, columns)
        done = np.empty((rows, columns), np.float32)
        kernel.transform(
            x.cpu().contiguous().numpy(),
            height,
            width,
            (kernel.basis(height), kernel.basis(width)),
            kernel.basis(rows % height or height),
            kernel.basis(columns % width or width),
            back,
            done,
        )
        return torch.from_numpy(done).view(-1).to(x.device)

    def bound_on(self, d: int) -> Bound:
        """The codec's: norms stay."""
        return bound(self.codec, d)
