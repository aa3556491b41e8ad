"""The bit cursor against a text of zeros and ones."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compressors import SPANS, BitReader, BitWriter, PayloadError
from tests.support.generators import from_bits, to_bits

WIDTHS = st.integers(0, 64)
FIELDS = st.one_of(
    WIDTHS.flatmap(lambda w: st.tuples(st.just("uint"), st.integers(0, (1 << w) - 1), st.just(w))),
    st.tuples(st.just("gamma"), st.integers(1, (1 << 63) - 1) | st.integers(1, 40), st.none()),
    WIDTHS.flatmap(
        lambda w: st.tuples(
            st.just("uints"), st.lists(st.integers(0, (1 << w) - 1), max_size=9), st.just(w)
        )
    ),
    st.tuples(st.just("float32s"), st.lists(st.floats(width=32), max_size=5), st.none()),
)
Message = list[tuple[str, tuple[str, Any, int]]]
MESSAGES = st.lists(st.tuples(st.sampled_from(SPANS), FIELDS), max_size=30)


def as_text(kind: str, value: Any, width: int) -> str:
    """A field as zeros and ones, the obvious way."""
    if kind == "uint":
        return format(value, f"0{width}b") if width else ""
    if kind == "gamma":
        return "0" * (value.bit_length() - 1) + format(value, "b")
    if kind == "uints":
        return "".join(as_text("uint", v, width) for v in value)
    return "".join(to_bits(struct.pack(">f", v)) for v in value)


def write(out: BitWriter, kind: str, value: Any, width: int) -> None:
    if kind == "uint":
        out.uint(value, width)
    elif kind == "gamma":
        out.gamma(value)
    elif kind == "uints":
        out.uints(np.array(value, np.uint64), width)
    else:
        out.float32s(np.array(value, np.float32))


def check_read(bits: BitReader, kind: str, value: Any, width: int) -> None:
    if kind == "uint":
        assert bits.uint(width) == value
    elif kind == "gamma":
        assert bits.gamma() == value
    elif kind == "uints":
        got = bits.uints(len(value), width)
        assert got.dtype == np.uint64
        assert got.tolist() == value
    else:
        floats = bits.float32s(len(value))
        assert floats.dtype == np.float32
        assert floats.tobytes() == np.array(value, np.float32).tobytes()


@given(MESSAGES)
def test_fields_follow_each_other(message: Message) -> None:
    out, expected, booked = BitWriter(), "", dict.fromkeys(SPANS, 0)
    for span, field in message:
        with out.span(span):
            write(out, *field)
        expected += as_text(*field)
        booked[span] += len(as_text(*field))
    payload = out.to_bytes()
    assert out.position == len(expected)
    assert payload == from_bits(expected)
    assert out.spans() == booked

    bits = BitReader(payload)
    for span, field in message:
        with bits.span(span):
            check_read(bits, *field)
    assert bits.position == len(expected)
    assert bits.spans() == booked
    bits.finish()
    assert sum(bits.spans().values()) == bits.position == 8 * len(payload)


@given(MESSAGES, st.integers(0, 10_000))
def test_a_cut_message_is_an_error(message: Message, at: int) -> None:
    out = BitWriter()
    for _, field in message:
        write(out, *field)
    payload = out.to_bytes()
    bits = BitReader(payload[: at % len(payload)] if payload else b"")

    def read_all() -> None:
        for _, field in message:
            check_read(bits, *field)
        bits.uint(1)

    with pytest.raises(PayloadError, match="ends early"):
        read_all()
    assert bits.position <= bits.end


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64, np.int64])
def test_arrays_of_any_integer_type(dtype: type) -> None:
    out = BitWriter()
    out.uints(np.array([1, 127, 0, 5], dtype), 7)
    assert to_bits(out.to_bytes())[:28] == "0000001" + "1111111" + "0000000" + "0000101"


def test_floats_in_c_order() -> None:
    values = np.array([[1.0, -0.0], [np.nan, 2.0]], np.float32)
    out = BitWriter()
    out.float32s(values.T)
    assert out.to_bytes() == values.T.astype(">f4").tobytes()
    out = BitWriter()
    out.float32s(np.float32(1.5))
    assert out.to_bytes() == struct.pack(">f", 1.5)


def test_growth_keeps_what_was_written() -> None:
    """From one byte to a megabyte, in steps that are no whole words."""
    out, step = BitWriter(), np.arange(1000, dtype=np.uint64) % 128
    for _ in range(1200):
        out.uints(step, 7)
    bits = BitReader(out.to_bytes())
    assert out.position == 7 * 1_200_000
    assert np.array_equal(bits.uints(1_200_000, 7), np.tile(step, 1200))


def test_spans_nest_and_survive_errors() -> None:
    out = BitWriter()
    out.uint(1, 3)
    with out.span("positions"):
        out.uint(1, 5)
        with out.span("side"):
            out.uint(1, 7)
        out.uint(1, 11)
        assert out.spans() == {"header": 3, "positions": 16, "values": 0, "side": 7}
    with pytest.raises(ValueError, match="does not fit"), out.span("values"):
        out.uint(2, 1)
    out.uint(1, 13)
    assert out.spans() == {"header": 16, "positions": 16, "values": 0, "side": 7}


@pytest.mark.parametrize(("value", "width"), [(8, 3), (-1, 3), (1, 0), (0, 65), (1 << 64, 64)])
def test_what_does_not_fit_is_refused(value: int, width: int) -> None:
    out = BitWriter()
    with pytest.raises(ValueError, match=f"value {value} does not fit in {width} bits"):
        out.uint(value, width)
    assert out.position == 0


@pytest.mark.parametrize("value", [0, -1, 1 << 63])
def test_gamma_takes_positive_integers(value: int) -> None:
    with pytest.raises(ValueError, match=f"not {value}"):
        BitWriter().gamma(value)


@pytest.mark.parametrize(
    ("value", "bits"), [(1, "1"), (2, "010"), (3, "011"), (5, "00101"), (8, "0001000")]
)
def test_gamma_by_hand(value: int, bits: str) -> None:
    out = BitWriter()
    out.gamma(value)
    assert to_bits(out.to_bytes())[: out.position] == bits


def test_an_endless_gamma_is_an_error() -> None:
    with pytest.raises(PayloadError, match="longer than any that is written"):
        BitReader(bytes(100)).gamma()


@pytest.mark.parametrize("count", [10**6, 2**61])
def test_a_count_is_not_believed_before_its_bits_are_there(count: int) -> None:
    with pytest.raises(PayloadError, match=f"{32 * count} bits wanted at bit 3, 77 left"):
        reader = BitReader(bytes(10))
        reader.uint(3)
        reader.float32s(count)
    with pytest.raises(PayloadError, match="bits wanted"):
        BitReader(bytes(10)).uints(count, 1)


def test_the_end() -> None:
    BitReader(b"").finish()
    reader = BitReader(b"\xfe\x00")
    reader.uint(7)
    with pytest.raises(PayloadError, match="payload has 9 bits after its end: trailing data"):
        reader.finish()
    reader.uint(2)
    reader.finish()
    assert reader.position == 16
    reader = BitReader(b"\xff")
    reader.uint(7)
    with pytest.raises(PayloadError, match="padding"):
        reader.finish()
