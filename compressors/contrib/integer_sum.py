"""Sums of powers of two in a switch that only adds integers (Horváth et al. 2022, section 1).

A programmable switch adds fixed-width integers and nothing else (SwitchML, Sapio et al.
2021). A power of two is an integer already: with 2**low as the unit, +-2**e is the integer
+-1 shifted left by e - low. So messages of ``cnat`` can be summed on the way, exactly, as
long as every exponent lies in the window from ``low`` to ``top`` and no sum leaves the
accumulators. Neither is assumed here: both are refused with an error that names the entry.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from compressors.grammar import shown
from compressors.quantize.natural import Natural
from compressors.settings import check_whole, plain

_DTYPES = {32: torch.int32, 64: torch.int64}


@dataclass(frozen=True)
class Switch:
    """Signed integer accumulators of ``width`` bits, in units of 2**``low``.

    ``low`` and ``top`` are the exponents of the least and of the greatest power of two that a
    client may send, within float32's normal numbers (-126 to 127); 2**top has to fit. Raises
    ``ValueError`` where they do not.

    Example:
        >>> switch = Switch(low=-2, top=3)
        >>> updates = [torch.tensor([0.25, -8.0, 0.0]), torch.tensor([2.0, -1.0, 0.0])]
        >>> switch.sum(updates)
        tensor([  9, -36,   0], dtype=torch.int32)
    """

    low: int
    top: int
    width: int = 32

    def __post_init__(self) -> None:
        plain(self)
        if not isinstance(self.width, int) or self.width not in _DTYPES:
            raise ValueError(
                f"width of switch is {shown(self.width)}: accumulators have 32 or 64 bits"
            )
        check_whole("top of switch", self.top, -126, 127)
        least = max(-126, self.top - self.width + 2)
        check_whole(
            f"low of switch, of {self.width} bits and top {self.top}", self.low, least, self.top
        )

    @classmethod
    def of(cls, natural: Natural, width: int = 32) -> "Switch":
        """The switch for the window of ``cnat(bits, top)``; ``ValueError`` where it is too wide.

        32 bits hold windows of up to 6 bits, 64 bits those of up to 7: what fits exactly
        leaves room for one client, so one bit less is the sensible most.
        """
        return cls(natural.lowest, natural.highest, width)

    @property
    def capacity(self) -> int:
        """The largest number of clients whose sum never overflows, for any values in the window."""
        return ((1 << self.width - 1) - 1) >> (self.top - self.low)

    def integers(self, values: Tensor) -> Tensor:
        """Powers of two and zeros (float32, any shape) as the accumulators' integers.

        Raises ``ValueError`` for an entry that is not a power of two, or is one outside the
        window: left out or rounded, the sum would not be exact.
        """
        bits = values.detach().contiguous().view(torch.int32)
        exponent = ((bits >> 23) & 0xFF) - 127
        zero = (bits & 0x7FFFFFFF) == 0
        self._refuse(values, ((bits & 0x7FFFFF) != 0) & ~zero, "is not a power of two")
        outside = ((exponent < self.low) | (exponent > self.top)) & ~zero
        self._refuse(values, outside, f"lies outside 2**{self.low} to 2**{self.top}")
        one = (~zero).to(_DTYPES[self.width])
        size = one << (exponent - self.low).clamp(0, self.width - 2).to(one.dtype)
        return torch.where(bits < 0, -size, size)

    def _refuse(self, values: Tensor, bad: Tensor, reason: str) -> None:
        if bool(bad.any()):
            at = int(bad.flatten().nonzero()[0])
            raise ValueError(f"entry {at} is {float(values.flatten()[at])!r}: it {reason}")

    def add(self, total: Tensor, integers: Tensor) -> Tensor:
        """The accumulators after one more client; ``total`` is left as it is.

        Raises ``OverflowError`` that names the first entry whose sum does not fit. Each
        partial sum has to, so whether it is raised may depend on the clients' order.
        """
        after = total + integers  # wraps around, as the switch would
        wrapped = ((total ^ after) & (integers ^ after)) < 0
        if bool(wrapped.any()):
            at = int(wrapped.flatten().nonzero()[0])
            one, other = int(total.flatten()[at]), int(integers.flatten()[at])
            raise OverflowError(
                f"entry {at}: {one} + {other} does not fit into a signed integer of "
                f"{self.width} bits; with exponents from {self.low} to {self.top} at most "
                f"{self.capacity} clients never overflow"
            )
        return after

    def sum(self, updates: Iterable[Tensor]) -> Tensor:
        """The exact integer sum of the clients' powers of two, in units of 2**low.

        ``updates`` are float32 tensors of one shape, at least one, on one device. Raises as
        ``integers`` and ``add``, and ``ValueError`` without a client.
        """
        total: Tensor | None = None
        for update in updates:
            numbers = self.integers(update)
            total = self.add(torch.zeros_like(numbers) if total is None else total, numbers)
        if total is None:
            raise ValueError("a sum of no updates has no shape: give at least one")
        return total
