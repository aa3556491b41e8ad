"""Threads that flush denormals to zero, and kernels that are handed what they cannot write."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from compressors import CATALOGUE, BitWriter, PartError, compress, decompress, parse
from compressors.kernels import select
from compressors.kernels.compact import rises
from compressors.kernels.sign import signs
from compressors.sparsify.threshold import reaching
from tests.support.generators import METHODS, same_bits, whole_numbers

TINY = 2.0**-149
CODES = [row.name for row in CATALOGUE.values() if hasattr(row.make, "write_positions")]
SAME_ROOM = {"bloom", "fixed", "index_huffman", "raw32"}
"""Position codes that take the same room whatever the positions are: nothing to refuse."""


@pytest.fixture
def flushing() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush denormals")
    yield
    torch.set_flush_denormal(False)


def update() -> dict[str, torch.Tensor]:
    """Zeros among ordinary values, tensors that fill no chunk, and no denormal."""
    zeros = whole_numbers(6000, 1).reshape(60, 100)
    zeros[zeros.abs() < 1500] = 0.0
    return {"w": zeros / 64, "b": whole_numbers(37, 2) / 64, "z": torch.zeros(11)}


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_no_byte_depends_on_flushing(method: str) -> None:
    """Three messages of a sender, the memory of each the next one's."""
    compressor, found = parse(method), []
    for flush in (False, True):
        torch.set_flush_denormal(flush)
        try:
            memory, payloads = None, []
            for seed in range(3):
                packet, memory = compress(compressor, update(), memory, seed)
                got = decompress(compressor, packet.payload, update())
                assert same_bits(got, {key: one.decoded for key, one in packet.sent.items()})
                payloads.append(packet.payload)
        finally:
            torch.set_flush_denormal(False)
        found.append(payloads)
    assert found[0] == found[1]


@pytest.mark.parametrize("n", [1, 9, 4095, 4097, 50_000])
@pytest.mark.parametrize("side", [select.MAGNITUDE, select.POSITIVE, select.NEGATIVE])
def test_zeros_and_padding_are_never_selected(flushing: None, n: int, side: int) -> None:
    for x in (np.zeros(n, np.float32), np.full(n, -0.0, np.float32)):
        assert select.select_largest(x, n, side).size == 0
        assert select.at_least(x, 0, side)[0].size == 0
    x = np.zeros(n, np.float32)
    x[-1] = -1.0 if side == select.NEGATIVE else 1.0
    assert select.select_largest(x, n, side).tolist() == [n - 1]


def test_denormals_are_selected_all_the_same(flushing: None) -> None:
    x = torch.tensor([1, -2, 0, 3, -(1 << 31)], dtype=torch.int32)
    x = torch.where(x == -2, x - 2**31 + 4, x).view(torch.float32)  # 1, -2 and 3 times 2**-149
    assert signs(x.numpy()) == (2, 1)
    assert reaching(x, 0.0).tolist() == [0, 1, 3]
    assert reaching(x, 2 * TINY).tolist() == [1, 3]
    assert select.select_largest(x.numpy(), 1, select.MAGNITUDE).tolist() == [3]
    assert [side.tolist() for side in select.both_sides(x.numpy(), 1, 0)] == [[3], []]
    sent = compress(parse("nonzero | float32 | bitmap"), {"w": x})[0].sent["w"]
    assert sent.indices.tolist() == [0, 1, 3]
    assert sent.values.view(torch.int32).tolist() == x[[0, 1, 3]].view(torch.int32).tolist()


def test_nan_selects_within_the_array() -> None:
    x = np.full(5000, np.nan, np.float32)
    for side in (select.MAGNITUDE, select.POSITIVE, select.NEGATIVE):
        assert rises(select.select_largest(x, 700, side), x.size)
        assert (
            select.select_largest(x, 0, side).size == select.select_largest(x, -1, side).size == 0
        )


@pytest.mark.parametrize("name", [code for code in CODES if code not in SAME_ROOM])
@pytest.mark.parametrize(
    "bad", [[5, 9, 4000], [5, 9, 1000], [-1, 3], [7, 7], [7, 5], [0, 2**40]], ids=str
)
def test_positions_that_do_not_rise_are_refused(name: str, bad: list[int]) -> None:
    """They would be written past the room that is made for positions below 1000."""
    given = CATALOGUE[name].make(*[3][: name == "shs"])
    indices = np.array(bad + list(range(2000, 2040)) if bad[-1] < 1000 else bad, np.int64)
    with pytest.raises(PartError, match="do not rise from entry 0 to entry 999"):
        given.write_positions(indices, 1000, BitWriter(), 0)


@pytest.mark.parametrize("name", ["huffman", "ans", "sh", "shs", "rlh"])
def test_symbols_outside_their_alphabet_are_refused(name: str) -> None:
    coder = CATALOGUE[name].make(*[3][: name == "shs"])
    codes = torch.full((500,), 200, dtype=torch.uint8)
    codes[3] = 1
    with pytest.raises(PartError, match="in an alphabet of 4|in an alphabet of 6"):
        coder.write_symbols(codes, 4, BitWriter())
