"""like-for-like's own methods by hand: every number was worked out on paper."""

from typing import Any

import numpy as np
import pytest
import torch

from compressors import CATALOGUE, compress, parse
from tests.support.byhand import arrives, close, sends, spans


def inside(name: str) -> dict[str, Any]:
    """What a method's file defines."""
    names: dict[str, Any] = CATALOGUE[name].make.write.__globals__
    return names


def test_adacomp_by_hand_with_a_bin_of_zeros_and_a_short_last_one() -> None:
    """Bins of three: (1, 4, -3), (0, 0, 0), (2, -1). G is the sum so far, H the update once more.

    1. H = 2 G: those of 4 / 2 and more in the first, both of the last (2 * 1 = 2); zeros never.
       The magnitude is (4 + 0 + 2) / 3 = 2.
    2. G = (2, 2, -1), 0, (0, 1) and H = (3, 2, -1), 0, (0, 1): the first two and the last; the
       magnitude is (2 + 0 + 1) / 3 = 1.
    3. G = (-2, 1, -1), H = (-5, 1, -1): the first alone, negative; magnitude 2 / 3.
    """
    state = sends(
        "adacomp(3)",
        "residue",
        [
            (
                [1.0, 4.0, -3.0, 0, 0, 0, 2.0, -1.0],
                [0, 2, -2, 0, 0, 0, 2, -2],
                [1, 2, -1, 0, 0, 0, 0, 1],
            ),
            ([1.0, 0, 0, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0, 1], [1, 1, -1, 0, 0, 0, 0, 0]),
        ],
    )
    packet, state = compress(parse("adacomp(3)"), {"w": torch.tensor([-3.0] + [0.0] * 7)}, state)
    assert close(packet.sent["w"].decoded, [-2 / 3] + [0.0] * 7)
    assert close(state["residue/w"], [-4 / 3, 1, -1, 0, 0, 0, 0, 0])
    assert (packet.spans["side"], packet.spans["values"]) == (32, 1)


def test_adacomp_leaves_what_the_update_turns_back() -> None:
    """G = (3, 2) after an update of (-1, 2): H = (2, 4) reaches 3 at the second alone."""
    state = {"residue/w": torch.tensor([4.0, 0.0])}
    packet, _ = compress(parse("adacomp(2)"), {"w": torch.tensor([-1.0, 2.0])}, state)
    assert packet.sent["w"].decoded.tolist() == [0, 3]


def test_variance_based_by_hand() -> None:
    """alpha 1, decay 1 / 2. r is the sum, v the sum of squares, which fades.

    1. r^2 = v everywhere: nothing. v becomes (4.5, 0.5, 0.5).
    2. r = (6, -2, 0), v = (13.5, 1.5, 1.5): the first two go, 6 as 4, which is the largest cut
       down to a power; they start again. v of the third is 0.75.
    3. r = (1, 1, 2), v = (1, 1, 4.75): nothing.
    """
    state = sends(
        "variance_based(1, 0.5)",
        "sums",
        [
            ([3.0, -1.0, 1.0], [0, 0, 0], [3, -1, 1]),
            ([3.0, -1.0, -1.0], [4, -2, 0], [0, 0, 0]),
            ([1.0, 1.0, 2.0], [0, 0, 0], [1, 1, 2]),
        ],
    )
    assert state["squares/w"].tolist() == [0.5, 0.5, 2.375]


@pytest.mark.parametrize(("second", "sent"), [(-0.5, False), (-0.4375, True)])
def test_variance_based_sends_by_the_faded_squares_alone(second: float, sent: bool) -> None:
    """2, then -1/2: r = 1.5, v = 4 / 2 + 1 / 4 = 2.25 = r^2 waits. Then -7/16: r^2 = 2.44 goes,
    above v = 2 + 0.19; unfaded v would be 4.19."""
    method = parse("variance_based(1, 0.5)")
    _, state = compress(method, {"w": torch.tensor([2.0])})
    packet, _ = compress(method, {"w": torch.tensor([second])}, state)
    assert packet.sent["w"].count == int(sent)


def test_variance_based_s_powers_by_hand() -> None:
    """The largest, 300, is cut down to 256; 3 goes up to 4, 2.9 down to 2, 2 is seven halvings
    below 256 and goes; 1 is eight below and waits, and so does its square, faded."""
    method = parse("variance_based(0.5, 0.5)")
    packet, state = compress(method, {"w": torch.tensor([300.0, -3.0, 2.9, 2.0, 1.0])})
    assert packet.sent["w"].decoded.tolist() == [256, -4, 2, 2, 0]
    assert (packet.spans["values"], packet.spans["side"]) == (4 * 4, 8)
    assert state["sums/w"].tolist() == [0, 0, 0, 0, 1]
    assert state["squares/w"].tolist() == [0, 0, 0, 0, 0.5]


def test_inceptionn_s_tags_by_hand() -> None:
    """b = 10: below 2^-10 nothing; up to 2^-3 a byte, cut to 2^-10: 0.1249 * 1024 = 127.9; up to 1
    two bytes, cut to 2^-15: 0.3 * 32768 = 9830.4; from 1 on a float."""
    x = [0.0009, 2.0**-10, 0.1249, 0.125, 0.3, -1.0]
    got = arrives("inceptionn(10)", x)
    assert got.tolist() == [0, 2.0**-10, 127 / 1024, 0.125, 9830 / 32768, -1]
    assert spans("inceptionn(10)", x)["values"] == 6 * 2 + 2 * 8 + 2 * 16 + 32


