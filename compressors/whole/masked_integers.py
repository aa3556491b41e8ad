"""Fixed-point integers modulo a power of two, to which secure aggregation adds masks."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import (
    ALL,
    Sent,
    SentTensor,
    State,
    Tensors,
    nominal_count,
    split_places,
    tensor_seed,
    unflatten,
)
from compressors.bits import BitReader, BitWriter
from compressors.errors import UpdateError
from compressors.kernels import sample
from compressors.kernels.noise import words
from compressors.settings import check_number, check_share, check_whole, plain
from compressors.whole.memory import unnest

MASK = "mask"
"""In the memory: the mask of the next message, an integer for each entry that travels."""

WEIGHT = "weight"
"""In the memory: the client's weight in the next message; without it 1."""

ROUND_SEED = "round_seed"
"""In the memory: the round's seed, of which the entries that travel follow with p < 1."""


@dataclass(frozen=True)
class MaskedIntegers:
    """Integers of ``bits`` bits plus a mask, modulo 2**``modulus``: only their sum tells anything.

        q_i = floor(min(max(x_i, -c), c) / s + v_i),  s = c / (2^(bits - 1) - 1)
        y_i = (q_i + m_i) mod 2^modulus

    c is ``clip``, v_i uniform noise in [0, 1), and m the mask, which follows from the memory: 0
    where that holds none. So within the clip s q is unbiased, and 0 stays 0. With p < 1 the k =
    round(p d) entries travel that the round's seed draws, the same of all clients. The message is a
    bit that says whether there is a mask, that seed in 32 bits with p < 1, and y in ``modulus``
    bits an entry. It decodes to d / k times s y, where y from 2^(modulus - 1) on counts as y -
    2^modulus: with a mask, to uniform noise. Masks come from the client's half of strategy
    ``secagg``, whose server adds up integers; every other strategy refuses this method.

    With ``weight`` > 0 a client with weight n sends n q_i in place of q_i, and n itself as one more
    integer in ``modulus`` bits, masked too: both sums give the weighted mean, and no message its
    weight. It decodes to d / k times s y / n.

    Source: Bonawitz et al. 2017 (https://doi.org/10.1145/3133956.3133982), Section 4; fixed point
    with a clip as in Bonawitz et al. 2019 (https://arxiv.org/abs/1912.00131), Section 3.

    Args:
        bits: of a client's integer, 2 to 24.
        clip: c, in units of the update, above 0.
        modulus: bits of an integer that travels, ``bits`` to 32. The sum of m clients needs
            m (2^bits - 2) (2^weight - 1) < 2^modulus, where weight = 0 counts as 1.
        p: the fraction of entries that travels, above 0, at most 1.
        weight: bits of a client's weight, 0 to 16, with ``bits`` 32 at most; 0: every client counts
            once.

    Raises ``ValueError`` for any other.

    Example:
        >>> from compressors import compress, parse
        >>> method, update = parse("secagg(3, 0.75, 4)"), {"w": torch.tensor([0.5, -0.25, 9.0])}
        >>> compress(method, update)[0].sent["w"].decoded  # s = 0.25
        tensor([ 0.5000, -0.2500,  0.7500])
        >>> masked = compress(method, update, {"mask/mask": torch.tensor([5, 1, 15])})[0]
        >>> masked.sent["w"].decoded / 0.25
        tensor([7., 0., 2.])
    """

    codec_id: ClassVar[str] = "secagg"
    server: ClassVar[str] = "secagg"
    keeps: ClassVar[tuple[str, ...]] = (MASK,)
    needs_seed: ClassVar[bool] = False
    bits: int
    clip: float
    modulus: int = 32
    p: float = 1.0
    weight: int = 0

    def __post_init__(self) -> None:
        plain(self)
        check_whole("secagg: bits", self.bits, 2, 24)
        check_whole("secagg: weight", self.weight, 0, min(16, 32 - self.bits))
        check_whole("secagg: modulus", self.modulus, self.bits + self.weight, 32)
        allowed = "1e-30 <= clip <= 1e30"
        check_number("secagg: clip", self.clip, lambda c: 1e-30 <= c <= 1e30, allowed)
        check_share("secagg: p", self.p)

    @property
    def largest(self) -> int:
        """The largest magnitude of a client's integer, 2^(bits - 1) - 1."""
        return (1 << self.bits - 1) - 1

    @property
    def step(self) -> float:
        """s, the value of the integer 1."""
        return self.clip / self.largest

    def needed(self, clients: int) -> int:
        """The least ``modulus`` that holds every sum of so many clients' integers."""
        return (2 * self.largest * self.largest_weight * clients).bit_length()

    @property
    def largest_weight(self) -> int:
        """The largest weight of a client: 2^weight - 1, or 1 where every client counts once."""
        return max(1, (1 << self.weight) - 1)

    def count(self, entries: int) -> int:
        """How many of so many entries travel."""
        return nominal_count(self.p, entries)

    def integer_count(self, entries: int) -> int:
        """How many integers travel of so many entries: with ``weight`` the weight is one more."""
        count = self.count(entries)
        return count + 1 if count and self.weight else count

    def places(self, round_seed: int, entries: int) -> np.ndarray:
        """The entries that travel, ascending: those with the smallest numbers by ``round_seed``."""
        return sample.smallest(entries, self.count(entries), round_seed)

    def init(self, template: Tensors) -> State:
        """Nothing: no mask, until somebody says one."""
        return {}

    def write(self, update: Tensors, state: State, out: BitWriter, seed: int) -> tuple[Sent, State]:
        """See ``Compressor.write``; the mask is used up, ``UpdateError`` for one of other size."""
        masking = unnest(MASK, state)
        mask, round_seed = masking.get(MASK), int(masking.get(ROUND_SEED, 0))
        flat = flattened(update)
        places = self.places(round_seed, flat.size)
        integers = self.integers(flat[places], seed)
        if self.weight and integers.size:
            client_weight = int(masking.get(WEIGHT, 1))
            if not 1 <= client_weight <= self.largest_weight:
                limit = self.largest_weight
                raise UpdateError(f"secagg: a weight of {client_weight} where 1 to {limit} fit")
            integers = np.append(integers * client_weight, client_weight)
        if mask is not None:
            if mask.shape != integers.shape:
                entries = tuple(mask.shape)
                raise UpdateError(f"secagg: a mask of {entries} entries for {len(integers)}")
            integers += mask.numpy()
        if integers.size:
            with out.span("header"):
                out.uint(int(mask is not None), 1)
                if self.p < 1:
                    out.uint(round_seed, 32)
        integers &= (1 << self.modulus) - 1
        out.uints(integers.astype(np.uint64), self.modulus)
        decoded = self.mean_of_sum(integers, 1, update, round_seed)
        if self.p == 1:
            return {name: SentTensor(x, ALL, x.shape) for name, x in decoded.items()}, {}
        sent = {}
        for name, indices in split_places(places, update).items():
            where, x = torch.from_numpy(indices), decoded[name]
            sent[name] = SentTensor(x.flatten()[where], where, x.shape)
        return sent, {}

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        message = self.read_integers(bits, template)
        return self.mean_of_sum(message.integers, 1, template, message.round_seed)

    def read_integers(self, bits: BitReader, template: Tensors) -> "MaskedMessage":
        """A message's integers, whether these have a mask, and which entries they are of."""
        entries, masked, round_seed = sum(x.numel() for x in template.values()), False, 0
        if entries:
            with bits.span("header"):
                masked, round_seed = bool(bits.uint(1)), bits.uint(32) if self.p < 1 else 0
        integers = bits.uints(self.integer_count(entries), self.modulus).astype(np.int64)
        if self.p < 1:
            parts = split_places(self.places(round_seed, entries), template)
            bits.sent |= {name: part.size for name, part in parts.items()}
        return MaskedMessage(masked, round_seed, integers)

    def integers(self, values: np.ndarray, seed: int) -> np.ndarray:
        """q, the integers of values before any mask."""
        clipped = np.clip(values, -self.clip, self.clip) / self.step
        noise = words(tensor_seed(seed, 0), np.arange(values.size)) / 2.0**32
        rounded = np.floor(clipped + noise).astype(np.int64)
        return np.asarray(np.clip(rounded, -self.largest, self.largest))

    def mean_of_sum(
        self, total: np.ndarray, clients: int, template: Tensors, round_seed: int = 0
    ) -> dict[str, Tensor]:
        """The mean update of so many clients, of the sum of their integers modulo 2^modulus.

        With ``weight`` the last sum, of their weights, takes the place of ``clients``.
        """
        half, entries = 1 << self.modulus - 1, sum(x.numel() for x in template.values())
        if self.weight and total.size:
            clients = max(1, int(total[-1]) & 2 * half - 1)
            total = total[:-1]
        signed = (total + half & 2 * half - 1) - half
        flat = np.zeros(entries, np.float32)
        scale = entries / max(1, signed.size)
        flat[self.places(round_seed, entries)] = signed * self.step / clients * scale
        return unflatten(torch.from_numpy(flat), template)


class MaskedMessage(NamedTuple):
    """A message as it was read; ``round_seed``: the round's seed, 0 where all entries travel."""

    masked: bool
    round_seed: int
    integers: np.ndarray


def flattened(update: Tensors) -> np.ndarray:
    """The entries of all tensors one after the other, in float64."""
    parts = [x.detach().double().flatten().numpy() for x in update.values()]
    return np.concatenate([np.zeros(0), *parts])
