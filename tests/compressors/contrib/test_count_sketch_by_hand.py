"""Count sketches by hand: tables, estimates and medians, with cells and signs that are given.

``PLACES`` says the cell and the sign of each of three entries in each of four rows. Of an even
number of rows the median is the mean of the middle two (``CountSketch``, ``rows``); torch's median
would be the lower one.
"""

import numpy as np
import pytest
import torch

from compressors import compress, decompress, parse
from compressors.contrib import count_sketch
from compressors.contrib.count_sketch import CountSketch

PLACES = [
    ([0, 0, 1], [1, -1, 1]),
    ([1, 0, 0], [-1, 1, -1]),
    ([0, 1, 1], [1, 1, -1]),
    ([1, 1, 0], [1, 1, 1]),
]
X = torch.tensor([5.0, 3.0, -2.0])


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> None:
    def places(row: int, n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        cells, signs = PLACES[row]
        return np.array(cells[:n], np.int32), np.array(signs[:n], np.int8)

    monkeypatch.setattr(count_sketch, "_places", places)


@pytest.mark.usefixtures("given")
def test_two_rows_by_hand() -> None:
    """Row 0: cell 0 has 5 - 3, cell 1 has -2. Row 1: cell 0 has 3 + 2, cell 1 has -5.

    Estimates: entry 0 by 2 and 5, entry 1 by -2 and 5, entry 2 by -2 and -5.
    """
    codec = CountSketch(1 / 3, 2, 2)
    table = codec.sketch(X)
    assert table.tolist() == [[2, -2], [5, -5]]
    assert codec.estimates(table, 3).tolist() == [3.5, 1.5, -3.5]


@pytest.mark.usefixtures("given")
def test_of_estimates_as_large_the_first_is_taken() -> None:
    """3.5 of entry 0 and -3.5 of entry 2; with two of three both are."""
    for p, positions, values in ((1 / 3, [0], [3.5]), (2 / 3, [0, 2], [3.5, -3.5])):
        codec = CountSketch(p, 2, 2)
        chosen, found = codec.unsketch(codec.sketch(X), 3)
        assert chosen.tolist() == positions and found.tolist() == values


@pytest.mark.usefixtures("given")
def test_four_rows_by_hand() -> None:
    """Rows 2 and 3: 5 and 3 + 2; -2 and 5 + 3.

    Entry 0 by 2, 5, 5, 8: 5. Entry 1 by -2, 5, 5, 8: 5. Entry 2 by -2, -5, -5, -2: -3.5.
    """
    codec = CountSketch(1.0, 4, 2)
    table = codec.sketch(X)
    assert table.tolist() == [[2, -2], [5, -5], [5, 5], [-2, 8]]
    assert codec.estimates(table, 3).tolist() == [5, 5, -3.5]


@pytest.mark.usefixtures("given")
@pytest.mark.parametrize(("rows", "wanted"), [(1, 7.0), (2, 4.0), (3, 2.0), (4, 3.0)])
def test_the_median_of_one_to_four_estimates(rows: int, wanted: float) -> None:
    """7; the mean of 1 and 7; 2 of 1, 2, 7; the mean of 2 and 4 of 1, 2, 4, 7."""
    table = torch.zeros(rows, 2)
    for row, value in enumerate([7.0, 1.0, 2.0, 4.0][:rows]):
        cells, signs = PLACES[row]
        table[row, cells[0]] = value * signs[0]
    assert CountSketch(1.0, rows, 2).estimates(table, 1).tolist() == [wanted]


@pytest.mark.usefixtures("given")
def test_the_mean_of_the_middle_two_does_not_overflow() -> None:
    """Both estimates of entry 0 are the largest float32."""
    most = torch.finfo(torch.float32).max
    table = torch.tensor([[most, 0.0], [0.0, -most]])
    assert CountSketch(1.0, 2, 2).estimates(table, 1).tolist() == [most]


def test_a_sketch_is_linear_and_everybody_s_is_the_same() -> None:
    """Of whole numbers to the bit; the seed of a message changes nothing."""
    codec = CountSketch(0.1, 4, 8)
    a, b = torch.arange(50.0), torch.arange(50.0).flip(0) - 20
    assert torch.equal(codec.sketch(2 * a - b), 2 * codec.sketch(a) - codec.sketch(b))
    one, other = (compress(parse("count_sketch(0.1, 4, 8)"), {"w": a}, seed=s)[0] for s in (1, 2))
    assert one.payload == other.payload


@pytest.mark.parametrize("rows", [1, 2, 4, 5])
def test_an_entry_alone_is_found_as_it_is(rows: int) -> None:
    """Nothing else is in its cells: every row estimates 6, and others at most that."""
    x = torch.zeros(40)
    x[17] = 6.0
    method = parse(f"count_sketch(0.025, {rows}, 500)")
    packet, _ = compress(method, {"w": x})
    assert torch.equal(packet.sent["w"].decoded, x)
    assert packet.spans["values"] == 32 * rows * 500
    assert torch.equal(decompress(method, packet.payload, {"w": x})["w"], x)
