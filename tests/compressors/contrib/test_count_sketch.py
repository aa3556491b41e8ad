"""The count sketch beside a slow twin, entry by entry, and the message that holds its table."""

import struct
from statistics import median

import numpy as np
import pytest
import torch

from compressors import BitReader, PayloadError, compress, decompress, parse
from compressors.base import tensor_seed
from compressors.contrib.count_sketch import CountSketch
from compressors.kernels.noise import words

HASH = 0x5CE7C4
"""The seed of every sender's cells and signs."""


def drawn(n: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def cell(row: int, i: int, columns: int) -> tuple[int, int]:
    """The upper 31 bits of a word choose the cell, the lowest one the sign."""
    word = int(words(tensor_seed(HASH, row), np.array([i]))[0])
    return (word >> 1) * columns >> 31, 1 - 2 * (word & 1)


@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_it_is_its_slow_twin(rows: int) -> None:
    """Of an even number of rows the median is the mean of the middle two."""
    x, codec = drawn(200), CountSketch(0.05, rows, 16)
    table = np.zeros((rows, 16))
    for row in range(rows):
        for i, value in enumerate(x.tolist()):
            place, sign = cell(row, i, 16)
            table[row, place] += value * sign
    table = table.astype(np.float32)
    assert torch.equal(codec.sketch(x), torch.from_numpy(table))
    estimates = []
    for i in range(200):
        seen = [cell(row, i, 16) for row in range(rows)]
        estimates.append(median(float(table[r, place]) * s for r, (place, s) in enumerate(seen)))
    found = codec.estimates(codec.sketch(x), 200)
    assert torch.equal(found, torch.tensor(estimates))
    kept = sorted(sorted(range(200), key=lambda i: -abs(found[i]))[:10])
    sent = compress(parse(f"count_sketch(0.05, {rows}, 16)"), {"w": x})[0].sent["w"]
    assert sent.indices.tolist() == kept


def test_the_message_is_the_table_for_any_size() -> None:
    method = parse("fetchsgd(0.01, 5, 60)")
    for n in (10, 10_000):
        packet, state = compress(method, {"a": drawn(n), "b": drawn(3)})
        assert packet.spans["values"] == 32 * 5 * 60 and not state
        codec = CountSketch(0.01, 5, 60)
        bits = BitReader(packet.payload)
        bits.uint(24)  # the header
        table = codec.read_table(bits)
        assert torch.equal(table, codec.sketch(torch.cat([drawn(n), drawn(3)])))


def test_sums_that_float32_does_not_hold() -> None:
    method = parse("count_sketch(0.5, 1, 1)")
    signs = torch.tensor([float(cell(0, i, 1)[1]) for i in range(4)])
    packet, _ = compress(method, {"w": 3e38 * signs})  # all of them add up
    most = torch.finfo(torch.float32).max
    assert packet.sent["w"].decoded.abs().tolist() == [most, most, 0, 0]
    both = CountSketch(1.0, 2, 1).estimates(torch.full((2, 1), most), 40)
    assert bool(torch.isfinite(both).all())  # of the middle two, too
    payload = compress(method, {"w": torch.ones(4)})[0].payload
    bad = payload[:3] + struct.pack(">f", float("inf")) + payload[7:]
    with pytest.raises(PayloadError):
        decompress(method, bad, {"w": torch.ones(4)})
