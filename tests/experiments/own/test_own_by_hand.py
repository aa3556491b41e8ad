"""like-for-like's own methods by hand: every number was worked out on paper."""

from typing import Any

import numpy as np
import pytest
import torch

from compressors import CATALOGUE
from tests.support.byhand import arrives, close, spans


def inside(name: str) -> dict[str, Any]:
    """What a method's file defines."""
    names: dict[str, Any] = CATALOGUE[name].make.write.__globals__
    return names


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


def test_what_rounding_leaves_of_a_singular_value_is_no_atom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1e-7 of the largest: with a draw of 0 it would be kept, were it not zero."""
    drawing(monkeypatch, 0.0)
    assert spans("atomo(1)", torch.diag(torch.tensor([1.0, 1e-7, 0.0])))["values"] == 32 * 6
    assert spans("atomo(1)", torch.diag(torch.tensor([1.0, 1e-5, 0.0])))["values"] == 32 * 12
