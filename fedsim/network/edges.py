"""Edge servers between clients and server, as a network's text has them: `tree(groups=10)`."""

import math
from dataclasses import dataclass

from fedsim.ground.errors import UsageError, named_arguments, parse_call, unknown
from fedsim.network.quantities import quantity

_KEYS = ("groups", "method", "up", "down", "latency")
_ALLOWED = "edge servers such as tree(groups=10) or tree(groups=10, up=1Gbit, latency=5ms)"


@dataclass(frozen=True)
class EdgeTree:
    """Edge servers: each is between the clients of its group and the server."""

    groups: int  # how many there are
    method: str = ""  # by which they encode the mean of their clients' updates; empty: the clients'
    up: float = math.inf  # the rate of an edge server's link to the server, in bits per second
    down: float = math.inf  # the rate of the server's link to an edge server
    latency: float = 0.0  # seconds of a message between server and edge server in one direction


def parse_tree(text: str, name: str) -> EdgeTree:
    """Edge servers from ``tree(groups=10)``, which may also have method, up, down and latency.

    ``name``: the setting, as a message calls it.

    Raises ``UsageError`` where the text is not of this form, or a value is not allowed.

    Example:
        >>> parse_tree("tree(groups=2, method=topk(0.1) | float32, up=8bit)", "topology").method
        'topk(0.1) | float32'
    """
    call = parse_call(text, name, _ALLOWED)
    try:
        texts = {key: str(value) for key, value in named_arguments(call, _KEYS).items()}
        if call.name != "tree":
            raise ValueError(unknown("topology", call.name, ["star", "allreduce", "tree"]))
    except ValueError as error:
        raise UsageError(f"{name} is {text!r}: {error}; give {_ALLOWED}") from error
    groups = texts.get("groups", "")
    if not (groups.isascii() and groups.isdigit() and int(groups) > 0):
        raise UsageError(f"{name} is {text!r}: groups is a whole number above 0; give {_ALLOWED}")
    rates = {
        key: quantity(texts[key], f"{name}: {key}", "rate")
        for key in ("up", "down")
        if key in texts
    }
    latency = quantity(texts.get("latency", "0"), f"{name}: latency", "delay")
    return EdgeTree(int(groups), texts.get("method", ""), **rates, latency=latency)
