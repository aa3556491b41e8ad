"""Fixed-point integers modulo a power of two, to which secure aggregation adds masks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State, Tensors, tensor_seed
from compressors.bits import BitReader, BitWriter
from compressors.errors import UpdateError
from compressors.kernels.noise import words
from compressors.printing import shown
from compressors.settings import check_whole, plain
from compressors.whole.memory import unnest

MASK = "mask"
"""In the memory: the mask of the next message, an integer for each entry of the update."""


@dataclass(frozen=True)
class MaskedIntegers:
    """Integers of ``bits`` bits plus a mask, modulo 2**``modulus``: only their sum tells anything.

        q_i = floor(min(max(x_i, -c), c) / s + v_i),  s = c / (2^(bits - 1) - 1)
        y_i = (q_i + m_i) mod 2^modulus

    c is ``clip``, v_i uniform noise in [0, 1), and m the mask, which follows from the memory: 0
    where that holds none. So within the clip s q is unbiased, and 0 stays 0. The message is a bit
    that says whether there is a mask, and y in ``modulus`` bits an entry. It decodes to s times y,
    where y from 2^(modulus - 1) on counts as y - 2^modulus: with a mask, to uniform noise. Masks
    come from the client's half of strategy ``secagg``, whose server adds up integers; every other
    strategy refuses this method.

    Source: Bonawitz et al. 2017 (https://doi.org/10.1145/3133956.3133982), Section 4; fixed point
    with a clip as in Bonawitz et al. 2019 (https://arxiv.org/abs/1912.00131), Section 3.

    Args:
        bits: of a client's integer, 2 to 24.
        clip: c, in units of the update, above 0.
        modulus: bits of an integer that travels, ``bits`` to 32. The sum of m clients needs
            m (2^bits - 2) < 2^modulus.

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
    server: ClassVar[str] = "secagg"  # see compressors.whole.keepers
    keeps: ClassVar[tuple[str, ...]] = (MASK,)  # see compressors.whole.whose
    needs_seed: ClassVar[bool] = False
    bits: int
    clip: float
    modulus: int = 32

    def __post_init__(self) -> None:
        plain(self)
        check_whole("secagg: bits", self.bits, 2, 24)
        check_whole("secagg: modulus", self.modulus, self.bits, 32)
        number = isinstance(self.clip, int | float) and not isinstance(self.clip, bool)
        if not number or not 1e-30 <= self.clip <= 1e30:
            raise ValueError(f"secagg: clip is {shown(self.clip)}: 1e-30 <= clip <= 1e30")

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
        return (2 * self.largest * clients).bit_length()

    def init(self, template: Tensors) -> State:
        """Nothing: no mask, until somebody says one."""
        return {}

    def write(
        self, update: Tensors, state: State, out: BitWriter, seed: int
    ) -> tuple[Sent, State]:
        """See ``Compressor.write``; the mask is used up, ``UpdateError`` for one of other size."""
        integers = self.integers(update, seed)
        mask = unnest(MASK, state).get(MASK)
        if mask is not None:
            if mask.shape != integers.shape:
                entries = tuple(mask.shape)
                raise UpdateError(f"secagg: a mask of {entries} entries for {len(integers)}")
            integers += mask.cpu().numpy()
        if integers.size:
            with out.span("header"):
                out.uint(int(mask is not None), 1)
        integers &= (1 << self.modulus) - 1
        out.uints(integers.astype(np.uint64), self.modulus)
        decoded = self.split(self._signed(integers) * self.step, update)
        return {name: SentTensor(x, ALL, x.shape) for name, x in decoded.items()}, {}

    def read(self, bits: BitReader, template: Tensors, seed: int) -> dict[str, Tensor]:
        """See ``Compressor.read``."""
        _, integers = self.read_integers(bits, template)
        return self.split(self._signed(integers) * self.step, template)

    def read_integers(self, bits: BitReader, template: Tensors) -> tuple[bool, np.ndarray]:
        """Whether a message has a mask, and its integers, 0 to 2^modulus - 1, of all tensors."""
        entries, masked = sum(x.numel() for x in template.values()), False
        if entries:
            with bits.span("header"):
                masked = bool(bits.uint(1))
        return masked, bits.uints(entries, self.modulus).astype(np.int64)

    def integers(self, update: Tensors, seed: int) -> np.ndarray:
        """q, the integers of an update before any mask, of all tensors one after the other."""
        rounded = [np.zeros(0, np.int64)]
        for i, x in enumerate(update.values()):
            values = x.detach().cpu().double().flatten().numpy()
            values = np.clip(values, -self.clip, self.clip) / self.step
            noise = words(tensor_seed(seed, i), np.arange(values.size)) / 2.0**32
            integers = np.floor(values + noise).astype(np.int64)
            rounded.append(np.clip(integers, -self.largest, self.largest))
        return np.concatenate(rounded)

    def mean_of_sum(self, total: np.ndarray, clients: int, template: Tensors) -> dict[str, Tensor]:
        """The mean update of so many clients, of the sum of their integers modulo 2^modulus."""
        return self.split(self._signed(total) * self.step / clients, template)

    def _signed(self, integers: np.ndarray) -> np.ndarray:
        half = 1 << self.modulus - 1
        return np.asarray((integers + half & 2 * half - 1) - half)

    def split(self, values: np.ndarray, template: Tensors) -> dict[str, Tensor]:
        """Values of all tensors as float32 tensors like ``template``."""
        flat = torch.from_numpy(values.astype(np.float32))
        parts = flat.split([x.numel() for x in template.values()])
        return {
            name: part.view(x.shape).to(x.device)
            for (name, x), part in zip(template.items(), parts, strict=True)
        }
