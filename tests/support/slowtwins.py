"""What compiled loops compute, once more in torch: slow, and plain to read."""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from compressors.kernels import select
from compressors.kernels.hadamard import block_sizes
from compressors.kernels.noise import words
from compressors.sparsify.sampled import MAX_OVERSHOOT

LARGEST = float(np.finfo(np.float32).max)


def keys_torch(x: Tensor, side: int) -> Tensor:
    """The integer keys (n,) int32 of flat ``x`` (float32), as in ``kernels.select``."""
    bits = x.detach().view(torch.int32)
    return (bits & 0x7FFFFFFF, bits, bits ^ -(1 << 31))[side]


def largest_torch(x: Tensor, k: int, side: int) -> Tensor:
    """The twin of ``kernels.select.largest_of_segments``."""
    key = keys_torch(x, side)
    k = min(k, int((key > 0).sum()))
    if k == 0:
        return torch.empty(0, dtype=torch.int64)
    edge = torch.topk(key, k).values[-1]
    above = key > edge
    at_edge = (key == edge).nonzero().flatten()[: k - int(above.sum())]
    above[at_edge] = True
    return above.nonzero().flatten()


def above_sampled_torch(x: Tensor, k: int, threshold: Tensor) -> Tensor:
    """The twin of ``sparsify.sampled.above_sampled``."""
    key = keys_torch(x, select.MAGNITUDE)
    indices = ((key >= threshold) & (key > 0)).nonzero().flatten()
    if indices.numel() > MAX_OVERSHOOT * k:
        return largest_torch(x, k, select.MAGNITUDE)
    return indices


def energies_torch(x: Tensor, b: int) -> Tensor:
    """The twin of ``kernels.energy.energies``."""
    n = x.numel()
    units, width = -(-n // b), 1
    while width < b:
        width *= 2
    squares = pad(x, (0, units * b - n)).view(units, b).double().square()
    squares = pad(squares, (0, width - b))
    while width > 1:
        width //= 2
        squares = squares[:, :width] + squares[:, width:]
    return squares.flatten()


def two_means_torch(values: Tensor, counts: Tensor) -> Tensor:
    """The twin of ``kernels.sign.sign_means``; sums in another order."""
    wide = values.double()
    sides = [wide >= 0, wide < 0]
    sums = [_sums(wide * side, counts) for side in sides]
    many = [_sums(side.double(), counts).clamp(min=1) for side in sides]
    return torch.stack([s / n for s, n in zip(sums, many, strict=True)], 1).float()


def _sums(values: Tensor, counts: Tensor) -> Tensor:
    if not counts.numel():  # which torch refuses
        return values.new_zeros(0)
    return torch.segment_reduce(values, "sum", lengths=counts)


def rotate_torch(x: Tensor, seed: int, back: bool) -> Tensor:
    """The twin of ``rotate``."""
    coins = words(seed, np.arange(x.numel())) >> np.uint32(31)
    signs = 1.0 - 2.0 * torch.from_numpy(coins.astype(np.float64))
    work = x.double() if back else x.double() * signs
    blocks = []
    for block in work.split(block_sizes(x.numel())):
        h = 1
        while h < block.numel():
            pairs = block.view(-1, 2, h)
            low, high = pairs[:, 0], pairs[:, 1]
            block = torch.stack([low + high, low - high], 1).flatten()
            h *= 2
        blocks.append(block * (1.0 / math.sqrt(block.numel())))
    work = torch.cat(blocks) * signs if back else torch.cat(blocks)
    return (work.clamp(-LARGEST, LARGEST) + 0.0).float()


def product_torch(p: Tensor, q: Tensor) -> Tensor:
    """The twin of ``product``."""
    total = p[0, :, None] * q[0]
    for k in range(1, p.shape[0]):
        total += p[k, :, None] * q[k]
    return total


def powers_torch(values: Tensor, seed: int | None, lowest: int = 1, highest: int = 254) -> Tensor:
    """Magnitudes as bits (int64) of the powers that float32 ``values`` (k,) are rounded to.

    Random ones with a ``seed``, the nearest without one. The twin of ``kernels.natural``.
    """
    magnitude = values.view(torch.int32).long() & 0x7FFFFFFF
    floor = lowest << 23
    if seed is None:
        power = (magnitude + (1 << 22)) & 0x7F800000
        rises = magnitude >= (floor - (1 << 22 if lowest == 1 else 1 << 23))
    else:
        word = torch.from_numpy(words(seed, np.arange(values.numel())).astype(np.int64))
        power = (magnitude + (word & 0x7FFFFF)) & 0x7F800000
        rises = word.double() + 0.5 < values.abs().double() * math.ldexp(1.0, 159 - lowest)
        if lowest == 1:
            rises = power > 0
    power = power.clamp(max=highest << 23)
    return torch.where(magnitude < floor, rises * floor, power)


def codes_torch(values: Tensor, seed: int | None, lowest: int, highest: int, sign: int) -> Tensor:
    """The codes (int64) of ``values`` (k,): the twin of the kernels."""
    exponent = powers_torch(values, seed, lowest, highest) >> 23
    field = torch.where(exponent >= lowest, exponent - (lowest - 1), 0)
    return (torch.signbit(values).long() << sign) | field


def decode_torch(codes: Tensor, lowest: int, sign: int) -> Tensor:
    """The float32 numbers that ``codes`` (k,), unsigned, mean: the twin of ``decode_powers``."""
    codes = codes.long() & ((2 << sign) - 1)
    field = codes & ((1 << sign) - 1)
    power = torch.where(field > 0, field + (lowest - 1), 0) << 23
    bits = power - ((codes >> sign) << 31)  # -2**31 is the sign's bit of an int32
    return bits.to(torch.int32).view(torch.float32)
