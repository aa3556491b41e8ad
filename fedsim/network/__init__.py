"""Links and clocks: how long messages of so many bits take, computed and never slept."""

from fedsim.network.clock import PARTS, RoundTimes, round_times
from fedsim.network.presets import PRESETS
from fedsim.network.spec import Links, Network, parse

__all__ = ["PARTS", "PRESETS", "Links", "Network", "RoundTimes", "parse", "round_times"]
