"""The message of GPT-2's size: its shapes, a row from small ones, and the bits on the page."""

import math
import re
from pathlib import Path
from typing import Any

from compressors import compress, parse

ROOT = Path(__file__).parents[2]


SCRIPT = "gpt2_message"


def test_shapes_are_gpt_2_s(bench: Any) -> None:
    shapes = bench.gpt2()
    assert (len(shapes), sum(map(math.prod, shapes.values()))) == (148, 124_439_808)
    assert shapes["h.11.mlp.c_proj.weight"] == (3072, 768)


def test_the_page_has_the_bits_of_entries_and_header(bench: Any) -> None:
    """``raw`` sends 32 bits per entry, and a header that is the same for small tensors."""
    text = (ROOT / "docs" / "measure.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \| [\d.]+ \|", text, re.MULTILINE)
    bits = {method: int(digits.replace(",", "")) for method, digits in rows}
    assert list(bits) == list(bench.METHODS)
    small = bench.update_of(dict.fromkeys(bench.gpt2(), (2,)))
    header = 8 * len(compress(parse("raw"), small)[0].payload) - 32 * 2 * 148
    assert bits["raw"] == 32 * 124_439_808 + header


def test_a_row_holds_its_numbers(bench: Any) -> None:
    row = {
        "method": "raw",
        "bits": 64,
        "entries": 2,
        "encode": 0.5,
        "decode": 0.25,
        "encoding": 1.5e9,
        "decoding": 2e9,
    }
    assert bench.line(row) == "| `raw` | 64 | 32.000 | 0.50 | 0.25 | 1.50 | 2.00 |"
