"""DeepReduce's named combinations and SKCompress: what the names stand for, and their bits."""

import pytest
import torch

from compressors import compress, deepreduce, parse, skcompress, text
from tests.support.generators import decoded, same_bits, whole_numbers

TABLE_3 = [
    ("bloom_p0", None, "float32 | bloom(0.001)"),
    ("bloom_p1", None, "float32 | bloom(0.001, 'p1')"),
    ("bloom_p2", None, "float32 | bloom(0.001, 'p2')"),
    ("rle", None, "float32 | rle"),
    ("huffman", None, "float32 | index_huffman"),
    (None, "fit_poly", "fit_poly | raw32"),
    (None, "fit_dexp", "fit_dexp | raw32"),
    (None, "deflate", "float32 | raw32 | deflate"),
    (None, "qsgd", "dither(63, bucket=512) | raw32"),
    ("bloom_p0", "fit_poly", "fit_poly | bloom(0.001)"),
    ("bloom_p1", "fit_poly", "fit_poly | bloom(0.001, 'p1')"),
    ("bloom_p2", "qsgd", "dither(63, bucket=512) | bloom(0.001, 'p2')"),
]


@pytest.mark.parametrize(("index", "value", "expansion"), TABLE_3)
def test_the_rows_of_table_3(index: str | None, value: str | None, expansion: str) -> None:
    """What each name prints; the message goes through, and the memory keeps what is missing."""
    method = deepreduce(0.05, index, value)
    assert text(method) == f"ef(per_tensor(topk(0.05) | {expansion}))"
    assert parse(text(method)) == method
    x = {"w": whole_numbers(600, 1) / 64}
    packet, state = compress(method, x)
    got = decoded(text(method), packet.payload, x)
    assert same_bits(got, {"w": packet.sent["w"].decoded})
    (kept,) = state.values()
    assert torch.equal(kept, x["w"] - got["w"])


def test_a_memory_around_values_at_wrong_places_is_refused() -> None:
    with pytest.raises(ValueError, match="puts values at wrong places, so that the memory would"):
        parse("deepreduce(0.01, bloom_naive, none, 0.01)")
    parse("topk(0.01) | float32 | bloom(0.01, naive)")


def test_sparse_tensors_as_they_are() -> None:
    """p = 1 (the paper's NCF): entries that are not zero, without a sparsifier."""
    assert text(deepreduce(1, "bloom_p0", "qsgd", eps=0.6)) == (
        "ef(per_tensor(nonzero | dither(63, bucket=512) | bloom(0.6)))"
    )
    assert text(skcompress(1)) == "ef(per_tensor(nonzero | sketch(128) | delta_huffman | huffman))"


def test_bits_of_section_6() -> None:
    """At r = 1 % of 10^5: keys of 32 bits and values of 32; a filter of 14.378 bits a key; ranks of
    10 bits and 8 pieces of 6 coefficients."""
    x = {"w": whole_numbers(100_000, 3, bits=20) ** 3}
    plain = compress(deepreduce(0.01, None), x)[0].spans
    assert (plain["positions"], plain["values"]) == (32_000, 32_000)
    bloom = compress(deepreduce(0.01, "bloom_p2"), x)[0].spans
    assert (bloom["positions"], bloom["values"]) == (14_378, 32_000)
    poly = compress(deepreduce(0.01, None, "fit_poly"), x)[0].spans
    assert poly["values"] == 10_000
    assert poly["side"] <= 7 + 7 * 10 + 8 * 6 * 32
    seven = compress(deepreduce(0.01, None, "qsgd"), x)[0].spans
    assert (seven["values"], seven["side"]) == (7000, 2 * 32)


def test_names_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="deepreduce: index is 'golomb': give one of none, bloom"):
        deepreduce(0.01, "golomb")
    with pytest.raises(ValueError, match="deepreduce: value is 'cnat': give one of none, fit"):
        deepreduce(0.01, "rle", "cnat")
    with pytest.raises(ValueError, match="deepreduce: p is 0"):
        deepreduce(0)
    with pytest.raises(ValueError, match="topk: p is 2"):
        skcompress(2)
    with pytest.raises(ValueError, match="bloom: eps is 1"):
        deepreduce(0.01, eps=1)
