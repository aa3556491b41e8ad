"""SketchML: bytes by hand, tables that only shrink values, keys by group, bytes that do not fit."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from compressors import BitReader, BitWriter, PayloadError, SketchML, compress, parse
from compressors.whole import sketchml
from tests.support.generators import to_bits


def heavy(n: int, seed: int) -> torch.Tensor:
    """Heavy tails and both signs, as of gradients."""
    return torch.from_numpy((np.random.default_rng(seed).standard_normal(n) ** 3).astype("f4"))


def test_a_small_message_by_hand() -> None:
    """Three values, two signs, two groups of one bucket each: a table of no bits."""
    out = BitWriter()
    SketchML(1.0, buckets=2, groups=2).write(torch.tensor([0.0, 2.0, -3.0, 0, 0, 4.0]), out, 1)
    floats = "".join(f"{word:032b}" for word in np.array([-3.0, 3.0], "f4").view("u4").tolist())
    expected = (
        "00100"  # gamma(3 + 1): three values
        "1"
        + floats  # two buckets, less one, in a bit; their means -3 and (2 + 4) / 2
        + "010"
        "00"
        "00000010"  # gamma(1 + 1) keys below zero; a step of one byte: 2
         + "00"
        "00"
        "00000001"
        "00000100"  # the others: keys 1 and 5 as 1 and 4
    )
    assert to_bits(out.to_bytes())[: out.position] == expected


@given(st.integers(1, 300), st.integers(2, 40), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_a_table_never_returns_more_than_was_put_in(
    count: int, size: int, rows: int, seed: int
) -> None:
    """The smallest of those that share a cell, the largest of a key's cells: never above."""
    draws = np.random.default_rng(seed)
    keys = np.sort(draws.choice(10_000, count, replace=False))
    numbers = draws.integers(0, size, count)
    columns = sketchml.columns_of(count, 0.3)
    table = sketchml.make_table(keys, numbers, size, rows, columns, seed)
    assert table.shape == (rows, columns)
    found = sketchml.ask(table, keys, seed)
    assert bool((found <= numbers).all())
    more = sketchml.make_table(keys, numbers, size, rows + 1, columns, seed)
    assert bool((sketchml.ask(more, keys, seed) >= found).all())  # rows only help
    out = BitWriter()
    sketchml.write_table(table, size, out)
    assert out.position == rows * columns * (size - 1).bit_length()
    again = sketchml.read_table(BitReader(out.to_bytes()), rows, columns, size)
    assert np.array_equal(again, table)


@pytest.mark.parametrize("groups", [2, 3, 8, 64])
def test_values_shrink_within_their_group_and_keep_their_sign(groups: int) -> None:
    """Compared with the buckets alone: never larger, never of the other sign."""
    x = {"w": heavy(5000, 2)}
    plain = compress(parse("topk(0.2) | sketch(64)"), x)[0].sent["w"]
    sent = compress(parse(f"sketchml(0.2, 64, {groups})"), x)[0].sent["w"]
    assert torch.equal(sent.indices, plain.indices)
    assert bool((sent.values.abs() <= plain.values.abs()).all())
    assert torch.equal(sent.values.sign(), plain.values.sign())
    exact = bool(torch.equal(sent.values, plain.values))
    assert exact == (groups == 64)  # groups of one bucket know it


def test_bits_of_a_table() -> None:
    """2 rows of ceil(0.3 keys) cells, ceil(log2 32) bits each: 8 groups of 32 buckets."""
    half = heavy(2000, 1)  # as many values of either sign: buckets and groups part evenly
    packet, _ = compress(parse("sketchml(0.5)"), {"w": torch.cat([half, -half])})
    nominal = 2 * 0.3 * 2000 * 5
    assert nominal <= packet.spans["values"] <= nominal + 8 * 2 * 5
    assert packet.spans["side"] == 8 + 256 * 32


def test_counts_and_keys_that_cannot_be() -> None:
    codec, template = SketchML(1.0, 2, 2), torch.empty(6)

    def payload(*fields: tuple[int, int]) -> BitReader:
        out = BitWriter()
        for value, width in fields:
            out.uint(value, width)
        return BitReader(out.to_bytes())

    means = [(1, 1), (0xBF800000, 32), (0x3F800000, 32)]  # two buckets: -1 and 1
    with pytest.raises(PayloadError, match="7 values announced for a tensor of 6"):
        codec.read(payload((8, 7)), template, 1)
    with pytest.raises(PayloadError, match="3 keys announced for a group where 2 are left"):
        codec.read(payload((3, 3), *means, (4, 5)), template, 1)
    one, key = (2, 3), lambda at: [(0, 2), (at, 8)]
    with pytest.raises(PayloadError, match="positions that do not rise"):
        codec.read(payload((3, 3), *means, one, *key(6), *key(1)), template, 1)
    with pytest.raises(PayloadError, match="positions that do not rise"):
        codec.read(payload((3, 3), *means, one, *key(2), *key(2)), template, 1)  # in both groups
    good = codec.read(payload((3, 3), *means, one, *key(2), *key(3)), template, 1)
    assert good.tolist() == [0, 0, -1, 1, 0, 0]
