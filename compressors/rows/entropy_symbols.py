"""Coders that count: Huffman's family, ANS, DEFLATE."""

from compressors.rows.base import DEEPREDUCE, HUFFMAN, Row

ROWS = (
    Row("huffman", "coder", "coders.huffman:Huffman",
        "Canonical Huffman codes of symbols, or of classes of gaps",
        f"{HUFFMAN}, section 2.2", "topk(0.1) | float32 | huffman | huffman"),
    Row("index_huffman", "positions", "coders.index_huffman:IndexHuffman",
        "Huffman codes of the bytes of indices",
        f"{DEEPREDUCE}, appendix", "topk(0.1) | float32 | index_huffman"),
    Row("delta_huffman", "positions", "coders.delta_huffman:DeltaHuffman",
        "Steps between indices in whole bytes",
        "Jiang et al. 2020 (SKCompress)", "topk(0.1) | float32 | delta_huffman"),
    Row("sh", "symbols", "coders.sample_huffman:SampleHuffman",
        "Huffman codes by a sample of the symbols",
        f"{HUFFMAN}, section 3.2", "qsgd(7) | sh"),
    Row("shs", "symbols", "coders.sample_huffman:SparseHuffman",
        "Huffman codes of symbols and runs of zeros, by a sample",
        f"{HUFFMAN}, section 3.3", "qsgd(7) | shs(5)"),
    Row("rlh", "symbols", "coders.runlength_huffman:RunLengthHuffman", "Huffman codes of runs",
        f"{HUFFMAN}, section 3.1", "qsgd(3) | rlh"),
    Row("ans", "coder", "coders.rans:Ans",
        "Range ANS of symbols, or of classes of gaps, by their frequencies",
        "Duda 2009", "topk(0.1) | float32 | ans | ans"),
    Row("deflate", "symbols", "coders.zipped:Deflate", "Symbols through zlib", DEEPREDUCE,
        "topk(0.1) | float32 | deflate", portable=False),
    Row("zstd", "symbols", "coders.zipped:Zstd", "Symbols through zstd", "RFC 8878",
        "topk(0.1) | float32 | zstd", portable=False, needs="zstandard"),
)  # fmt: skip
