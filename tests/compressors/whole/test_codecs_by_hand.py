"""Codecs of two to eight entries by hand: what arrives, and how many bits it took."""

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import BitReader, BitWriter, compress, decompress, parse
from compressors.contrib import subset
from compressors.contrib.subset import read_places, write_places
from compressors.whole import sketchml
from compressors.whole.lowrank import LowRank, iterate, orthonormal
from tests.support.byhand import arrives, close, spans
from tests.support.generators import to_bits

# --- drive, eden, sketched: rotations -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_drive_of_two_entries(seed: int) -> None:
    """(3, 1) is turned to magnitudes 4 and 2 over sqrt 2, in an order that the seed says.

    Both become 10 / (6 / sqrt 2): their squares over their sum. Turned back that is 10 / 3 and 0;
    with the scale of least error, their mean 3 / sqrt 2, it is 3 and 0.
    """
    assert close(arrives("drive", [3.0, 1.0], seed), [10 / 3, 0.0])
    assert close(arrives("drive(least)", [3.0, 1.0], seed), [3.0, 0.0])
    assert spans("drive", [3.0, 1.0])["values"] == 2 and spans("drive", [3.0, 1.0])["side"] == 32


@pytest.mark.parametrize("seed", range(4))
def test_eden_of_four_entries(seed: int) -> None:
    """(3, 1, 0, 0) is turned to magnitudes 2, 1, 2, 1: root mean square sqrt 2.5 = 1.5811.

    2 / 1.5811 = 1.265 is nearer to the level 1.5104176, 0.632 to 0.4527800 (the edge is 0.9816).
    The unbiased scale is 10 / (4 * 1.5104176 + 2 * 0.4527800), that of least error that sum over
    2 * 1.5104176^2 + 2 * 0.4527800^2. Turned back: the sum and the difference of the two levels.
    """
    high, low = 1.5104176085, 0.4527800346
    both, square = 4 * high + 2 * low, 2 * high**2 + 2 * low**2
    assert both == pytest.approx(6.947230, abs=1e-6)
    for scale, method in ((10 / both, "eden(2)"), (both / square, "eden(2, least)")):
        wanted = [scale * (high + low), scale * (high - low), 0.0, 0.0]
        assert close(arrives(method, [3.0, 1.0, 0.0, 0.0], seed), wanted)
    assert close(arrives("eden(2)", [3.0, 1.0, 0, 0], seed), [2.825872, 1.522389, 0.0, 0.0], 2e-6)


def test_every_block_of_a_rotation_has_a_scale_of_its_own() -> None:
    """Three entries are a block of two and one of one: (3, 1) as above, and 5 as it is."""
    assert close(arrives("drive", [3.0, 1.0, -5.0]), [10 / 3, 0.0, -5.0])
    assert spans("drive", [3.0, 1.0, -5.0])["side"] == 64


def test_sketched_of_two_entries() -> None:
    """All of the turned (3, 1) are the extremes of their grid: exact. Of one of the two, doubled,
    there come (4, 4) or (2, -2), whose mean is (3, 1)."""
    assert close(arrives("sketched(1, 2)", [3.0, 1.0]), [3.0, 1.0])
    found = [arrives("sketched(0.5)", [3.0, 1.0], seed) for seed in range(9)]
    assert {tuple(x.round(decimals=5).tolist()) for x in found} == {(4.0, 4.0), (2.0, -2.0)}
    assert spans("sketched(0.5)", [3.0, 1.0])["values"] == 2


# --- dct, subset --------------------------------------------------------------------------------


def test_a_cosine_transform_of_two_entries() -> None:
    """(3, 1) has the coefficients 4 / sqrt 2 and 2 / sqrt 2; of the first alone come 2 and 2.

    Of (3, 1, 5) in pieces of two the last piece is 5 itself; the two largest of three are sent.
    """
    assert close(arrives("dct(2, topk(0.5) | float32)", [3.0, 1.0]), [2.0, 2.0])
    assert close(arrives("dct(2, topk(0.67) | float32)", [3.0, 1.0, 5.0]), [2.0, 2.0, 5.0])
    assert close(arrives("dct(2, topk(1) | float32)", [3.0, 1.0, 5.0]), [3.0, 1.0, 5.0])


def test_a_cosine_transform_of_a_tile() -> None:
    """[[4, 2], [2, 0]]: mean 4, across 2, down 2, both 0. Of the mean alone 2 everywhere; with the
    first of the equal ones, across, 3 and 1."""
    tile = [[4.0, 2.0], [2.0, 0.0]]
    assert close(arrives("dct(2, topk(0.25) | float32)", tile), [[2.0, 2.0], [2.0, 2.0]])
    assert close(arrives("dct(2, topk(0.5) | float32)", tile), [[3.0, 1.0], [3.0, 1.0]])


