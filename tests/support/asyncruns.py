"""Small asynchronous runs of each kind."""

from typing import Any

from fedsim import RunConfig
from tests.support.runs import small

NETWORK = "up=1Mbit, down=4Mbit, latency=10ms, compute=lognormal(20ms, 1)"
ASYNC: dict[str, dict[str, Any]] = {
    "fedbuff": {"strategy": "fedbuff", "buffer_size": 3, "server_lr": 0.5},
    "fedasync": {"strategy": "fedasync", "staleness": "hinge(2, 1)"},
    "fewer at work": {"strategy": "fedbuff", "cohort": 2},
    "sharded": {
        "strategy": "sharded",
        "method": "gradient_dropping(0.05)",
        "temporal": 1,
        "iterations": 5,
    },
}


def asynchronous(name: str, **more: Any) -> RunConfig:
    return small(**({"network": NETWORK} | ASYNC[name] | more))
