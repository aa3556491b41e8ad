"""Links and clocks: how long messages take, computed and never slept."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.network.clock import PARTS, Clock, Exchange
    from fedsim.network.presets import DEVICE_PROFILES, PRESETS
    from fedsim.network.pricing import price
    from fedsim.network.spec import Links, NetworkSpec, parse

__all__ = [
    "DEVICE_PROFILES",
    "PARTS",
    "PRESETS",
    "Clock",
    "Exchange",
    "Links",
    "NetworkSpec",
    "parse",
    "price",
]

make_lazy(__name__)
