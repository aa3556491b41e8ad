"""Sparse Binary Compression: Algorithm 2 by hand, against a slow twin, and its bits on LeNet5."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import compress, parse, sbc
from compressors.coders.golomb import expected_position_bits
from tests.support.examples import asked_of
from tests.support.generators import DEVICES, updates

LENET5 = {
    "conv1.weight": (20, 1, 5, 5),
    "conv1.bias": (20,),
    "conv2.weight": (50, 20, 5, 5),
    "conv2.bias": (50,),
    "fc1.weight": (500, 800),
    "fc1.bias": (500,),
    "fc2.weight": (10, 500),
    "fc2.bias": (10,),
}


def one_side(x: Tensor, p: float, sign: int) -> tuple[Tensor, float]:
    """The k entries furthest on one side (ties to the lowest index), and their mean magnitude."""
    key = sign * x.detach().cpu().reshape(-1).double()
    k = min(key.numel(), max(1, round(p * key.numel())))
    order = torch.sort(-key, stable=True).indices[:k]
    order = order[key[order] > 0]  # what is not on this side is never sent
    return order, float(key[order].mean()) if len(order) else 0.0


def algorithm_2(x: Tensor, p: float) -> Tensor:
    """SBC, Algorithm 2, line by line with torch's stable sort (lines 6, 8: exactly k entries)."""
    out = torch.zeros(x.numel(), dtype=torch.float64)
    (high, above), (low, below) = one_side(x, p, 1), one_side(x, p, -1)
    if above >= below:
        out[high] = above
    else:
        out[low] = -below
    return out.float().reshape(x.shape)


def decoded(p: float, x: Tensor) -> Tensor:
    return compress(sbc(p), {"w": x})[0].sent["w"].decoded


@pytest.mark.parametrize(
    ("p", "entries", "expected"),
    [
        (0.5, [1, -3, 2, -2], [0, -2.5, 0, -2.5]),  # mu- = 2.5 beats mu+ = 1.5
        (0.5, [3, -1, -2, 2], [2.5, 0, 0, 2.5]),
        (0.5, [2, -2, 1, -1], [1.5, 0, 1.5, 0]),  # equal means: the positive side
        (0.25, [2, -2, 1, -1], [2, 0, 0, 0]),
        (0.25, [1, 1, 1, 1], [1, 0, 0, 0]),  # ties: the lowest index
        (0.5, [-1, -1, -1, -1], [-1, -1, 0, 0]),
        (0.5, [0, 4, 0, 0], [0, 4, 0, 0]),  # one entry above zero: mu over what is sent
        (0.75, [5, 1, 0, -4, -4, -4, 0, 0], [0, 0, 0, -4, -4, -4, 0, 0]),  # 3 against 4
        (0.01, [0.5, -0.25], [0.5, 0]),  # at least one entry
        (0.5, [0, 0, 0, 0], [0, 0, 0, 0]),
        (0.75, [1, 2, 4, 8], [0, 14 / 3, 14 / 3, 14 / 3]),
    ],
)
def test_by_hand(p: float, entries: list[float], expected: list[float]) -> None:
    got = decoded(p, torch.tensor(entries, dtype=torch.float32))
    assert torch.equal(got, torch.tensor(expected))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("p", [0.001, 0.01, 0.1, 0.3, 0.5, 0.9])
@asked_of(updates())
def test_against_the_slow_twin(device: str, p: float, update: dict[str, Tensor]) -> None:
    """Equal support; the mean is a float64 sum in another order: one unit in the last place.

    Two sides whose means are equal but for the order of those sums are left out, unless
    they are sums of whole numbers, which are exact.
    """
    packet, _ = compress(sbc(p), {name: x.to(device) for name, x in update.items()})
    for name, x in update.items():
        above, below = one_side(x, p, 1)[1], one_side(x, p, -1)[1]
        if abs(above - below) <= 1e-12 * above and not torch.equal(x, x.round()):
            continue
        expected, got = algorithm_2(x, p), packet.sent[name].decoded.cpu()
        assert torch.equal(expected != 0, got != 0)
        torch.testing.assert_close(got, expected, rtol=2.0**-23, atol=0)


def test_two_rounds_by_hand() -> None:
    """The residual of what was not sent, and of what the mean took or added, comes along."""
    packet, memory = compress(sbc(0.5), {"w": torch.tensor([4.0, 2.0, 1.0, -2.0])})
    assert packet.sent["w"].decoded.tolist() == [3, 3, 0, 0]
    assert memory["residual/w"].tolist() == [1, -1, 1, -2]
    packet, memory = compress(sbc(0.5), {"w": torch.tensor([0.0, -4.0, 0.0, 1.0])}, memory)
    assert packet.sent["w"].decoded.tolist() == [0, -3, 0, -3]  # of [1, -5, 1, -1]
    assert memory["residual/w"].tolist() == [1, -2, 1, 2]


def lenet5() -> dict[str, Tensor]:
    rng = np.random.default_rng(0)
    update = {
        name: torch.from_numpy(rng.standard_normal(shape).astype(np.float32))
        for name, shape in LENET5.items()
    }
    assert sum(x.numel() for x in update.values()) == 431_080
    return update


@pytest.mark.parametrize("p", [0.01, 0.001])
def test_bits_on_lenet5(p: float) -> None:
    """Equation 5 within 3 %, a mean of 32 bits a tensor, framing of 8 bytes and a bit a tensor.

    3 % holds the noise of 431 random positions (0.6 %, one standard error) and the small
    tensors, whose k of at least one is denser than p and so cheaper.
    """
    packet, _ = compress(sbc(p), lenet5())
    sent = sum(one.count for one in packet.sent.values())
    assert sent == sum(max(1, round(p * math.prod(shape))) for shape in LENET5.values())
    assert packet.spans["positions"] / sent == pytest.approx(expected_position_bits(p), rel=0.03)
    assert packet.spans["side"] == 32 * len(LENET5)
    assert packet.spans["values"] == 0
    assert packet.spans["header"] <= 64 + len(LENET5)
    assert 8 * len(packet.payload) == sum(packet.spans.values())


@pytest.mark.parametrize("p", [0.01, 0.001])
def test_gradient_dropping_on_lenet5(p: float) -> None:
    for scope in ("tensor", "model"):
        packet, _ = compress(parse(f"gradient_dropping({p}, scope={scope})"), lenet5())
        sent = sum(one.count for one in packet.sent.values())
        assert packet.spans["positions"] / sent == pytest.approx(
            expected_position_bits(p), rel=0.03
        )
        assert packet.spans["values"] == 32 * sent
        assert packet.spans["side"] == 0
