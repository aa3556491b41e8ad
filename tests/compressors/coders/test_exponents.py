"""Lossless floats: every pattern of bits comes back, and exponents cost their entropy."""

import math

import numpy as np
import torch

from compressors import compress, parse


def test_it_costs_24_bits_and_the_exponents_entropy() -> None:
    x = torch.randn(50_000, generator=torch.Generator().manual_seed(2))
    packet, _ = compress(parse("float32 | exponents"), {"w": x})
    assert torch.equal(packet.sent["w"].decoded, x)
    counts = np.unique(x.numpy().view(np.uint32) >> 23 & 255, return_counts=True)[1]
    shares = counts / counts.sum()
    entropy = -float((shares * np.log2(shares)).sum())
    found = packet.spans["values"] / x.numel()
    assert math.isclose(found, 24 + entropy, rel_tol=2e-3) and found < 27
