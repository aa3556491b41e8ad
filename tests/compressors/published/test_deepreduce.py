"""Named combinations, DeepReduce's and SKCompress among them: what names print, and their bits."""

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


EXPANSIONS = {
    "powersgd(2)": "ef(lowrank(2))",
    "structured_mask(0.1)": "per_tensor(randk(0.1, false) | float32)",
    "sketched(0.1)": "per_tensor(rotate(randk(0.1) | minmax(2)))",
    "sketched(0.1, 4)": "per_tensor(rotate(randk(0.1) | minmax(4)))",
    "q_sparse(0.1)": "ef(per_tensor(topk(0.1) | shrink(dither(7)) | golomb))",
    "q_sparse(0.1, 3)": "ef(per_tensor(topk(0.1) | shrink(dither(3)) | golomb))",
    "topk_cnat(0.1)": "ef(per_tensor(topk(0.1) | cnat | golomb))",
    "signsgd(0.003)": "per_tensor(sign(0.003))",
    "fedpaq(7)": "flat(dither(7))",
    # every entry: no positions and no subsampling, what rounds stays
    "structured_mask(1)": "raw",
    "sketched(1, 4)": "per_tensor(rotate(minmax(4)))",
    "q_sparse(1)": "ef(per_tensor(shrink(dither(7))))",
    "topk_cnat(1)": "ef(per_tensor(cnat))",
}


@pytest.mark.parametrize("name", EXPANSIONS)
def test_expansions(name: str) -> None:
    assert text(parse(name)) == EXPANSIONS[name]
    assert parse(EXPANSIONS[name]) == parse(name)
