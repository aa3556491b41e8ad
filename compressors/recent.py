"""Rows of the catalogue for methods beside those of the five papers, most of them newer."""

from compressors.row import Row

_DRIVE = "Vargaftik et al. 2021"
_EDEN = "Vargaftik et al. 2022"

RECENT = (
    Row("drive", "method", "published.rotated:drive", "DRIVE: rotated signs, a scale per block",
        f"{_DRIVE}, Algorithm 1", "drive()"),
    Row("eden", "method", "published.rotated:eden",
        "EDEN: rotated, the nearest level for normal values, a scale per block",
        f"{_EDEN}, Algorithm 1", "eden(2)"),
    Row("lloyd", "quantizer", "quantize.lloyd:Lloyd",
        "The nearest of 2^b levels for normal values, a scale per block of a rotation",
        f"{_DRIVE}; {_EDEN}", "rotate(lloyd(4, least))"),
)  # fmt: skip
"""Behind those of ``compressors.catalogue``, which says what a row is."""
