"""Variance-based compression: an entry waits until its sum is large beside its squares."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors import CATALOGUE, Row
from compressors.base import (
    ALL,
    Sent,
    SentTensor,
    State,
    Tensors,
    empty_like,
    read_each,
    scatter,
)
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.contrib.subset import read_places, write_places
from compressors.errors import PayloadError
from compressors.grammar import shown
from compressors.settings import plain
from compressors.whole.memory import added, nest, recall

_HALF, _POWER = np.uint32(1 << 22), np.uint32(0xFF800000)  # of a float's fraction; its exponent


@dataclass(frozen=True)
class VarianceBased:
    """Sends the sum r of an entry's updates once r^2 > alpha v, with v the sum of their squares.

    Tsuzuku, Imachi & Akiba 2018 (https://arxiv.org/abs/1802.06058), section 4. What was sent starts
    again with r = 0 and v = 0; of all else v fades by ``decay``. A sum travels as its sign and the
    nearest power of two: 3 bits say how many halvings below the largest of its tensor, which is cut
    down to a power; what would need 8 or more is not sent and waits. The error of that rounding is
    dropped, as in the paper.

    In the paper v is the sum of squares of every sample's gradient, over the batch's size squared.
    A message sees one update, so here an update counts as a sample: with batches of one sample and
    ``temporal`` 1 the two are the same. With more, v says how updates differ from each other.

    Written are the number of entries (gamma), Golomb codes of gaps (the paper: 28 bits each), an
    exponent of 8 bits per tensor and 4 bits per entry. The memory has r as ``sums`` and v as
    ``squares``, in float64: in float32 those of entries above 1e19 and below 1e-22 are none.

    Args:
        alpha: above 0; the paper has 1 to 2. From 1 up a first message is empty.
        decay: of v, 0 < decay <= 1; the paper has 0.999.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> method, update = parse("variance_based(1)"), {"w": torch.tensor([3.0, -1.0, 1.0])}
        >>> first, state = compress(method, update)
        >>> again, _ = compress(method, {"w": torch.tensor([3.0, -1.0, -1.0])}, state)
        >>> first.sent["w"].count, again.sent["w"].decoded
        (0, tensor([ 4., -2.,  0.]))
    """

    held: ClassVar[str] = "sums"  # see compressors.whole.feedback
    keeps: ClassVar[tuple[str, ...]] = ("sums", "squares")  # see compressors.whole.keepers
    alpha: float = 1.0
    decay: float = 0.999
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        for name, most in (("alpha", float("inf")), ("decay", 1.0)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value <= most or value == float("inf"):
                limit = "a number above 0" + (" and at most 1" if name == "decay" else "")
                raise ValueError(f"variance_based: {name} is {shown(value)}: give {limit}")

    def init(self, template: Tensors) -> State:
        """A zero sum and a zero sum of squares per tensor."""
        zeros = empty_like(template)
        return nest("sums", zeros) | nest("squares", {n: x.double() for n, x in zeros.items()})

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        shapes = {name: x.shape for name, x in update.items()}
        sums = recall("sums", state, shapes)
        squares = recall("squares", state, shapes, torch.float64)
        sent: Sent = {}
        after, left = dict[str, Tensor](), dict[str, Tensor]()
        for name, r in added(update, sums).items():
            x = update[name].detach()
            v = squares[name] + x.double().square()
            sent[name] = self._write_one(r, v, out)
            gone = torch.zeros(r.numel(), dtype=torch.bool, device=r.device)
            places = sent[name].indices
            if isinstance(places, Tensor):
                gone[places] = True
            gone = gone.view(r.shape)
            after[name] = torch.where(gone, 0.0, r)
            left[name] = torch.where(gone, 0.0, v * self.decay)
        return sent, nest("sums", after) | nest("squares", left)

    def _write_one(self, r: Tensor, v: Tensor, out: BitWriter) -> SentTensor:
        if r.numel() == 0:
            return SentTensor(torch.zeros_like(r), ALL, r.shape)
        x = r.cpu().numpy().reshape(-1)
        large = (r.double().square() > self.alpha * v).cpu().numpy().reshape(-1)
        places, codes, top = _codes(x, np.flatnonzero(large))
        write_places(places, x.size, out)
        chosen = torch.from_numpy(places).to(r.device)
        if not places.size:
            return SentTensor(r.reshape(-1)[:0], chosen, r.shape)
        with out.span("side"):
            out.uint(top, 8)
        out.uints(codes, 4)
        return SentTensor(_values(codes, top).to(r.device), chosen, r.shape)

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        return read_each(bits, template, lambda i, x: self._read_one(bits, x))

    def _read_one(self, bits: BitReader, template: Tensor) -> Tensor:
        places = read_places(bits, template.numel()) if template.numel() else np.zeros(0, np.int64)
        bits.places = torch.from_numpy(places)
        if not places.size:
            return torch.zeros(template.shape, device=template.device)
        with bits.span("side"):
            top = bits.uint(8)
        codes = bits.uints(places.size, 4)
        if not 1 <= top <= 254 or int((codes & np.uint64(7)).max()) >= top:
            raise PayloadError(f"an exponent of {top} with {places.size} entries below it")
        return scatter(_values(codes, top), bits.places, template.shape).to(template.device)

    def bound_on(self, d: int) -> Bound:
        """None."""
        return neither("what waits for a sign of its own may be everything")


def _codes(x: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Which of ``places`` travel, sign and halvings of each (4 bits), the largest one's exponent.

    Numbers below the least normal one are never sent.
    """
    bits = x[places].view(np.uint32) & np.uint32(0x7FFFFFFF)
    top = int(bits.max(initial=0) >> np.uint32(23))
    nearest = np.minimum((bits + _HALF & _POWER) >> np.uint32(23), np.uint32(top)).astype(np.int64)
    below = top - nearest
    kept = (below < 8) & (nearest >= 1)
    signs = (x[places] < 0).astype(np.int64)
    return places[kept], (signs << 3 | below)[kept].astype(np.uint64), top


def _values(codes: np.ndarray, top: int) -> Tensor:
    """The powers of two that ``codes`` say below that of exponent ``top``."""
    powers = ((top - (codes & np.uint64(7)).astype(np.int64)) << 23).astype(np.uint32)
    signs = (codes >> np.uint64(3)).astype(np.uint32) << np.uint32(31)
    return torch.from_numpy((powers | signs).view(np.float32))


CATALOGUE["variance_based"] = Row(
    "variance_based",
    "compressor",
    VarianceBased,
    "Entries wait until their sum is large beside its squares; an update counts as a sample",
    "Tsuzuku et al. 2018, section 4",
    "variance_based(0.9, 0.999)",
)
