"""Every position coder of sorted indices: edges, lengths, formats by hand, hostile bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import (
    Auto,
    Bitmap,
    BitReader,
    BitWriter,
    Delta16,
    EliasDelta,
    EliasGamma,
    EliasOmega,
    Fixed,
    Golomb,
    PayloadError,
    Raw32,
    RunLength,
    UpdateError,
    parse,
    text,
)
from tests.support.generators import from_bits
from tests.support.looping import looped
from tests.support.positions import round_trip

TEXTS = """raw32; fixed; delta16; bitmap; rle; auto; elias_gamma; elias_delta; elias_omega; golomb;
golomb(exact); golomb(fit); golomb(0.03, exact); golomb(order=split); golomb(exact, order=split);
golomb(fit, order=split); context; huffman; ans; index_huffman; delta_huffman"""
CODES = [parse(f"topk(1) | float32 | {t}").codec.positions for t in TEXTS.split(";")]
every_code = pytest.mark.parametrize("code", CODES, ids=str)
EDGES = {
    "nothing": ([], 9),
    "one of one": ([0], 1),
    "first": ([0], 1000),
    "last": ([999], 1000),
    "both ends": ([0, 999], 1000),
    "all": (list(range(130)), 130),
    "all but the first": (list(range(1, 130)), 130),
    "all but the last": (list(range(129)), 130),
    "every other": (list(range(1, 300, 2)), 300),
    "around a word": ([62, 63, 64, 65, 127, 128], 129),
    "gaps around 16 bits": ([65533, 131068, 196604, 262141], 262142),
}
FAR = {
    "2**31 apart": ([0, 2**31 - 1], 2**31),
    "far and near": ([5, 6, 2**31 - 2, 2**31 - 1], 2**31),
    "the last of 2**31": ([2**31 - 1], 2**31),
}
DENSE = (Bitmap(), Golomb(0.03, "exact"))  # their length grows with n


@every_code
@looped("edge", EDGES)
def test_edges(code, edge: str) -> None:
    indices, n = EDGES[edge]
    for before in ("", "1", "0" * 63, "1" * 64):
        bits = round_trip(code, indices, n, before)
        assert bool(bits) <= bool(indices) and (bits or not indices or n == 1)


@every_code
@looped("edge", FAR)
def test_far_apart(code, edge: str) -> None:
    if code not in DENSE:
        round_trip(code, *FAR[edge])


@every_code
@given(st.sets(st.integers(0, 3000), max_size=80), st.integers(1, 5000), st.text("01", max_size=64))
def test_any_indices_at_any_bit(code, indices: set[int], room: int, before: str) -> None:
    round_trip(code, sorted(indices), max(indices, default=0) + room, before)


BY_HAND = [
    (Raw32(), [1, 5], 9, "0" * 31 + "1" + "0" * 29 + "101"),
    (Fixed(), [1, 5], 9, "0001 0101"),
    (Fixed(), [1, 5], 8, "001 101"),
    (Fixed(), [0], 1, ""),
    (Bitmap(), [1, 5], 9, "010001000"),
    (Delta16(), [1, 5], 9, f"{1:016b} {3:016b}"),
    (Delta16(), [65534], 65535, f"{65534:016b}"),
    (Delta16(), [65535], 65536, f"{65535:016b} {65535:016b}"),
    (Delta16(), [0, 70001], 2**17, f"{0:016b} {65535:016b} {70000:017b}"),
    (EliasGamma(), [1, 5], 9, "010 00100"),  # gaps 2 and 4
    (EliasDelta(), [1, 5], 9, "0100 01100"),
    (EliasOmega(), [1, 5], 9, "100 101000"),
    # m = 3: c = 2, one short remainder: 0 is "0", 1 is "10", 2 is "11". Gaps - 1: 1, 3, 8.
    (Golomb(0.2, "exact"), [1, 5, 14], 15, "0 10 10 0 110 11"),
    (Golomb(0.2, "exact", "split"), [1, 5, 14], 15, "0 10 110 10 0 11"),
    # k / n = 1/5: b* = 2. Gaps - 1: 1, 3, 8: "01", "11", "00".
    (Golomb(), [1, 5, 14], 15, "0 01 0 11 110 00"),
    (Golomb(order="split"), [1, 5, 14], 15, "0 0 110 01 11 00"),
    # b = 1 costs 3 * 2 + 0 + 1 + 4 = 11, b = 2 costs 3 * 3 + 2 = 11: the lower of equals.
    (Golomb("fit"), [1, 5, 14], 15, "000001 0 1 10 1 11110 0"),
    (Auto(), list(range(16)), 16, "00000110 1 000010000"),  # rle: number 6
]


@pytest.mark.parametrize(("code", "indices", "n", "bits"), BY_HAND, ids=lambda x: str(x)[:24])
def test_bits_written_by_hand(code, indices: list[int], n: int, bits: str) -> None:
    assert round_trip(code, indices, n) == bits.replace(" ", "")


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("golomb(exact)", "golomb(kind='exact')"),
        ("golomb(kind=fit, order=split)", "golomb(kind='fit', order='split')"),
        ("golomb(0.1, exact, split)", "golomb(0.1, 'exact', 'split')"),
        ("golomb(rice)", "golomb"),
        ("fixed", "fixed"),
        ("fixed | fixed", "fixed"),
        ("golomb | rle", "golomb | rle"),
        ("elias_omega | elias_delta", "elias_omega | elias_delta"),
    ],
)
def test_text(typed: str, printed: str) -> None:
    compressor = parse(f"topk(0.1) | float32 | {typed}")
    assert text(compressor) == f"per_tensor(topk(0.1) | float32 | {printed})"
    assert parse(text(compressor)) == compressor


def test_a_lone_coder_of_both_kinds_codes_positions() -> None:
    assert parse("topk(0.1) | float32 | fixed").codec.positions == Fixed()
    assert parse("topk(0.1) | float32").codec.positions == Golomb()
    assert parse("cnat | rle").codec.symbols == RunLength()


@pytest.mark.parametrize(
    ("code", "bits", "n", "k"),
    [
        (Fixed(), "0101 0001", 9, 2),  # falling
        (Fixed(), "0101 0101", 9, 2),  # twice the same
        (Fixed(), "0101 1001", 9, 2),  # 9 of 9
        (Fixed(), "", 1, 2),
        (Raw32(), "1" * 32, 9, 1),
        (Bitmap(), "010001000", 9, 1),
        (Bitmap(), "010001000", 9, 3),
        (Bitmap(), "0", 9, 1),
        (Delta16(), f"{9:016b}", 9, 1),
        (Delta16(), f"{65535:016b} {65534:017b}", 2**17, 1),  # an escape that is not needed
        (Delta16(), f"{65535:016b} {65535:016b}", 65535, 1),
        (Delta16(), f"{65535:016b}", 2**17, 1),
        (Golomb("fit"), "111111 0 1", 9, 1),  # 63 low bits
        (Golomb("fit"), "000101 00000000 0", 9, 1),  # 5 where an index has 4
        (Golomb(0.2, "exact"), "1110 0", 9, 1),  # 9 of 9
        (Golomb(0.2, "exact", "split"), "1110 0", 9, 1),
        (Auto(), "00001011 1111", 9, 1),
    ],
)
def test_refused(code, bits: str, n: int, k: int) -> None:
    with pytest.raises(PayloadError):
        code.read_positions(BitReader(from_bits(bits)), n, k, 0)


def test_raw32_has_no_room_for_more() -> None:
    assert len(round_trip(Raw32(), [2**32 - 1], 2**32)) == 32
    with pytest.raises(UpdateError, match="raw32: a tensor of 4294967297 entries"):
        Raw32().write_positions(np.array([2**32]), 2**32 + 1, BitWriter(), 0)
    with pytest.raises(PayloadError, match="4294967297"):
        Raw32().read_positions(BitReader(bytes(8)), 2**32 + 1, 1, 0)
