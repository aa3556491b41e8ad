"""A random rotation before another codec, undone by the receiver."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from compressors.arguments import read_tensor, write_tensor
from compressors.base import ALL, SentTensor, VectorCodec, finite, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, bound, contraction
from compressors.kernels.hadamard import rotate
from compressors.quantize.lloyd import Lloyd, lloyd_spread
from compressors.settings import check_codec
from compressors.sparsify.threshold import Identity

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


class Transform:
    """A codec that hands another codec the tensor after a transform, or some of its entries.

    Attributes:
        codec: of what the transform makes.
        mixes: whether each number that ``codec`` gets depends on many entries.
    """

    codec: VectorCodec
    mixes: ClassVar[bool] = True

    def count(self, n: int) -> int:
        """How many numbers ``codec`` gets for ``n`` entries: all of them."""
        return n


@dataclass(frozen=True)
class Rotate(Transform):
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
        rotated = rotate(x.detach().reshape(-1), tensor_seed(seed, _SIGNS))
        sent = write_tensor(self.codec, rotated, out, tensor_seed(seed, _INNER))
        return _Turned(sent, tensor_seed(seed, _SIGNS), x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        flat = template.new_empty(template.numel())
        rotated = read_tensor(self.codec, bits, flat, tensor_seed(seed, _INNER))
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