def test_inceptionn_of_a_wide_bound() -> None:
    """b = 6: a byte has steps of 2^-7, and takes all below 1: 0.3 * 128 = 38.4."""
    got = arrives("inceptionn(6)", [0.0156, 2.0**-6, -0.3, 0.999])
    assert got.tolist() == [0, 2.0**-6, -38 / 128, 127 / 128]
    assert spans("inceptionn(6)", [0.0156, 2.0**-6, -0.3, 0.999])["values"] == 8 + 3 * 8


def test_sz_s_predictions_by_hand() -> None:
    """[[0, 2], [1, 4]], steps of 1: 0 as predicted; 2 steps from the left 0; 1 from the upper 0;
    left 1 plus upper 2 less corner 0 is 3, one step below 4."""
    x = np.array([[0, 2], [1, 4]], np.float32)
    codes, done = np.empty(x.shape, np.int16), np.empty(x.shape, np.float32)
    raw = inside("sz")["_encode"](x, 0.5, 100, codes, done)
    assert (codes - 100).tolist() == [[0, 2], [1, 1]] and raw == 0 and np.array_equal(x, done)
    assert arrives("sz(0.125)", x).tolist() == x.tolist()


def test_sz_predicts_from_what_is_decoded() -> None:
    """Spread 2, bound 0.5, steps of 1: 0.6 becomes 1, 1.1 is predicted as 1, 2 as 1 plus a step."""
    assert arrives("sz(0.25)", [0.0, 0.6, 1.1, 2.0]).tolist() == [0, 1, 1, 2]


def test_what_is_too_many_steps_off_travels_as_it_is() -> None:
    """From 0 to 1 in steps of 2e-5 are 50,000, of 16,383 at most: 32 bits more, and exact."""
    assert arrives("sz(1e-5)", [0.0, 1.0]).tolist() == [0, 1]
    x = np.array([[0, 99, 100]], np.float32)
    codes, done = np.empty(x.shape, np.int16), np.empty(x.shape, np.float32)
    raw = inside("sz")["_encode"](x, 0.5, 99, codes, done)
    assert raw == 1  # 99 steps are no symbol of 1 to 197
    assert codes.tolist() == [[99, 0, 100]]


SIZES = [20.0, 8.0, 1.75, 1.25, 0.75, 0.25, 0.0]
"""Three of them are expected. 3 * 20 / 32 is above 1, and then 2 * 8 / 12 too: both are certain.
One is left for the other four, which sum to 4: chances 0.4375, 0.3125, 0.1875 and 0.0625."""


def drawing(monkeypatch: pytest.MonkeyPatch, share: float) -> None:
    """Every atom's draw is this share."""
    monkeypatch.setitem(
        inside("atomo"), "words", lambda seed, n: np.full(n.size, int(share * 2**32))
    )


@pytest.mark.parametrize(
    ("draw", "kept"),
    [
        (0.999, []),
        (0.4376, []),
        (0.4374, [4.0]),
        (0.2, [4.0, 4.0]),
        (0.07, [4.0] * 3),
        (0.06, [4.0] * 4),
        (0.0, [4.0] * 4),
    ],
)
def test_atomo_s_chances_by_hand(
    monkeypatch: pytest.MonkeyPatch, draw: float, kept: list[float]
) -> None:
    """What is kept below certainty is divided by its chance: 1.75 / 0.4375 = 4, as all others."""
    drawing(monkeypatch, draw)
    sizes = [20.0, 8.0, *kept, *[0.0] * (5 - len(kept))]
    matrix = torch.diag(torch.tensor(SIZES))
    assert close(arrives("atomo(3)", matrix), torch.diag(torch.tensor(sizes)).tolist(), 1e-5)
    assert spans("atomo(3)", matrix)["values"] == 32 * (2 + len(kept)) * 14


def test_atomo_without_certain_atoms_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """5, 4, 3, 2, 1, 1 sum to 16: with three expected 3 / 16 times each, 0.94, 0.75, 0.56, 0.375.

    With a draw of 0.5 the first three are kept, each as 16 / 3.
    """
    drawing(monkeypatch, 0.5)
    matrix = torch.diag(torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0, 1.0, 0.0]))
    wanted = torch.diag(torch.tensor([16 / 3] * 3 + [0.0] * 4))
    assert close(arrives("atomo(3)", matrix), wanted.tolist(), 1e-5)


def test_plain_atomo_keeps_the_singular_values(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing(monkeypatch, 0.2)
    wanted = torch.diag(torch.tensor([20.0, 8.0, 1.75, 1.25, 0, 0, 0]))
    assert close(arrives("atomo(3, false)", torch.diag(torch.tensor(SIZES))), wanted.tolist(), 1e-5)


def test_what_rounding_leaves_of_a_singular_value_is_no_atom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1e-7 of the largest: with a draw of 0 it would be kept, were it not zero."""
    drawing(monkeypatch, 0.0)
    assert spans("atomo(1)", torch.diag(torch.tensor([1.0, 1e-7, 0.0])))["values"] == 32 * 6
    assert spans("atomo(1)", torch.diag(torch.tensor([1.0, 1e-5, 0.0])))["values"] == 32 * 12
