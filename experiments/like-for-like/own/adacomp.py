"""AdaComp: in every bin what is near its largest entry, as many as that may be."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from compressors import CATALOGUE, Row
from compressors.base import (
    ALL,
    Sent,
    SentTensor,
    State,
    Tensors,
    empty_like,
    mean,
    read_each,
    scatter,
)
from compressors.bits import BitReader, BitWriter
from compressors.bounds import Bound, neither
from compressors.coders.fixed import Fixed
from compressors.contrib.subset import read_places, write_places
from compressors.quantize.sign import sign_codes, with_signs
from compressors.settings import check_whole, plain
from compressors.whole.memory import added, nest, recall


@dataclass(frozen=True)
class AdaComp:
    """What would lead its bin if the newest update came once more; the rest is kept for later.

    Chen et al. 2018 (AdaComp, https://arxiv.org/abs/1712.02679, Algorithm 2). G is residual plus
    update and H is G plus the update again. Of every bin of ``size`` neighbouring entries those
    travel whose |H| reaches the largest |G| of the bin, however many they are. Each arrives as
    the sign of G times one magnitude per tensor, the mean of the bins' largest. So the rate
    follows from the updates, and nobody chooses a fraction. It keeps its own residual.

    The paper writes an index within a bin in 8 or 16 bits with two for the value; here a number of
    entries (gamma), Golomb codes of gaps, a float32 magnitude and one bit per sign. Bins of zeros
    send nothing, and entries of G that are zero are never sent.

    Args:
        size: entries of a bin, 1 to 2**24; the paper has 50 for convolutions and 500 for others.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> packet, state = compress(parse("adacomp(3)"), {"w": torch.tensor([1.0, 4.0, -3.0])})
        >>> packet.sent["w"].decoded, state["residue/w"]
        (tensor([ 0.,  4., -4.]), tensor([1., 0., 1.]))
    """

    held: ClassVar[str] = "residue"  # see compressors.whole.feedback
    keeps: ClassVar[tuple[str, ...]] = ("residue",)  # see compressors.whole.keepers
    size: int = 500
    needs_seed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        plain(self)
        check_whole("adacomp: size", self.size, 1, 1 << 24)

    def init(self, template: Tensors) -> State:
        """A zero residual per tensor."""
        return nest("residue", empty_like(template))

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        kept = recall("residue", state, {name: x.shape for name, x in update.items()})
        sent: Sent = {}
        after: dict[str, Tensor] = {}
        for name, whole in added(update, kept).items():
            new = update[name].detach().reshape(-1)
            sent[name] = self._write_one(whole.reshape(-1), new, whole.shape, out)
            after[name] = (whole - sent[name].decoded).contiguous()
        return sent, nest("residue", after)

    def _write_one(
        self, whole: Tensor, new: Tensor, shape: torch.Size, out: BitWriter
    ) -> SentTensor:
        if whole.numel() == 0:
            return SentTensor(torch.zeros(shape, device=whole.device), ALL, shape)
        bins = -(-whole.numel() // self.size)
        tops = pad(whole.abs(), (0, bins * self.size - whole.numel())).view(bins, -1).amax(1)
        each = tops.repeat_interleave(self.size)[: whole.numel()]
        near = (whole.double() + new.double()).abs() >= each
        chosen = (near & (whole != 0)).nonzero().flatten()
        write_places(chosen.cpu().numpy(), whole.numel(), out)
        if not chosen.numel():
            return SentTensor(whole[:0], chosen, shape)
        magnitude = torch.tensor(mean(tops), dtype=torch.float32)
        with out.span("side"):
            out.float32s(magnitude.numpy())
        codes = sign_codes(whole[chosen])
        with out.span("values"):
            Fixed().write_symbols(codes, 2, out)
        return SentTensor(with_signs(magnitude.to(whole.device), codes), chosen, shape)

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        return read_each(bits, template, lambda i, x: self._read_one(bits, x))

    def _read_one(self, bits: BitReader, template: Tensor) -> Tensor:
        places = read_places(bits, template.numel()) if template.numel() else np.zeros(0, np.int64)
        chosen = bits.places = torch.from_numpy(places).to(template.device)
        if not places.size:
            return torch.zeros(template.shape, device=template.device)
        with bits.span("side"):
            magnitude = torch.from_numpy(bits.float32s(1))[0].to(template.device)
        with bits.span("values"):
            codes = Fixed().read_symbols(bits, places.size, 2)
        return scatter(with_signs(magnitude, codes), chosen, template.shape)

    def bound_on(self, d: int) -> Bound:
        """None."""
        return neither("its magnitude is a mean of several bins' largest entries")


CATALOGUE["adacomp"] = Row(
    "adacomp",
    "compressor",
    AdaComp,
    "AdaComp: in every bin what is near its largest, with a residual",
    "Chen et al. 2018, Algorithm 2",
    "adacomp(50)",
)
