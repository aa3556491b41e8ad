"""Position coders and symbol coders."""

from compressors.positions.golomb import Golomb
from compressors.rows.base import SBC, Row
from compressors.symbols.fixed import Fixed

ROWS = (
    Row("golomb", "positions", Golomb, "Golomb (Rice) codes of gaps",
        f"{SBC}, Algorithms 3 and 4", "topk(0.01) | float32 | golomb(0.02)"),
    Row("fixed", "symbols", Fixed, "Symbols of equal width", "reference",
        "topk(0.1) | float32 | golomb | fixed"),
)  # fmt: skip
