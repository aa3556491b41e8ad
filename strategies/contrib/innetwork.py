"""In-network aggregation: powers of two, added as integers on the way to the server."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from compressors import Compressor, Natural, State, Switch, Tensors
from strategies.algorithms.base import Algorithm, RoundInfo, Step, Uplinks
from strategies.algorithms.requirements import Setup, Unmet, dense_quantizer, fixed_codes


class AccumulatorOverflow(OverflowError):
    """A switch's sum left its accumulators; the message names the round, tensor and entry."""


def integers(algorithm: "InNetwork", setup: Setup) -> Unmet | None:
    """A method of powers of two, whose sums over a cohort fit the accumulators."""
    natural = natural_code(setup.uplink)
    try:
        capacity = 0 if natural is None else Switch.of(natural, algorithm.width).capacity
    except ValueError:  # the powers of a single client do not fit
        capacity = 0
    if natural is not None and capacity >= (setup.cohort or 1):
        return None
    if natural is None:
        reason = "and the method is none of dense powers of two"
    elif not capacity:
        reason = f"which do not hold powers from 2**{natural.lowest} to 2**{natural.highest}"
    else:
        reason = f"which hold the sums of {capacity} clients, and the cohort has {setup.cohort}"
    instead = "a dense cnat(bits, top) whose sums fit them, such as 'cnat(5, 0)'"
    return Unmet("uplink", f"adds integers of {algorithm.width} bits, {reason}", instead)


@dataclass(frozen=True)
class InNetwork(Algorithm):
    """The mean of natural compression's powers of two, summed as integers by a ``Switch``.

        u_k = 2^low i_k
        w' = w + 2^low (sum_k i_k) / m

    Here u_k is the decoded update of client k, i_k the integers that the switch adds, 2^low the
    method's lowest power, and m the number of clients whose updates came.

    What a switch that only adds integers makes of a round. The uplinks are those of a dense
    ``cnat(bits, top)``; signed accumulators of ``width`` bits (32 or 64) hold multiples of its
    lowest power. They are added in client order, and the server divides the sum by the number of
    clients.

    The sum is exact. float32 enters once, at the end: each entry is the float32 nearest to
    the exact quotient, ties to even. (The division is in float64, which holds the sum. Its
    own rounding is not seen: a quotient of such integers is the midpoint of two float32, or
    lies further from it than float64 rounds. That takes fewer than 2**22 clients, and no more
    than the switch's capacity.) The mean never overflows, being at most the greatest power.

    Args:
        width: bits of the accumulators; switches have 32.

    ``step`` raises ``AccumulatorOverflow`` where a partial sum does not fit (never with up to
    ``Switch.of(natural, width).capacity`` clients), and ``ValueError`` for an update that the
    method cannot have made.

    Source: Horváth et al. 2022 (natural compression), section 1; SwitchML, Sapio et al. 2021.

    Example:
        >>> import torch
        >>> ups = [{"w": torch.tensor(v)} for v in ([0.5, -1.0], [0.25, 0.0], [0.25, -0.5])]
        >>> summed(ups, Switch.of(Natural(5, 0), 32), round_number=1)
        {'w': tensor([ 0.3333, -0.5000])}
    """

    adds_codes = True
    requires = (integers, fixed_codes)
    width: int = 32

    def step(self, uplinks: Uplinks, state: State, model: Tensors, info: RoundInfo) -> Step:
        natural = natural_code(info.uplink)
        assert natural is not None
        switch = Switch.of(natural, self.width)
        return summed([up.update for up in uplinks.values()], switch, info.number), state


def summed(updates: Sequence[Tensors], switch: Switch, round_number: int) -> dict[str, Tensor]:
    """The mean of decoded updates, of which there is at least one."""
    mean = {}
    for name in updates[0]:
        where = f"round {round_number}, tensor {name!r}"
        try:
            total = switch.sum([update[name] for update in updates])
        except OverflowError as error:
            raise AccumulatorOverflow(f"{where}, {error}") from error
        except ValueError as error:
            raise ValueError(f"{where}, {error}") from error
        mean[name] = (total.double() * 2.0**switch.low / len(updates)).float()
    return mean


def natural_code(uplink: Compressor) -> Natural | None:
    """The natural compression that ``uplink`` sends every entry with; None where it does not.

    Decoded values are powers of two, with residuals and without.

    Example:
        >>> from compressors import parse
        >>> natural_code(parse("ef(cnat(5, 0))")), natural_code(parse("topk(0.1) | cnat"))
        (Natural(bits=5, top=0, rounding='random'), None)
    """
    quantizer = dense_quantizer(uplink)
    return quantizer if isinstance(quantizer, Natural) else None
