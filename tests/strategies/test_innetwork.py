"""Integer in-network aggregation: Python's exact mean, or an error that says where."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from compressors import Natural, Switch, parse
from strategies import AccumulatorOverflow, DelayedDSGD, InNetwork, natural_code
from strategies.contrib.innetwork import summed

Update = dict[str, torch.Tensor]


def drawn(natural: Natural, clients: int, shape: tuple[int, ...] = (40, 5)) -> list[Update]:
    """Powers of two of every exponent of the window, both signs, and zeros."""
    generator = torch.Generator().manual_seed(clients)
    updates = []
    for _ in range(clients):
        power = torch.randint(natural.lowest, natural.highest + 1, shape, generator=generator)
        sign = torch.randint(-1, 2, shape, generator=generator)
        updates.append({"w": torch.ldexp(sign.float(), power)})
    return updates


def mean(natural: Natural, width: int = 32) -> Any:
    """A switch's mean of updates in a round."""
    return partial(_mean, Switch.of(natural, width))


def _mean(switch: Switch, updates: list[Update], number: int) -> Update:
    return summed(updates, switch, number)


def nearest(exact: Fraction) -> float:
    """The float32 nearest to a fraction, ties to even: by comparing fractions alone."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(s * np.inf)) for s in (-1, 1)]
    some = [near, *around]
    return float(min(some, key=lambda x: (abs(Fraction(float(x)) - exact), x.view(np.uint32) & 1)))


def exact_mean(natural: Natural, updates: list[Update]) -> list[float]:
    """Whole numbers of the lowest power, summed by Python; divided and rounded once."""
    unit = Fraction(2) ** natural.lowest
    rows = [[Fraction(v) / unit for v in up["w"].flatten().tolist()] for up in updates]
    assert all(v.denominator == 1 for row in rows for v in row)
    sums = [sum(int(v) for v in column) for column in zip(*rows, strict=True)]
    return [nearest(s * unit / len(updates)) for s in sums]


@pytest.mark.parametrize("clients", [1, 2, 3, 7, 49])
@pytest.mark.parametrize(
    ("natural", "width"),
    [
        (Natural(5, 0), 32),
        (Natural(5, -6), 32),
        (Natural(5, 127), 32),
        (Natural(5, -112), 32),
        (Natural(6, 2), 64),
    ],
)
def test_the_mean_is_the_integers_mean(natural: Natural, width: int, clients: int) -> None:
    """Windows at both ends of float32 too: a sum beyond it, and means below its normal numbers."""
    updates = drawn(natural, clients)
    found = mean(natural, width)(updates, 1)["w"]
    assert found.dtype == torch.float32 and found.shape == (40, 5)
    assert found.flatten().tolist() == exact_mean(natural, updates)


def test_an_overflow_is_named() -> None:
    """Two clients at the top of a window of 31 exponents need 2**31 units."""
    updates = [{"b": torch.zeros(2), "w": torch.tensor([[0.5, 0.5], [1.0, 0.5]])}] * 2
    words = r"round 7, tensor 'w', entry 2: 1073741824 \+ 1073741824 does not fit .* 32 bits"
    with pytest.raises(AccumulatorOverflow, match=words):
        mean(Natural(6, 0))(updates, 7)
    assert mean(Natural(6, 0), 64)(updates, 7)["w"].tolist() == [[0.5, 0.5], [1.0, 0.5]]


@pytest.mark.parametrize(
    ("value", "why"), [(0.75, "not a power of two"), (2.0, r"outside 2\*\*-14")]
)
def test_what_the_method_cannot_have_sent(value: float, why: str) -> None:
    with pytest.raises(ValueError, match=rf"round 3, tensor 'w', entry 1 is {value}: .*{why}"):
        mean(Natural(5, 0))([{"w": torch.tensor([1.0, value])}], 3)


def test_which_methods_send_powers_of_two() -> None:
    for text in ("cnat(5, 0)", "flat(cnat(5, 0))", "ef(cnat(5, 0))", "identity | cnat(5, 0)"):
        assert natural_code(parse(text)) == Natural(5, 0)
    for text in ("raw", "sign(0.5)", "topk(0.1) | cnat(5, 0)", "by_name('*', cnat(5, 0))"):
        assert natural_code(parse(text)) is None


def test_other_methods_and_windows_are_refused_when_it_is_built() -> None:
    with pytest.raises(ValueError, match="uplink is .*give a dense cnat"):
        DelayedDSGD(parse("raw"), clients=2, rule=InNetwork())
    with pytest.raises(ValueError, match="uplink is .*32 bits"):
        DelayedDSGD(parse("cnat(7, 0)"), clients=2, rule=InNetwork())
