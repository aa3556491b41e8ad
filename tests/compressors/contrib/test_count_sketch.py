"""The count sketch: a slow twin, linearity, heavy entries, and what theory says of its errors."""

import struct

import numpy as np
import pytest
import torch

from compressors import PayloadError, compress, decompress, parse
from compressors.base import tensor_seed
from compressors.contrib.count_sketch import _HASH, CountSketch
from compressors.kernels.noise import words
from compressors.message import contents


def drawn(n: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed))


def slow_table(x: list[float], rows: int, columns: int) -> list[list[float]]:
    """Entry by entry: the upper 31 bits of a word choose the cell, the lowest one the sign."""
    table = [[0.0] * columns for _ in range(rows)]
    for row in range(rows):
        for i, value in enumerate(x):
            word = int(words(tensor_seed(_HASH, row), np.array([i]))[0])
            table[row][(word >> 1) * columns >> 31] += value * (1 - 2 * (word & 1))
    return table


def test_it_is_its_slow_twin() -> None:
    x, codec = drawn(200), CountSketch(0.05, 3, 16)
    table = slow_table(x.tolist(), 3, 16)
    assert torch.equal(codec.sketch(x), torch.tensor(table, dtype=torch.float64).float())
    estimates = []
    for i in range(200):
        seen = []
        for row in range(3):
            word = int(words(tensor_seed(_HASH, row), np.array([i]))[0])
            cell = np.float32(table[row][(word >> 1) * 16 >> 31])
            seen.append(float(cell) * (1 - 2 * (word & 1)))
        estimates.append(sorted(seen)[1])
    assert torch.equal(codec.estimates(codec.sketch(x), 200), torch.tensor(estimates))
    kept = sorted(sorted(range(200), key=lambda i: -abs(estimates[i]))[:10])
    sent = compress(parse("count_sketch(0.05, 3, 16)"), {"w": x})[0].sent["w"]
    assert sent.indices.tolist() == kept


def test_what_is_large_in_the_sum_alone_is_found_there() -> None:
    """FetchSGD's point: twenty clients, each with 0.4 of noise and 0.5 at the same three places."""
    codec, places = CountSketch(3 / 2000, 5, 1000), [5, 700, 1999]
    tables, alone = [], []
    for client in range(20):
        x = 0.4 * drawn(2000, client)
        x[places] += 0.5
        tables.append(codec.sketch(x))
        alone.append(codec.unsketch(tables[-1], 2000)[0].tolist())
    chosen, values = codec.unsketch(sum(tables) / 20, 2000)
    assert chosen.tolist() == places and torch.allclose(values, torch.full((3,), 0.5), atol=0.3)
    assert places not in alone


def test_heavy_entries_are_recovered() -> None:
    """Entries with x_i^2 >= tau ||x||^2 are found by O(1 / tau) columns (the paper's section 3)."""
    x = 0.01 * drawn(10_000)
    heavy = torch.tensor([3, 50, 777, 5000, 9999])
    x[heavy] = torch.tensor([1.0, -1.0, 2.0, -2.0, 1.5])
    chosen, values = CountSketch(5 / 10_000, 5, 200).unsketch(
        CountSketch(5 / 10_000, 5, 200).sketch(x), 10_000
    )
    assert torch.equal(chosen, heavy) and torch.allclose(values, x[heavy], atol=0.35)


def test_one_row_is_right_in_the_mean_and_its_variance_is_known() -> None:
    """E (estimate - x)^2 = (||x||^2 - x_i^2) / columns, over entries with the cells as they are."""
    x, codec = drawn(100_000), CountSketch(0.1, 1, 500)
    error = codec.estimates(codec.sketch(x), x.numel()) - x
    expected = float(x.square().sum()) / 500
    assert abs(float(error.mean())) < 0.3
    assert float(error.square().mean()) == pytest.approx(expected, rel=0.1)


def test_the_message_is_the_table_whatever_the_size() -> None:
    method = parse("fetchsgd(0.01, 5, 60)")
    for n in (10, 10_000):
        packet, state = compress(method, {"a": drawn(n), "b": drawn(3)})
        assert packet.spans["values"] == 32 * 5 * 60 and not state
        codec = CountSketch(0.01, 5, 60)
        table = codec.read_table(contents(method, packet.payload))
        assert torch.equal(table, codec.sketch(torch.cat([drawn(n), drawn(3)])))


@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("count_sketch(0)", "count_sketch: p is 0"),
        ("count_sketch(0.1, 0)", "count_sketch: rows is 0"),
        ("count_sketch(0.1, 64)", "count_sketch: rows is 64"),
        ("fetchsgd(0.1, 5, 0)", "count_sketch: columns is 0"),
    ],
)
def test_it_is_refused(method: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse(method)


def test_sums_that_float32_does_not_hold() -> None:
    method = parse("count_sketch(0.5, 1, 1)")
    packet, _ = compress(method, {"w": 3e38 * slow_signs(4)})  # all of them add up
    most = torch.finfo(torch.float32).max
    assert packet.sent["w"].decoded.abs().tolist() == [most, most, 0, 0]
    payload = compress(method, {"w": torch.ones(4)})[0].payload
    bad = payload[:3] + struct.pack(">f", float("inf")) + payload[7:]
    with pytest.raises(PayloadError):
        decompress(method, bad, {"w": torch.ones(4)})


def slow_signs(n: int) -> torch.Tensor:
    """The signs of n entries in the only row."""
    noise = words(tensor_seed(_HASH, 0), np.arange(n)) & np.uint32(1)
    return torch.from_numpy(1.0 - 2.0 * noise.astype(np.float32))
