"""Golden bytes of every row, and messages whose bits were written by hand."""

from hashlib import blake2b

import pytest
import torch
from write_golden import COMMAND, FOLDER, golden_packets, golden_text, golden_updates

from compressors import CATALOGUE, ROWS, compress, decompress, parse
from tests.support.generators import from_bits, same_bits, to_bits

every_row = pytest.mark.parametrize("name", [row.name for row in ROWS])
EXAMPLES = {row.name: row.example for row in ROWS}


def stored(name: str) -> str:
    """The golden file of a row; where it is missing the test fails and says what to do."""
    path = FOLDER / f"{name}.hex"
    if not path.exists():
        pytest.fail(
            f"no golden bytes of {name!r}: look at them, then store them with\n    {COMMAND} {name}"
        )
    return path.read_text()


@pytest.mark.parametrize("name", [row.name for row in ROWS if row.portable])
def test_golden_bytes(name: str) -> None:
    assert golden_text(EXAMPLES[name]) == stored(name)


@every_row
def test_golden_bytes_still_decode(name: str) -> None:
    """What is on the disk, read by the reader alone; closely, where a library's sums are in it."""
    compressor = parse(EXAMPLES[name])
    messages = stored(name).split("# ")[1:]
    assert len(messages) == 2
    for text, update, packet in zip(
        messages, golden_updates(), golden_packets(EXAMPLES[name]), strict=True
    ):
        spans, digits = text.split("\n", 1)
        payload = bytes.fromhex(digits)
        assert sum(int(part.split("=")[1]) for part in spans.split()) == 8 * len(payload)
        got = decompress(compressor, payload, update)
        now = {name: one.decoded for name, one in packet.sent.items()}
        if CATALOGUE[name].portable:
            assert same_bits(got, now)
        for key, x in now.items():
            torch.testing.assert_close(got[key], x, rtol=1e-4, atol=1e-4)


def test_no_golden_file_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == {f"{name}.hex" for name in CATALOGUE}


def test_the_golden_input_is_what_it_was() -> None:
    """Written down, so that a change of the input is not taken for a change of the format."""
    first, second = golden_updates()
    assert (first["conv.weight"].flatten()[:4] * 256).tolist() == [144, 3971, -393, 3434]
    assert (second["conv.weight"].flatten()[:4] * 256).tolist() == [460, -3904, -77, 3750]
    assert first["conv.bias"].all()
    assert not second["conv.bias"].any()


# Each case: method, entries, and the bits after version and fingerprint, as one would
# write them down from the papers. float32: sign, exponent + 127 in 8 bits, 23 of fraction.
THREE = "0 10000000 10000000000000000000000"  # 3 = 2**1 * 1.1b
MINUS_5 = "1 10000001 01000000000000000000000"  # -5 = -2**2 * 1.01b
HALF = "0 01111110 00000000000000000000000"  # 0.5 = 2**-1
BY_HAND = [
    # k = 1 of 4: p = 1/4, ln(0.618) / ln(0.75) = 1.67, log2 = 0.74: b* = 1. Index 1 is gap 2,
    # gap - 1 = 1: quotient 0 ("0"), remainder "1"; then the mean.
    ("sbc(0.25)", [0, 3, 1, 0.5], f"1 01 {THREE}"),
    # Negative side: mean -5 against 3. Index 3 is gap 4, gap - 1 = 3: "10", "1".
    ("sbc(0.25)", [3, 0, 1, -5], f"1 101 {MINUS_5}"),
    # k = 2 of 4: p = 1/2, b* = 0. Indices 0 and 3: gaps 1 and 3: "0", "110".
    ("topk(0.5) | float32", [-5, 0, 0, 3], f"1 0 110 {MINUS_5} {THREE}"),
    # Only one entry to send of a nominal two: "0", gamma(1 + 1) = "010"; p = 1/4 again, b* = 1.
    # Index 2 is gap 3, gap - 1 = 2: "10", "0".
    ("topk(0.5) | float32", [0, 0, 0.5, 0], f"0 010 100 {HALF}"),
    # b* fixed by p = 0.1: ln(0.618) / ln(0.9) = 4.57, log2 = 2.19: b* = 3. Gap - 1 = 2.
    ("topk(0.25) | float32 | golomb(0.1)", [0, 0, 0.5, 0], f"1 0 010 {HALF}"),
    # Nothing to send: "0", gamma(0 + 1) = "1".
    ("sbc(0.25)", [0, 0, 0, 0], "0 1"),
    ("raw", [3, -5], f"{THREE} {MINUS_5}"),
]


@pytest.mark.parametrize(("method", "entries", "bits"), BY_HAND)
def test_messages_written_by_hand(method: str, entries: list[float], bits: str) -> None:
    compressor, update = parse(method), {"w": torch.tensor(entries, dtype=torch.float32)}
    payload = compress(compressor, update)[0].payload
    assert to_bits(payload[3:]) == to_bits(from_bits(bits))
    got = decompress(compressor, payload[:3] + from_bits(bits), update)
    assert torch.equal(got["w"], update["w"] * (got["w"] != 0))


def test_tensors_follow_each_other_without_padding() -> None:
    """Two tensors of 36 and 39 bits take 24 + 36 + 39 = 99 bits: 13 bytes."""
    update = {"a": torch.tensor([0, 3.0, 1, 0.5]), "b": torch.tensor([0, 0, 0, 0, 0, 0, 0, -5.0])}
    payload = compress(parse("sbc(0.25)"), update)[0].payload
    # b: one of a nominal two, gamma(2); p = 1/8: ln(0.618) / ln(0.875) = 3.6: b* = 2.
    # Index 7 is gap 8, gap - 1 = 7: quotient 1 "10", remainder "11".
    bits = f"1 01 {THREE} 0 010 1011 {MINUS_5}"
    assert to_bits(payload[3:]) == to_bits(from_bits(bits))
    assert len(payload) == 13


def test_the_frame_by_hand() -> None:
    """Version 1, and the first two bytes of BLAKE2b over the method's text and the tensors."""
    payload = compress(parse("sbc(0.25)"), {"w": torch.zeros(2, 3)})[0].payload
    layout = (
        "_Layout(method='ef(per_tensor(one_sided(0.25) | mean | golomb))', "
        "tensors=(('w', (2, 3)),))"
    )
    assert payload[:3] == b"\x01" + blake2b(layout.encode(), digest_size=2).digest()
