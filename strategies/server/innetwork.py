"""In-network aggregation: powers of two, added as integers on the way to the server."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from compressors import Compressor, Natural, Switch
from strategies.channel.traffic import Uplink
from strategies.server.dense import dense_quantizer


class AccumulatorOverflow(OverflowError):
    """A switch's sum left its accumulators; the message names the round, tensor and entry."""


@dataclass(frozen=True)
class InNetwork:
    """The mean of natural compression's powers of two, summed as integers by a ``Switch``.

    What a switch that only adds integers makes of a round (Horváth et al. 2022, section 1;
    SwitchML, Sapio et al. 2021), as the ``aggregate`` of ``DelayedDSGD``. The uplinks are
    those of a dense ``cnat(bits, top)``, equal to ``natural``; signed accumulators of
    ``width`` bits (32 or 64) hold multiples of its lowest power. They are added in client
    order, and the server divides the sum by the number of clients.

    The sum is exact. float32 enters once, at the end: each entry is the float32 nearest to
    the exact quotient, ties to even. (The division is in float64, which holds the sum. Its
    own rounding is not seen: a quotient of such integers is the midpoint of two float32, or
    lies further from it than float64 rounds. That takes fewer than 2**22 clients, and no more
    than the switch's capacity.) The mean never overflows, being at most the greatest power.

    Raises ``ValueError`` for a window that accumulators of ``width`` bits cannot hold; and on
    a round ``AccumulatorOverflow`` where a partial sum does not fit (never with up to
    ``Switch.of(natural, width).capacity`` clients), and ``ValueError`` for an update that
    ``natural`` cannot have made.

    Example:
        >>> import torch
        >>> ups = [{"w": torch.tensor(v)} for v in ([0.5, -1.0], [0.25, 0.0], [0.25, -0.5])]
        >>> InNetwork(Natural(5, 0)).of(ups, round_number=1)
        {'w': tensor([ 0.3333, -0.5000])}
    """

    natural: Natural
    width: int = 32

    def __post_init__(self) -> None:
        Switch.of(self.natural, self.width)

    def __call__(self, uplinks: Mapping[int, Uplink], round_number: int) -> dict[str, Tensor]:
        """The mean of a round's uplinks, by client."""
        return self.of([up.update for up in uplinks.values()], round_number)

    def of(self, updates: list[dict[str, Tensor]], round_number: int) -> dict[str, Tensor]:
        """The mean of decoded updates, of which there is at least one."""
        return {
            name: self._mean(f"round {round_number}, tensor {name!r}", [u[name] for u in updates])
            for name in updates[0]
        }

    def _mean(self, where: str, updates: list[Tensor]) -> Tensor:
        switch = Switch.of(self.natural, self.width)
        try:
            total = switch.sum(updates)
        except OverflowError as error:
            raise AccumulatorOverflow(f"{where}, {error}") from error
        except ValueError as error:
            raise ValueError(f"{where}, {error}") from error
        return (total.double() * 2.0**switch.low / len(updates)).float()


def natural_code(uplink: Compressor) -> Natural | None:
    """The natural compression that ``uplink`` sends every entry with; None where it does not.

    With residuals or without: what is decoded is powers of two alike.

    Example:
        >>> from compressors import parse
        >>> natural_code(parse("ef(cnat(5, 0))")), natural_code(parse("topk(0.1) | cnat"))
        (Natural(bits=5, top=0, rounding='random'), None)
    """
    quantizer = dense_quantizer(uplink)
    return quantizer if isinstance(quantizer, Natural) else None
