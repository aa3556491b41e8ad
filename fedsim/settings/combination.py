"""What a strategy is built from, and what it is combined with.

A file of its own: both the strategies' table and the files that its rows name take these.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from compressors import Compressor
    from fedsim.network.spec import Network


@dataclass(frozen=True)
class Parts:
    """What a strategy is built from.

    ``common``: what every strategy takes (``strategies.ChannelStrategy``); ``optimizer``: makes the
    task's optimizer of a model's parameters; ``factor``: round -> factor on its learning rate;
    ``staleness``, ``buffer_size``: of asynchronous strategies, None where they are not given.
    """

    uplink: "Compressor"
    downlink: "Compressor"
    common: Mapping[str, Any]
    weighting: str
    server_lr: float | None
    optimizer: Callable[[Any], Any]
    factor: Callable[[int], float]
    staleness: str | None = None
    buffer_size: int | None = None


@dataclass(frozen=True)
class Combination:
    """What a strategy is combined with: the method's text, its compressor, numbers of the run."""

    method: str
    uplink: "Compressor"
    temporal: int
    cohort: int
    required: int
    masks: bool
    clients: int
    server_lr: float | None
    staleness: str | None
    network: "Network | None"
    late: str
