"""Flower's clipping wrappers, which may not be around a strategy whose replies hold bytes.

They clip the arrays of replies. Around a strategy of ours there are no arrays, so they would clip
nothing, without a warning. Inside ``Compressed`` they see what the receiver decodes.
"""

import sys
from collections.abc import Iterator
from types import FrameType

from flwr.serverapp import strategy as flower

CLIENT_SIDE = (
    flower.DifferentialPrivacyClientSideAdaptiveClipping,
    flower.DifferentialPrivacyClientSideFixedClipping,
)
PRIVATE = (
    *CLIENT_SIDE,
    flower.DifferentialPrivacyServerSideAdaptiveClipping,
    flower.DifferentialPrivacyServerSideFixedClipping,
)


class WrongOrder(ValueError):
    """Two parts of an app would together do something else than they say; the message is a line."""


def layers_of(strategy: object) -> Iterator[flower.Strategy]:
    """A strategy and what it wraps, from the outside to the inside.

    Example:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> [type(layer).__name__ for layer in layers_of(FedAvg())]
        ['FedAvg']
    """
    while isinstance(strategy, flower.Strategy):
        yield strategy
        strategy = getattr(strategy, "strategy", None)


def check_around(strategy: flower.Strategy) -> None:
    """Refuses a wrapper that clips around ``strategy``, where it calls ``strategy``.

    A wrapper of Flower's tells what it wraps nothing when it is built; so the callers of
    ``configure_train`` are looked at, before any training.

    Raises ``WrongOrder``, which names the order that works.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, PRIVATE) and strategy in layers_of(caller):
            name, inner = type(caller).__name__, type(strategy).__name__
            raise WrongOrder(
                f"{name}({inner}(...)) would clip nothing, for replies hold bytes and no arrays: "
                f"the order that works is Compressed({name}(...), ...)"
            )
        frame = frame.f_back
