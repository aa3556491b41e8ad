"""Cosine transforms of tiles, and DeMo: by the definition and by the paper's algorithm."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import ALL, BitWriter, SentTensor, compress, decompress, parse, text
from compressors.contrib import dct
from compressors.contrib.dct import Cosine
from compressors.kernels.cosine import basis
from tests.support.generators import same_bits


def normal(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(8))


def slowly(x: np.ndarray) -> np.ndarray:
    """The orthonormal DCT-II of both axes of one tile, from its formula."""
    for axis in range(2):
        n = x.shape[axis]
        i, k = np.arange(n), np.arange(n)[:, None]
        turned = np.tensordot(np.cos(np.pi * (2 * i + 1) * k / (2 * n)), x, (1, axis))
        scale = np.where(np.arange(n) == 0, math.sqrt(1 / n), math.sqrt(2 / n))
        x = np.moveaxis(turned * scale[:, None], 0, axis)
    return x


def coefficients(x: Tensor, size: int) -> np.ndarray:
    """What the codec hands on, tile after tile."""
    flat = x.numpy().reshape(x.shape[0], -1) if x.dim() > 1 else x.numpy().reshape(1, -1)
    rows, columns = flat.shape
    return np.concatenate(
        [
            slowly(flat[a : a + size, b : b + size].astype(np.float64)).ravel()
            for a in range(0, rows, min(size, rows))
            for b in range(0, columns, min(size, columns))
        ]
    )


@pytest.mark.parametrize("shape", [(8, 8), (9, 20), (16,), (37,), (3, 4, 5), (1, 1), ()])
@pytest.mark.parametrize("size", [1, 4, 8])
def test_it_is_the_definition(shape: tuple[int, ...], size: int) -> None:
    """What the codec is handed, tile after tile, and the way back."""
    x = normal(*shape)
    codec = parse(f"dct({size}, float32)").codec
    turned = codec._turn(x.reshape(-1), x.shape, False).numpy()
    assert np.allclose(turned, coefficients(x, size), atol=1e-5)
    back = codec._turn(torch.from_numpy(turned), x.shape, True)
    assert np.allclose(back.numpy(), x.numpy().ravel(), atol=1e-5)


def test_rows_of_the_basis_are_orthonormal() -> None:
    for size in (1, 2, 5, 64):
        assert np.allclose(basis(size) @ basis(size).T, np.eye(size), atol=1e-12)


def test_the_error_has_the_inner_codecs_size() -> None:
    x = normal(40, 30)
    packet, _ = compress(parse("dct(8, topk(0.1) | float32)"), {"w": x})
    one = packet.sent["w"]
    kept, error = one.decoded.square().sum(), (x - one.decoded).square().sum()
    assert one.indices is ALL and packet.spans["values"] == 32 * 120
    assert math.isclose(float(kept + error), float(x.square().sum()), rel_tol=1e-4)
    got = decompress(parse("dct(8, topk(0.1) | float32)"), packet.payload, {"w": x})
    assert same_bits(got, {"w": one.decoded})


def test_what_leaves_float32_saturates() -> None:
    huge = torch.full((64, 64), torch.finfo(torch.float32).max)
    sent = compress(parse("dct(64, float32)"), {"w": huge})[0].sent["w"].decoded
    assert bool(torch.isfinite(sent).all())


def test_demo_is_algorithm_1() -> None:
    """m = beta m + update; the largest coefficients of every tile of m are sent, and leave m."""
    beta, state, memory = 0.9, None, torch.zeros(16, 24, dtype=torch.float64)
    method, drawn = parse("demo(0.1, 0.9, 8)"), torch.Generator().manual_seed(2)
    for _ in range(5):
        update = torch.randn(16, 24, generator=drawn)
        packet, state = compress(method, {"w": update}, state)
        memory = beta * memory + update
        sent = torch.zeros_like(memory)
        for a in range(0, 16, 8):
            for b in range(0, 24, 8):
                tile = slowly(memory[a : a + 8, b : b + 8].numpy())
                least = np.sort(np.abs(tile).ravel())[-6]  # 6 of 64
                kept = np.where(np.abs(tile) >= least, tile, 0)
                sent[a : a + 8, b : b + 8] = torch.from_numpy(basis(8).T @ kept @ basis(8))
        assert torch.allclose(packet.sent["w"].decoded.double(), sent, atol=1e-5)
        memory -= sent
    assert text(parse("demo(0.1)")) == (
        "ef(per_tensor(dct(64, chunk_topk(0.1) | float32 | golomb)), 0.999)"
    )


@pytest.mark.parametrize("bad", ["dct(0, float32)", "dct(257, float32)", "dct(8, raw)"])
def test_bad_settings(bad: str) -> None:
    with pytest.raises(ValueError, match="dct(: size is| takes a codec)"):
        parse(bad)


def test_of_zeros_nothing_is_sent_and_the_places_are_where_the_tensor_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU a residual takes them away there."""

    def nothing(codec: Any, x: Tensor, out: BitWriter, seed: int) -> SentTensor:
        return SentTensor(x.new_empty(0), x.new_empty(0, dtype=torch.int64), x.shape)

    monkeypatch.setattr(Cosine, "_turn", lambda self, x, *given: x)  # by the CPU
    monkeypatch.setattr(dct, "write_tensor", nothing)
    x = torch.zeros(3, 4, device="meta")
    sent = parse("dct(2, float32)").codec.write(x, BitWriter(), 0)
    assert sent.indices.device == sent.values.device == x.device
