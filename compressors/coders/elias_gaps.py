"""QSGD's own format of its symbols: gaps, signs and levels in Elias omega codes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.bits import BitReader, BitWriter
from compressors.coders.elias import OMEGA
from compressors.coders.fixed import UNSIGNED, unsigned
from compressors.errors import PayloadError
from compressors.kernels import elias_gaps as kernel
from compressors.parts import code_dtype


@dataclass(frozen=True)
class EliasGaps:
    """The gap to each symbol that is not zero, its sign and its level. Zeros take nothing.

    Source: Alistarh et al. 2017 (QSGD, https://arxiv.org/abs/1610.02132), section 3.2 and
    appendix: Code_s, its format for few levels. Gaps (the first counts from before the first
    symbol) and levels are Elias omega codes, a sign is one bit, 1 for minus. Symbols are read as
    ``dither`` numbers them: 2j - 1 is minus level j, 2j is plus level j. The paper's decoder stops
    at the message's end. Here more may follow, so that one gap more ends the symbols: the one to
    the entry behind the last. No symbols take no bits.

    Example:
        >>> out = BitWriter()
        >>> EliasGaps().write_symbols(torch.tensor([0, 3, 0], dtype=torch.uint8), 5, out)
        >>> f"{out.to_bytes()[0]:08b}{out.to_bytes()[1]:08b}"[: out.position]
        '1001100100'
    """

    codec_id: ClassVar[str] = "elias_gaps"
    needs_seed: ClassVar[bool] = False

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """Writes the symbols that are not zero; nothing for an alphabet of one."""
        numbers = unsigned(codes)
        if alphabet == 1 or numbers.size == 0:
            return
        heads, widths, _, shift = OMEGA
        out.reserve(kernel.count(numbers, widths.sum(0)))
        out.position = kernel.encode(numbers, out.words, out.position, heads, widths, shift)

    def read_symbols(
        self, bits: BitReader, k: int, alphabet: int, device: torch.device
    ) -> Tensor:
        """``PayloadError`` where a gap leaves the tensor or a symbol its alphabet."""
        dtype = code_dtype(alphabet)
        if alphabet == 1 or k == 0:
            return torch.zeros(k, dtype=dtype, device=device)
        numbers = np.empty(k, UNSIGNED[dtype])
        _, widths, lengths, shift = OMEGA
        position = kernel.decode(
            bits.words, bits.position, bits.end, alphabet, numbers, lengths, widths, shift
        )
        if position < 0:
            raise PayloadError(
                f"elias_gaps: codes run past the payload's end, past {k} entries, or outside an "
                f"alphabet of {alphabet}"
            )
        bits.position = position
        return torch.from_numpy(numbers).view(dtype).to(device)
