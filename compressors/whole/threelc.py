"""3LC: three values, five a byte, and runs of zeros."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, SentTensor
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, contraction
from compressors.errors import PayloadError
from compressors.kernels import quartic as kernel
from compressors.kernels.curve import LARGEST
from compressors.settings import check_number, plain


@dataclass(frozen=True)
class ThreeLC:
    """3LC of every entry of a tensor (Lim, Andersen & Kaminsky 2019, section 3).

        x_hat_i = M round(x_i / M),  M = sparsity max_j |x_j|

    So an entry becomes -M where it is below -M / 2, M above M / 2, else 0 (M / 2 itself is 0:
    rounding is to even). A higher sparsity makes more zeros and fewer, larger others. Biased: the
    paper uses it with error feedback, ``ef(threelc)``.

    M travels as a float32 (side information), then the entries, 1.6 bits each before runs
    (quartic encoding): they are laid out in five equal parts, zeros filling the last, and a byte
    holds one entry of each part as five digits of base 3 (0, 1, 2 for -M, 0, M), the first part
    highest: 0 to 242. Five zeros are byte 121; bytes 243 to 255 stand for runs of 2 to 14 of it
    (zero-run encoding). How many bytes there are is not sent: they end with the tensor.

    Args:
        sparsity: the sparsity multiplier s, 1 <= s < 2: the largest entries never become zero.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = torch.tensor([4.0, -3.0, 1.0, 0.0, 0.0])
        >>> packet, _ = compress(parse("threelc"), {"w": x})
        >>> packet.sent["w"].decoded, packet.spans["values"], packet.spans["side"]
        (tensor([ 4., -4.,  0.,  0.,  0.]), 8, 32)
    """

    codec_id: ClassVar[str] = "threelc"
    sparsity: float = 1.0
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        allowed = "1 <= sparsity < 2"
        check_number("threelc: sparsity", self.sparsity, lambda s: 1 <= s < 2, allowed)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        flat = x.detach().reshape(-1).numpy()
        largest = min(float(np.abs(flat).max()) * self.sparsity, LARGEST)
        magnitude = np.array([largest], np.float32)
        with out.span("side"):
            out.float32s(magnitude)
        groups = -(-flat.size // 5)
        trits = kernel.quantize_trits(flat, float(magnitude[0]) / 2, groups)
        with out.span("values"):
            out.reserve(8 * groups)
            out.position = kernel.encode_trits(trits, out.words, out.position)
        return SentTensor(_decoded(trits, magnitude, x), ALL, x.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        groups = -(-n // 5)
        with bits.span("side"):
            magnitude = bits.float32s(1)
        with bits.span("values"):
            bits.need(8 * -(-groups // kernel.LONGEST_RUN))  # no bytes stand for more entries
            trits = np.empty(5 * groups, np.uint8)
            refusal = f"3LC bytes do not end with the {n} entries of their tensor"
            bits.decode(kernel.decode_trits, trits, refusals=[refusal])
        if (trits[n:] != 1).any():
            raise PayloadError("3LC: an entry past the tensor's end is not zero")
        return _decoded(trits, magnitude, template)

    def bound_on(self, d: int) -> Bound:
        """No entry's error exceeds it, and the largest is (s - 1) of itself off."""
        delta = self.sparsity * (2 - self.sparsity) / max(d, 1)
        return contraction(delta, "ours: s (2 - s) / d; the paper states none")


def _decoded(trits: np.ndarray, magnitude: np.ndarray, template: Tensor) -> Tensor:
    """The entries that the symbols mean, shaped like ``template``."""
    table = np.concatenate((-magnitude, np.zeros(1, np.float32), magnitude))
    entries = table[trits[: template.numel()]]
    return torch.from_numpy(entries).view(template.shape)
