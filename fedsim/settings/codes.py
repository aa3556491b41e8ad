"""Strategies that aggregate codes: which methods send codes that they can add up or count."""

from typing import TYPE_CHECKING

import compressors
import strategies
from fedsim.errors import UsageError

if TYPE_CHECKING:
    from compressors import Compressor, Natural
    from fedsim.settings.combination import Combination

WIDTH = 32
"""Bits of the accumulators of ``innetwork``: what switches have (SwitchML, Sapio et al. 2021)."""


def votes(method: str, uplink: "Compressor") -> "Compressor":
    """The one bit per entry that carries the votes."""
    votes = strategies.vote_code(uplink)
    if votes is None:
        raise UsageError(
            f"--method is {method!r}: strategy majority counts votes and takes a method "
            "whose every value is plus or minus one magnitude, such as 'sign(0.001)'"
        )
    return votes


def fits_switch(asked: "Combination") -> None:
    """Refuses a cohort whose sums could leave the accumulators, and methods without integers."""
    natural = strategies.natural_code(asked.uplink)
    room = 0 if natural is None else _capacity(natural)
    if natural is not None and room >= asked.cohort:
        return
    if natural is None:
        why = "which is not such a method"
    elif not room:
        why = f"whose powers, 2**{natural.lowest} to 2**{natural.highest}, do not fit them"
    else:
        why = f"whose sums fit them for {room} at most, and the cohort has {asked.cohort}"
    raise UsageError(
        f"--method is {asked.method!r}, {why}: strategy innetwork adds integers of {WIDTH} bits "
        "and takes a dense cnat(bits, top) whose sums fit them for every client of the cohort, "
        "such as 'cnat(5, 0)'"
    )


def adds_sketches(asked: "Combination") -> None:
    """Refuses what is not one count sketch of the whole update: only those can be added up."""
    from compressors.whole.countsketch import CountSketch

    uplink = asked.uplink
    if not (isinstance(uplink, compressors.Flat) and isinstance(uplink.codec, CountSketch)):
        raise UsageError(
            f"--method is {asked.method!r}: strategy fetchsgd adds up count sketches of the whole "
            "update and takes a method that sends one, such as 'fetchsgd(0.01, 5, 500)'"
        )


def _capacity(natural: "Natural") -> int:
    """How many clients can be added up; 0 where the powers of a single client do not fit."""
    try:
        return compressors.Switch.of(natural, WIDTH).capacity
    except ValueError:
        return 0
