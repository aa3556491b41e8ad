"""Cosine transforms of tiles, and DeMo: by the definition and by the paper's algorithm."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse, text
from compressors.base import nominal_count


def basis(n: int) -> np.ndarray:
    """The orthonormal DCT-II from its formula: row k has frequency k."""
    i, k = np.arange(n), np.arange(n)[:, None]
    scale = np.where(k == 0, math.sqrt(1 / n), math.sqrt(2 / n))
    return scale * np.cos(np.pi * (2 * i + 1) * k / (2 * n))


def tiles(x: np.ndarray, size: int) -> list[tuple[slice, slice]]:
    rows, columns = (min(size, n) for n in x.shape)
    return [
        (slice(a, a + rows), slice(b, b + columns))
        for a in range(0, x.shape[0], rows)
        for b in range(0, x.shape[1], columns)
    ]


@pytest.mark.parametrize("shape", [(8, 8), (9, 20), (16,), (37,), (3, 4, 5), (1, 1), ()])
@pytest.mark.parametrize("size", [1, 4, 8])
def test_it_is_the_definition(shape: tuple[int, ...], size: int) -> None:
    """The largest quarter of all coefficients, tile after tile, and the way back."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(8))
    flat = x.double().numpy().reshape(shape[0] if len(shape) > 1 else 1, -1)
    turned = np.zeros_like(flat)
    for tile in tiles(flat, size):
        part = flat[tile]
        turned[tile] = basis(part.shape[0]) @ part @ basis(part.shape[1]).T
    least = np.sort(np.abs(turned).ravel())[-nominal_count(0.25, x.numel())]
    turned[np.abs(turned) < least] = 0
    for tile in tiles(flat, size):
        part = turned[tile]
        turned[tile] = basis(part.shape[0]).T @ part @ basis(part.shape[1])
    sent = compress(parse(f"dct({size}, topk(0.25) | float32)"), {"w": x})[0].sent["w"]
    assert np.allclose(sent.decoded.numpy().reshape(flat.shape), turned, atol=1e-5)


def test_demo_is_algorithm_1() -> None:
    """m = beta m + update; the largest coefficients of every tile of m are sent, and leave m."""
    beta, state, memory = 0.9, None, np.zeros((16, 24))
    method, drawn = parse("demo(0.1, 0.9, 8)"), torch.Generator().manual_seed(2)
    for _ in range(5):
        update: Tensor = torch.randn(16, 24, generator=drawn)
        packet, state = compress(method, {"w": update}, state)
        memory = beta * memory + update.double().numpy()
        sent = np.zeros_like(memory)
        for tile in tiles(memory, 8):
            turned = basis(8) @ memory[tile] @ basis(8).T
            least = np.sort(np.abs(turned).ravel())[-6]  # 6 of 64
            kept = np.where(np.abs(turned) >= least, turned, 0)
            sent[tile] = basis(8).T @ kept @ basis(8)
        assert np.allclose(packet.sent["w"].decoded.numpy(), sent, atol=1e-5)
        memory -= sent
    assert text(parse("demo(0.1)")) == (
        "ef(per_tensor(dct(64, chunk_topk(0.1) | float32 | golomb)), 0.999)"
    )
