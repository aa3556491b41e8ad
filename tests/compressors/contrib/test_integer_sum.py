"""Integer sums of powers of two against Python's own integers and fractions."""

import pytest
import torch

from compressors import Switch
from tests.support.generators import DEVICES

every_device = pytest.mark.parametrize("device", DEVICES)


@pytest.mark.parametrize("width", [32, 64])
@pytest.mark.parametrize("sign", [1, -1])
def test_capacity_is_the_last_sum_that_never_overflows(width: int, sign: int) -> None:
    """The greatest power of all clients, which is the worst that they can send."""
    switch = Switch(width - 2 - 3, width - 2, width)  # 2**3 units at most
    room = (1 << width - 1) - 1
    assert switch.capacity == room // 8
    update = torch.tensor([0.0, sign * 2.0**switch.top])
    total = torch.zeros(2, dtype=switch.integers(update).dtype)
    total[1] = sign * 8 * (switch.capacity - 1)  # as if all but one had been added
    full = switch.add(total, switch.integers(update))
    assert int(full[1]) == sign * 8 * switch.capacity
    if sign > 0:
        with pytest.raises(OverflowError, match=rf"entry 1: \d+ \+ 8 .* {width} bits"):
            switch.add(full, switch.integers(update))
    else:  # two's complement holds one number more below zero
        last = switch.add(full, switch.integers(update))
        assert int(last[1]) == -(1 << width - 1)
        with pytest.raises(OverflowError, match=rf"at most {switch.capacity} clients"):
            switch.add(last, switch.integers(update))


@every_device
@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (0.75, "entry 2 is 0.75: it is not a power of two"),
        (2.0**-4, "entry 2 is 0.0625: it lies outside 2\\*\\*-3 to 2\\*\\*3"),
        (-(2.0**4), "entry 2 is -16.0: it lies outside"),
        (2.0**-140, "is not a power of two|lies outside"),
        (float("inf"), "entry 2 is inf: it lies outside"),
        (float("nan"), "entry 2 is nan: it is not a power of two"),
    ],
)
def test_what_would_not_be_exact_is_refused(entry: float, why: str, device: str) -> None:
    values = torch.tensor([[1.0, 0.0], [entry, entry]], device=device)
    with pytest.raises(ValueError, match=why):
        Switch(-3, 3).sum([torch.ones(2, 2, device=device), values])


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ((-3, 3, 16), "width of switch is 16: accumulators have 32 or 64 bits"),
        ((-28, 3, 32), "low of switch, of 32 bits and top 3 is -28: .* from -27 to 3"),
        ((4, 3, 32), "low of switch.* is 4"),
        ((-60, 3, 64), "is -60: .* from -59 to 3"),
        ((0, 128, 64), "top of switch is 128: .* from -126 to 127"),
        ((-127, -126, 32), "from -126 to -126"),
    ],
)
def test_bad_switches(settings: tuple[int, int, int], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Switch(*settings)
