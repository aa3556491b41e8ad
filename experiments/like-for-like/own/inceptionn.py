"""INCEPTIONN's codec of floats: a tag of two bits, and 0, 8, 16 or 32 bits."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors import CATALOGUE, Row
from compressors.base import ALL, SentTensor
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.settings import check_whole, plain

_FINE = 15  # bits of a fraction in 16


@dataclass(frozen=True)
class Inceptionn:
    """Entries below 2**-b become zero, up to 1 they are cut to a byte or two, others are exact.

    Li et al. 2018 (INCEPTIONN, MICRO 51, https://doi.org/10.1109/MICRO.2018.00023, Algorithm 2),
    made for a network card. A tag says in 2 bits how an entry v travels: 0, not at all, |v| <
    2**-b; 1, a sign and 7 bits; 2, a sign and 15 bits; 3, as float32, from |v| = 1 on. A fraction
    is |v| in fixed point, its further bits cut off. The paper's byte counts in steps of 2**-7
    whatever b is, so that its error exceeds the bound; here the byte has steps of 2**-max(b, 7) and
    takes what fits 7 of them, so that no error reaches 2**-b. The bound does not scale with
    the updates. Layout: all tags, bytes, pairs of bytes, floats. No side information.

    Args:
        b: the bound is 2**-b, 1 <= b <= 15; the paper has 10, 8 and 6.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> x = {"w": torch.tensor([0.0001, -0.0156, 0.5, 3.3])}
        >>> packet, _ = compress(parse("inceptionn(10)"), x)
        >>> packet.sent["w"].decoded, packet.spans["values"]
        (tensor([ 0.0000, -0.0146,  0.5000,  3.3000]), 64)
    """

    b: int = 10
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_whole("inceptionn: b", self.b, 1, _FINE)

    def write(self, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        if x.numel() == 0:
            return SentTensor(torch.zeros_like(x), ALL, x.shape)
        flat = x.detach().reshape(-1).cpu().contiguous().numpy()
        size, step = np.abs(flat), max(self.b, 7)
        edges = np.array([2.0**-self.b, 2.0 ** (7 - step), 1.0], np.float32)
        tags = np.searchsorted(edges, size, side="right").astype(np.uint8)
        tags[size >= 1] = 3
        with out.span("values"):
            out.uints(tags, 2)
            for tag, bits in ((1, step), (2, _FINE)):
                part = flat[tags == tag]
                level = (np.abs(part) * np.float32(1 << bits)).astype(np.uint16)
                width = 7 if tag == 1 else _FINE
                sign = (part < 0).astype(np.uint16) << np.uint16(width)
                out.uints(level | sign, width + 1)
            out.float32s(flat[tags == 3])
        return SentTensor(self._decoded(flat, tags, x), ALL, x.shape)

    def _decoded(self, flat: np.ndarray, tags: np.ndarray, template: Tensor) -> Tensor:
        """What arrives of entries ``flat`` (n,): each cut to the steps of its tag."""
        steps = np.array([1, 1 << max(self.b, 7), 1 << _FINE, 1], np.float32)[tags]
        with np.errstate(over="ignore"):
            cut = np.trunc(flat * steps) / steps
        done = np.where(tags == 3, flat, np.where(tags == 0, np.float32(0), cut))
        return torch.from_numpy(done + np.float32(0)).to(template.device).view(template.shape)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        n = template.numel()
        if n == 0:
            return torch.zeros_like(template)
        done = np.zeros(n, np.float32)
        with bits.span("values"):
            tags = bits.uints(n, 2, np.uint8)
            for tag, width, step in ((1, 7, max(self.b, 7)), (2, _FINE, _FINE)):
                here = tags == tag
                codes = bits.uints(int(here.sum()), width + 1, np.uint16)
                level = (codes & np.uint16((1 << width) - 1)).astype(np.float32)
                value = level / np.float32(1 << step)
                done[here] = np.where(codes >> np.uint16(width), -value, value) + np.float32(0)
            done[tags == 3] = bits.float32s(int((tags == 3).sum()))
        return torch.from_numpy(done).to(template.device).view(template.shape)

    def bound_on(self, d: int) -> Bound:
        """None."""
        return neither(f"the bound of 2^-{self.b} per entry is absolute")


CATALOGUE["inceptionn"] = Row(
    "inceptionn",
    "codec",
    Inceptionn,
    "INCEPTIONN: a tag of 2 bits, then 0, 8, 16 or 32",
    "Li et al. 2018, Algorithm 2",
    "inceptionn(10)",
)
