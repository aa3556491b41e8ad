"""Position coders and symbol coders."""

from compressors.rows.base import DEEPREDUCE, HUFFMAN, SBC, Row

_ELIAS = "Elias 1975; " + HUFFMAN

ROWS = (
    Row("golomb", "positions", "coders.golomb:Golomb", "Golomb (Rice) codes of gaps",
        f"{SBC}, Algorithms 3 and 4", "topk(0.01) | float32 | golomb(0.02)"),
    Row("raw32", "positions", "coders.raw32:Raw32", "Positions of 32 bits", "reference",
        "topk(0.1) | float32 | raw32"),
    Row("delta16", "positions", "coders.delta16:Delta16",
        "Gaps of 16 bits with an escape", "reference",
        "topk(0.1) | float32 | delta16"),
    Row("bitmap", "positions", "coders.bitmap:Bitmap",
        "One bit an entry", f"reference; {DEEPREDUCE}",
        "topk(0.4) | float32 | bitmap"),
    Row("auto", "positions", "coders.auto:Auto",
        "The shortest of many position codes, one byte says which",
        "this project", "topk(0.1) | float32 | auto"),
    Row("fixed", "coder", "coders.fixed:Fixed", "Positions or symbols of equal width", "reference",
        "topk(0.1) | float32 | fixed | fixed"),
    Row("elias_gamma", "coder", "coders.elias:EliasGamma",
        "Elias gamma codes of gaps or symbols", _ELIAS,
        "topk(0.1) | dither(7) | elias_gamma | elias_gamma"),
    Row("elias_delta", "coder", "coders.elias:EliasDelta",
        "Elias delta codes of gaps or symbols", _ELIAS,
        "topk(0.1) | dither(7) | elias_delta | elias_delta"),
    Row("elias_omega", "coder", "coders.elias:EliasOmega",
        "Elias omega codes of gaps or symbols", _ELIAS,
        "topk(0.1) | dither(7) | elias_omega | elias_omega"),
    Row("rle", "coder", "coders.runlength:RunLength",
        "Run lengths of the bitmap, or of equal symbols",
        f"{HUFFMAN}; {DEEPREDUCE}", "topk(0.4) | ternary | rle | rle"),
)  # fmt: skip