def test_a_subset_s_codec_sees_the_drawn_entries_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of eight entries 1, 3 and 6 are drawn: the largest of these is sent, not that of all."""
    asked = []

    def drawn(n: int, k: int, seed: int, device: torch.device) -> Tensor:
        asked.append((n, k))
        return torch.tensor([1, 3, 6])

    monkeypatch.setattr(subset, "drawn", drawn)
    x = [9.0, 2.0, 9.0, -4.0, 9.0, 9.0, 3.0, 9.0]
    got = arrives("subset(0.375, topk(0.34) | float32)", x)
    assert got.tolist() == [0, 0, 0, -4, 0, 0, 0, 0] and set(asked) == {(8, 3)}
    all_three = arrives("subset(0.375, float32)", x)
    assert all_three.tolist() == [0, 2, 0, -4, 0, 0, 3, 0]


# --- threelc ------------------------------------------------------------------------------------


def test_threelc_with_a_sparsity_multiplier() -> None:
    """M = 1.5 * 4 = 6: from above 3 an entry is 6, 3 itself is zero. Two groups of five: a byte
    for the first entries of the parts, a byte for the second ones."""
    assert arrives("threelc(1.5)", [4.0, -3.0, 3.1, -3.1, 0.0]).tolist() == [6, 0, 6, -6, 0]
    sent = spans("threelc(1.5)", [4.0, -3.0, 3.1, -3.1, 0.0, 1.0])
    assert (sent["values"], sent["side"]) == (16, 32)


# --- lowrank ------------------------------------------------------------------------------------


def test_one_power_iteration_by_hand() -> None:
    """M = diag(3, 4, 0) and Q = (1, 1, 0): M Q is (3, 4, 0), of length 5, so P = (0.6, 0.8, 0).

    P M = (1.8, 3.2, 0), and P' (P M) arrives. The next start is (1.8, 3.2, 0) over 3.2.
    """
    matrix = torch.diag(torch.tensor([3.0, 4.0, 0.0]))
    p, q, after = iterate(matrix, torch.tensor([[1.0, 1.0, 0.0]]))
    assert close(p, [[0.6, 0.8, 0.0]]) and close(q, [[1.8, 3.2, 0.0]])
    assert close(after, [[0.5625, 1.0, 0.0]])


def test_powersgd_s_two_messages_by_hand() -> None:
    """The start above. 1: [[1.08, 1.92], [1.44, 2.56]] of [[3, 0], [0, 4]] arrive.

    2, of the same and the residual [[1.92, -1.92], [-1.44, 1.44]]: N = [[4.92, -1.92],
    [-1.44, 5.44]] and Q = (0.5625, 1): N Q = (0.8475, 4.63).
    """
    method, update = parse("powersgd(1)"), {"w": torch.diag(torch.tensor([3.0, 4.0, 0.0]))}
    state = method.init(update) | {"inner/q/w": torch.tensor([[1.0, 1.0, 0.0]])}
    first, state = compress(method, update, state)
    assert close(first.sent["w"].decoded, [[1.08, 1.92, 0], [1.44, 2.56, 0], [0, 0, 0.0]], 1e-5)
    left = [[1.92, -1.92, 0], [-1.44, 1.44, 0], [0, 0, 0.0]]
    assert close(state["residual/w"], left, 1e-5)
    second, _ = compress(method, update, state)
    a, b = 0.8475, 4.63
    unit = a * a + b * b
    rows = [a * 4.92 - b * 1.44, -a * 1.92 + b * 5.44]  # P N, times the length of N Q
    wanted = [
        [a * rows[0] / unit, a * rows[1] / unit, 0],
        [b * rows[0] / unit, b * rows[1] / unit, 0],
        [0, 0, 0.0],
    ]
    assert close(second.sent["w"].decoded, wanted, 1e-4)


def test_rows_are_made_orthonormal_in_order() -> None:
    """(3, 4) has length 5; of (1, 0) the part 0.6 along it goes, (0.64, -0.48) is left."""
    found = orthonormal(torch.tensor([[3.0, 4.0], [1.0, 0.0]]).double())
    assert close(found.float(), [[0.6, 0.8], [0.8, -0.6]])
    assert close(orthonormal(torch.tensor([[1.0, 1.0], [2.0, 2.0]]).double())[1].float(), [0.0, 0])


def test_what_low_rank_costs() -> None:
    """3 + 3 numbers for 9 of rank 1; at 2 * (3 + 3) > 9 and of a vector every entry."""
    assert spans("lowrank(1)", torch.ones(3, 3))["values"] == 32 * 6
    assert spans("lowrank(2)", torch.ones(3, 3))["values"] == 32 * 9
    assert spans("lowrank(1)", torch.ones(9))["values"] == 32 * 9
    assert spans("lowrank(1)", torch.ones(2, 2))["values"] == 32 * 4  # 1 * 4 numbers are as many
    assert LowRank(1).init({"w": torch.ones(2, 2)}) == {}


# --- places, tables, pipelines, lifts, raw ------------------------------------------------------


def test_places_by_hand() -> None:
    """1 and 4 of 8: gamma(3) is 011. A quarter is sent, so gaps less one have one low bit:
    2 - 1 = 1 is 0 1 (no one, a zero, the bit), 3 - 1 = 2 is 10 0."""
    out = BitWriter()
    write_places(np.array([1, 4]), 8, out)
    assert to_bits(out.to_bytes())[: out.position] == "011" + "01" + "100"
    assert read_places(BitReader(out.to_bytes()), 8).tolist() == [1, 4]
    none = BitWriter()
    write_places(np.zeros(0, np.int64), 8, none)
    assert none.position == 1 and to_bits(none.to_bytes())[0] == "1"


def test_a_min_max_sketch_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys 0, 1, 2 with the numbers 3, 1, 2 below 5, in three columns.

    Row 0 puts them into the cells 0, 0, 1: the least of 3 and 1, then 2; nothing in cell 2 is 4.
    Row 1 into 1, 0, 0: the least of 1 and 2, then 3. A key's number is the largest of its cells.
    """
    cells = {0: np.array([0, 0, 1]), 1: np.array([1, 0, 0])}
    monkeypatch.setattr(sketchml, "_cells", lambda keys, row, columns, seed: cells[row][keys])
    keys = np.arange(3)
    table = sketchml.make_table(keys, np.array([3, 1, 2]), 5, 2, 3, 0)
    assert table.tolist() == [[1, 2, 4], [1, 3, 4]]
    assert sketchml.ask(table, keys, 0).tolist() == [3, 1, 2]
    out = BitWriter()
    sketchml.write_table(table, 5, out)
    assert to_bits(out.to_bytes())[: out.position] == "001010100001011100"
    assert [sketchml.columns_of(n, 0.3) for n in (1, 3, 4, 10)] == [1, 1, 2, 3]


