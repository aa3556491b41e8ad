"""Integer in-network aggregation: Python's exact mean, or an error that says where."""

from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from compressors import Natural, Switch, compress, parse
from strategies import AccumulatorOverflow, DelayedDSGD, InNetwork, natural_code
from strategies.contrib.innetwork import summed
from tests.support.linear import Pull, grid_of, modded_app, record, vector

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


def test_float32_sums_would_round_before_the_end() -> None:
    """1 + 2**-30 - 1 of three clients: float32 loses the small one, the integers do not."""
    rows = [torch.tensor([v]) for v in (1.0, 2.0**-30, -1.0)]
    found = mean(Natural(6, 0), 64)([{"w": row} for row in rows], 1)["w"]
    assert float(sum(rows)) == 0 and float(found) == np.float32(2.0**-30 / 3)


def test_no_order_changes_the_mean_and_every_tensor_has_its_own() -> None:
    updates = [{**up, "b": torch.tensor([0.25])} for up in drawn(Natural(5, 0), 5)]
    one, other = (mean(Natural(5, 0))(ups, 1) for ups in (updates, updates[::-1]))
    assert list(one) == ["w", "b"] and one["b"].tolist() == [0.25]
    assert torch.equal(one["w"], other["w"])


def test_tensors_without_entries() -> None:
    empty = [{"w": torch.zeros(3, 0)}] * 2
    assert mean(Natural(5, 0))(empty, 1)["w"].shape == (3, 0)


def test_an_overflow_is_named() -> None:
    """Two clients at the top of a window of 31 exponents need 2**31 units."""
    updates = [{"b": torch.zeros(2), "w": torch.tensor([[0.5, 0.5], [1.0, 0.5]])}] * 2
    words = r"round 7, tensor 'w', entry 2: 1073741824 \+ 1073741824 does not fit .* 32 bits"
    with pytest.raises(AccumulatorOverflow, match=words):
        mean(Natural(6, 0))(updates, 7)
    assert mean(Natural(6, 0), 64)(updates, 7)["w"].tolist() == [[0.5, 0.5], [1.0, 0.5]]


def test_every_partial_sum_has_to_fit() -> None:
    """-1 - 1 just fits into two's complement; 1 + 1 does not, even where a -1 follows."""
    up, down = {"w": torch.tensor([1.0])}, {"w": torch.tensor([-1.0])}
    at_switch = mean(Natural(6, 0))
    assert at_switch([down, down], 1)["w"].tolist() == [-1]
    assert at_switch([up, down, up], 1)["w"].tolist() == [float(np.float32(1 / 3))]
    with pytest.raises(AccumulatorOverflow, match="round 1, tensor 'w', entry 0"):
        at_switch([up, up, down], 1)


@pytest.mark.parametrize(
    ("value", "why"), [(0.75, "not a power of two"), (2.0, r"outside 2\*\*-14")]
)
def test_what_the_method_cannot_have_sent(value: float, why: str) -> None:
    with pytest.raises(ValueError, match=rf"round 3, tensor 'w', entry 1 is {value}: .*{why}"):
        mean(Natural(5, 0))([{"w": torch.tensor([1.0, value])}], 3)


@pytest.mark.parametrize(("natural", "width"), [(Natural(7, 0), 32), (Natural(), 64)])
def test_windows_that_no_accumulator_holds(natural: Natural, width: int) -> None:
    with pytest.raises(ValueError, match=f"low of switch, of {width} bits"):
        mean(natural, width)


def test_other_widths() -> None:
    with pytest.raises(ValueError, match="width of switch is 16: accumulators have 32 or 64"):
        mean(Natural(5, 0), 16)


def test_which_methods_send_powers_of_two() -> None:
    for text in ("cnat(5, 0)", "flat(cnat(5, 0))", "ef(cnat(5, 0))", "identity | cnat(5, 0)"):
        assert natural_code(parse(text)) == Natural(5, 0)
    for text in ("raw", "sign(0.5)", "topk(0.1) | cnat(5, 0)", "by_name('*', cnat(5, 0))"):
        assert natural_code(parse(text)) is None


def test_real_messages_at_the_switch() -> None:
    """What 20 clients encode at random stays inside the window, clipped at its top."""
    code, generator = parse("cnat(4, -2)"), torch.Generator().manual_seed(0)
    sent = []
    for seed in range(20):
        update = {"w": torch.randn(300, generator=generator)}
        packet, _ = compress(code, update, seed=seed)
        sent.append({"w": packet.sent["w"].decoded})
    natural = natural_code(code)
    assert natural is not None and Switch.of(natural).capacity >= 20
    assert mean(natural)(sent, 1)["w"].tolist() == exact_mean(natural, sent)


def test_two_rounds_by_hand() -> None:
    """Three clients pull from (0, 0) towards (8, -4), (-4, 4), (2, 0): halves are 4, -2, 1.

    Sums are 3 and 0. From (1, 0) they would go (3.5, -2), (-2.5, 2), (0.5, 0), of which the
    nearest powers are (4, -2), (-2, 2), (0.5, 0): the sums are 2.5 and 0.
    """
    code = parse("cnat(5, 4, nearest)")
    pull = Pull([(8.0, -4.0), (-4.0, 4.0), (2.0, 0.0)])
    grid = grid_of(modded_app(pull, code), 3)
    strategy = DelayedDSGD(code, clients=3, rule=InNetwork())
    strategy.start(grid, record([0.0, 0.0]), num_rounds=2)
    grid.close()
    assert pull.seen == {c: [[0.0, 0.0], [1.0, 0.0]] for c in range(3)}
    assert vector(strategy.channel.weights) == [float(np.float32(1) + np.float32(2.5 / 3)), 0]


def test_other_methods_and_windows_are_refused_when_it_is_built() -> None:
    with pytest.raises(ValueError, match="uplink is .*give a dense cnat"):
        DelayedDSGD(parse("raw"), clients=2, rule=InNetwork())
    with pytest.raises(ValueError, match="uplink is .*32 bits"):
        DelayedDSGD(parse("cnat(7, 0)"), clients=2, rule=InNetwork())
