"""Constants of presets and methods, each as its source prints it."""

from inspect import signature
from typing import Any

import pytest
import torch

from compressors import compress, parse
from compressors.coders.golomb import rice_parameter
from compressors.published import deepreduce
from compressors.quantize.curvefit import FitPoly
from compressors.quantize.dither import TernGrad
from compressors.whole.threelc import ThreeLC
from fedsim.network.presets import PRESETS

DEEPREDUCE = "Kostopoulou et al. 2021"
LENGTHS = {0.5: 0, 0.1: 3, 0.05: 4, 0.02: 5, 0.01: 6, 0.005: 7, 0.002: 8, 0.001: 9, 1e-4: 13}


def quantizer(text: str) -> Any:
    """Of a method of ``ef(per_tensor(...))``."""
    method: Any = parse(text)
    return method.inner.codec.quantize


def zeros_byte(entries: int) -> int:
    """The byte of 3LC that stands for so many zeros."""
    packet, _ = compress(parse("threelc"), {"w": torch.zeros(entries)})
    return packet.payload[-1]


QSGD = "deepreduce(0.01, 'huffman', 'qsgd')"
TABLE = [
    # constant, source, its value there, ours
    ("false positive rate", f"{DEEPREDUCE}, section 6.2", 0.001,
     signature(deepreduce).parameters["eps"].default),
    ("Fit-Poly: degree", f"{DEEPREDUCE}, section 6.2", 5, FitPoly().degree),
    ("QSGD of 7 bits: levels each side of 0", f"{DEEPREDUCE}, section 6.3", 2 ** (7 - 1) - 1,
     quantizer(QSGD).levels),
    ("QSGD: bucket", f"{DEEPREDUCE}, section 6.3", 512, quantizer(QSGD).bucket),
    ("SKCompress of 7 bits: buckets", f"{DEEPREDUCE}, section 6.3", 2**7,
     quantizer("skcompress(0.1)").buckets),
    ("3LC: sparsity multiplier", f"{DEEPREDUCE}, section 6.3", 1, ThreeLC().sparsity),
    ("3LC: five zeros", "Lim et al. 2019, section 3", (3**5 - 1) // 2, zeros_byte(5)),
    ("3LC: the shortest run", "Lim et al. 2019, section 3", 3**5, zeros_byte(2 * 5)),
    ("3LC: the longest run", "Lim et al. 2019, section 3", 255, zeros_byte(14 * 5)),
    ("TernGrad: clipping, in deviations", "Horváth et al. 2022", 2.5, TernGrad().clip),
    ("100mbit", f"{DEEPREDUCE}, Fig. 11", "up=100Mbit, down=100Mbit", PRESETS["100mbit"].text),
    ("1gbit", f"{DEEPREDUCE}, Fig. 11", "up=1Gbit, down=1Gbit", PRESETS["1gbit"].text),
    ("10gbit", f"{DEEPREDUCE}, Fig. 11", "up=10Gbit, down=10Gbit", PRESETS["10gbit"].text),
    ("SBC: bits of a remainder", "Sattler et al. 2018, equation 5", LENGTHS,
     {p: rice_parameter(p) for p in LENGTHS}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("constant", "source", "printed", "ours"), TABLE, ids=[row[0] for row in TABLE]
)
def test_a_constant_is_its_sources(constant: str, source: str, printed: Any, ours: Any) -> None:
    assert ours == printed, f"{constant}: {source}"