def test_a_pipeline_s_bits_by_hand() -> None:
    """A bit and two positions of two bits where both of two entries travel; where one does, a
    zero and gamma(2), and one position. Behind the header of 24 bits."""
    two = spans("topk(0.5) | float32 | fixed", [4.0, 0, 0, 1.0])
    assert (two["positions"], two["values"]) == (4, 64)
    one = spans("topk(0.5) | float32 | fixed", [4.0, 0, 0, 0])
    assert (one["positions"], one["values"]) == (2, 32)
    out = [BitWriter() for _ in range(2)]
    codec = parse("topk(0.5) | float32 | fixed").codec
    for writer, x in zip(out, ([4.0, 0, 0, 1.0], [0, 0, 4.0, 0]), strict=True):
        codec.write(torch.tensor(x), writer, 0)
    assert to_bits(out[0].to_bytes())[:5] == "10011"
    assert to_bits(out[1].to_bytes())[:6] == "001010"


def test_a_last_block_is_cut_off_at_the_tensor_s_end() -> None:
    """Blocks of two of five entries: of the last there is one entry."""
    method, x = "blocks(2, 0.34) | float32 | fixed", [1.0, 1.0, 2.0, 0.0, 3.0]
    assert arrives(method, x).tolist() == [0, 0, 0, 0, 3] and spans(method, x)["values"] == 32


def test_a_threshold_of_all_and_one_of_each() -> None:
    """Half of (5, 4) and (1, 2): together 5 and 4, by themselves 5 and 2."""
    update = {"a": torch.tensor([5.0, 4.0]), "b": torch.tensor([1.0, 2.0])}
    for method, wanted in (
        ("flat(topk(0.5) | float32)", [[5, 4], [0, 0]]),
        ("topk(0.5) | float32", [[5, 0], [0, 2]]),
        ("by_name('b', raw, '*', topk(0.5) | float32)", [[5, 0], [1, 2]]),
    ):
        packet, _ = compress(parse(method), update)
        got = decompress(parse(method), packet.payload, update)
        assert [x.tolist() for x in got.values()] == wanted


def test_raw_is_the_floats_as_they_are() -> None:
    """1 is 3f800000 and -2.5 is c0200000, behind three bytes of header."""
    update = {"a": torch.tensor([1.0]), "b": torch.tensor([[-2.5]])}
    packet, _ = compress(parse("raw"), update)
    assert packet.payload[3:].hex() == "3f800000c0200000"
    assert packet.spans == {"header": 24, "positions": 0, "values": 64, "side": 0}
