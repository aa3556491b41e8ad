"""Bits written on a GPU: Rice codes, fields and planes, as the compiled loops write them."""

import numpy as np
import pytest
import torch

from compressors.bits import BitWriter
from compressors.kernels import rice
from compressors.kernels.gpu.stream import CODES, Rice, put_fields_gpu, put_plane, stream, to_bytes
from tests.support.gpu import DEVICE, needs_triton, there

pytestmark = needs_triton
RNG = np.random.default_rng(3)


def some(n: int, k: int) -> np.ndarray:
    return np.sort(RNG.choice(n, k, replace=False)).astype(np.int64)


def written_rice(positions: list[np.ndarray], low: list[int], offset: int) -> tuple[bytes, bytes]:
    """The codes by the kernels from bit ``offset`` on, and by the compiled loop."""
    out = BitWriter()
    out.uint(1, offset)
    for indices, b in zip(positions, low, strict=True):
        room = int(rice.count_rice_bits(indices, b))
        out.reserve(room)
        out.position = rice.encode_rice(indices, b, out.words, out.position)
    most = tuple(indices.size for indices in positions)
    chosen, origins, found, widths = there(
        np.concatenate(positions), np.cumsum((0, *most[:-1])), most, low
    )
    code = Rice(chosen, origins, found, widths, most)
    words = stream(out.position, DEVICE)
    put_fields_gpu(words, *there([0], [1], [offset]))
    code.write(words, torch.cumsum(code.bits, 0) - code.bits + offset)
    return to_bytes(words.cpu().numpy(), out.position), out.to_bytes()


@pytest.mark.parametrize("offset", [1, 32])
def test_rice_codes_of_many_tensors(offset: int) -> None:
    positions = [some(90, 4), np.arange(6), some(9000, CODES + 1), some(50, 0), some(8, 1)]
    found, expected = written_rice(positions, [3, 0, 2, 5, 30], offset)
    assert found == expected


def test_long_runs_of_ones_and_wide_remainders() -> None:
    positions = [np.array([0, 31, 63, 96, 200, 1100]), np.array([1 << 30, (1 << 31) - 2])]
    found, expected = written_rice(positions, [0, 31], 5)
    assert found == expected


def test_fewer_positions_than_there_is_room_for() -> None:
    chosen, origins, found, low = there([4, 9, -7, -7, 2, -7], [0, 4], [2, 1], [2, 1])
    code = Rice(chosen, origins, found, low, (4, 2))
    assert code.bits.tolist() == [
        int(rice.count_rice_bits(np.array([4, 9]), 2)),
        int(rice.count_rice_bits(np.array([2]), 1)),
    ]


def test_fields_of_no_bit_to_sixty_four() -> None:
    widths = [1, 0, 64, 33, 31, 2, 7]
    values = [1, 0, (1 << 63) + 5, (1 << 33) - 3, 12345, 2, 100]
    out = BitWriter()
    for value, width in zip(values, widths, strict=True):
        out.uint(value, width)
    words = stream(out.position, DEVICE)
    signed = np.array(values, np.uint64).view(np.int64)
    put_fields_gpu(words, *there(np.cumsum(widths) - widths, signed, widths))
    assert to_bytes(words.cpu().numpy(), out.position) == out.to_bytes()


@pytest.mark.parametrize(
    ("width", "low", "dtype"),
    [
        (1, 0, torch.uint8),
        (3, 0, torch.uint8),
        (8, 0, torch.uint8),
        (1, 8, torch.int16),
        (8, 0, torch.int16),
        (16, 0, torch.int32),
        (32, 0, torch.int32),
    ],
)
def test_planes_of_symbols(width: int, low: int, dtype: torch.dtype) -> None:
    sizes = (1, 40, 2100, 0, 64)
    wide = 8 * torch.empty(0, dtype=dtype).element_size()
    kind = f"u{wide // 8}"
    parts = [RNG.integers(0, 1 << min(wide, width + low), n).astype(kind) for n in sizes]
    out, begins = BitWriter(), []
    out.uint(1, 3)
    for part in parts:
        begins.append(out.position)
        out.uints(part, width, low)
    words = stream(out.position, DEVICE)
    put_fields_gpu(words, *there([0], [1], [3]))
    whole = np.concatenate(parts).view(kind.replace("u", "u" if wide == 8 else "i"))
    codes = torch.from_numpy(whole).to(DEVICE)
    origins, found, starts = there(np.cumsum((0, *sizes[:-1])), sizes, begins)
    put_plane(codes, origins, found, words, starts, sizes, width, low)
    assert to_bytes(words.cpu().numpy(), out.position) == out.to_bytes()
