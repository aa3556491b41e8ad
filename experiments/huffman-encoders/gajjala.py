"""What Gajjala et al. 2020 print: Tables 1 to 4. Figures 2 and 3 have no numbers in the text."""

from typing import NamedTuple

COLUMNS = ("Huffman", "Elias", "RLE", "SH", "SHS", "RLH")


class Ratios(NamedTuple):
    """A row of Table 3 or 4; scores as printed: perplexity for LSTM, else accuracy in per cent."""

    table: int
    model: str
    baseline: float
    quantizer: str
    score: float
    ratios: tuple[int, ...]  # by COLUMNS


RATIOS = (
    Ratios(3, "LSTM", 103.398, "RD", 125.955, (31, 348, 80, 31, 203, 491)),
    Ratios(3, "LSTM", 103.398, "TQ", 970.335, (31, 10814, 3746, 31, 855, 16432)),
    Ratios(3, "LSTM", 103.398, "CNat", 103.2, (24, 6, 3, 24, 27, 32)),
    Ratios(4, "ResNet50", 53.317, "RD", 43.256, (31, 184, 41, 31, 156, 253)),
    Ratios(4, "ResNet50", 53.317, "TQ", 25.34, (32, 947, 266, 32, 470, 1353)),
    Ratios(4, "ResNet50", 53.317, "CNat", 53.00, (23, 9, 4, 23, 32, 35)),
    Ratios(4, "ResNet20", 94.286, "RD", 93.333, (21, 17, 2, 21, 19, 21)),
    Ratios(4, "ResNet20", 94.286, "TQ", 86.786, (31, 82, 18, 31, 87, 121)),
    Ratios(4, "ResNet20", 94.286, "CNat", 93.375, (10, 4, 1, 10, 9, 10)),
    Ratios(4, "VGG16", 96.75, "RD", 94.141, (30, 68, 14, 30, 71, 98)),
    Ratios(4, "VGG16", 96.75, "TQ", 97.375, (32, 265, 70, 32, 231, 391)),
    Ratios(4, "VGG16", 96.75, "CNat", 95.125, (16, 7, 2, 16, 15, 16)),
)

SECONDS = {
    "ResNet20": (0.20, 0.26, 0.26, 0.11, 0.13, 0.85),
    "VGG16": (13.95, 18.95, 18.83, 6.60, 7.07, 26.02),
    "GoogLeNet": (6.84, 9.03, 9.68, 4.10, 4.67, 10.83),
    "ResNet50": (20.80, 18.46, 18.24, 9.04, 10.40, 32.26),
    "LSTM": (85.55, 53.64, 80.68, 22.17, 32.4, 151.94),
}
"""Table 1: encoding one gradient that RD has quantized, by COLUMNS, on a personal computer."""

PARAMETERS = {
    "ResNet20": 269_722,
    "VGG16": 14_728_266,
    "GoogLeNet": 6_610_344,
    "ResNet50": 25_557_032,
    "LSTM": 66_034_000,
}
"""Table 2."""
