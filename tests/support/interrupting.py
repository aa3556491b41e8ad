"""Runs that are stopped after a round, and the settings under which stopping is tried."""

from typing import Any

from tests.support.asyncruns import NETWORK

LATE: dict[str, Any] = {
    "clients": 6,
    "cohort": 4,
    "network": "up=lognormal(20kbit, 1), down=1Mbit, latency=50ms, compute=uniform(10ms, 30ms), "
    "server_up=60kbit",
}
EPOCHS: dict[str, Any] = {"iterations": None, "temporal": 10, "rounds": 6, "partition": "linear"}
"""Each client has its own number of local steps; 10 is the default, which is given up."""


SETTINGS: dict[str, dict[str, Any]] = {
    "sbc": {},
    "both ways, partial cohort": {"downlink": "gradient_dropping(0.05)", "cohort": 2},
    "fedadam both ways": {"strategy": "fedadam", "downlink": "sbc(0.1)", "cohort": 3},
    "fedyogi": {"strategy": "fedyogi", "method": "raw"},
    "gradients both ways": {
        "strategy": "gradients",
        "downlink": "sbc(0.1)",
        "temporal": 1,
        "iterations": 6,
    },
    "scaffold both ways": {
        "strategy": "scaffold",
        "method": "gradient_dropping(0.2)",
        "downlink": "gradient_dropping(0.3)",
        "momentum": 0.0,
        "cohort": 3,
    },
    "ef21": {"strategy": "ef21", "method": "ef21(topk(0.1) | float32)", "cohort": 2},
    "ef21 both ways": {
        "strategy": "ef21",
        "method": "ef21(topk(0.1) | float32)",
        "cohort": 2,
        "downlink": "ef21(topk(0.2) | float32)",
        "catch_up": True,
    },
    "diana": {"strategy": "diana", "method": "diana(randk(0.2) | cnat)", "cohort": 2},
    "marina": {
        "strategy": "marina",
        "method": "marina(randk(0.2) | cnat, 0.3)",
        "temporal": 1,
        "iterations": 6,
    },
    "permk": {"strategy": "permk", "method": "permk(4)"},
    "diloco": {"strategy": "diloco(tau=2)", "method": "fragments(sbc(0.05), 3)"},
    "fetchsgd": {
        "strategy": "fetchsgd",
        "method": "fetchsgd(0.003, 5, 1600)",
        "momentum": 0.0,
        "cohort": 2,
    },
    "secagg": {
        "strategy": "secagg",
        "method": "secagg(16, 0.5, 18)",
        "downlink": "sbc(0.1)",
        "dropout": "before=0.1, after=0.1",
    },
    "dgc": {
        "method": "dgc(0.05, stage=3)",
        "momentum": 0.0,
        "temporal": 1,
        "cohort": 2,
        "iterations": 6,
    },
    "dp": {
        "strategy": "dp(noise=0.3, clip=0.3, quantile=0.5, count_noise=1.0)",
        "method": "ef(topk(0.1) | float32 | golomb)",
        "cohort": 3,
    },
    "relay": {"downlink": "relay", "dropout": "after=0.3", "catch_up": True},
    "edge servers": {
        "network": "compute=1ms, up=1Mbit, topology=tree(groups=2)",
        "method": "ef(topk(0.01) | cnat)",
        "downlink": "sbc(0.05)",
        "cohort": 3,
    },
    "local epochs": {**EPOCHS, "local_epochs": 2},
    "local seconds": {
        **EPOCHS,
        "local_seconds": "1s",
        "network": "4g, compute=lognormal(2GFLOP/s, 2)",
    },
    "late held": {**LATE, "method": "ef(topk(0.1) | float32 | golomb)", "deadline": "3s"},
    "late counted": {
        **LATE,
        "method": "sbc(0.05)",
        "deadline": "700ms",
        "late": "count",
        "downlink": "sbc(0.2)",
        "catch_up": True,
        "availability": "onoff(4s, 1s)",
    },
    "the first that come": {**LATE, "method": "sbc(0.1)", "ask": 6, "cohort": 3},
    "memory in a file": {"memory": 1, "cohort": 2, "downlink": "sbc(0.1)"},
    "memory in both places": {"memory": "300kB", "cohort": 3},
    "fedavgm": {"strategy": "fedavgm", "server_lr": 0.1},
    "fedbuff": {
        "strategy": "fedbuff",
        "buffer_size": 2,
        "clients": 6,
        "cohort": 3,
        "network": NETWORK,
        "downlink": "sbc(0.1)",
    },
    "fedasync in a file": {"strategy": "fedasync", "network": NETWORK, "memory": 1, "cohort": 2},
    "sharded": {
        "strategy": "sharded",
        "method": "gradient_dropping(0.05)",
        "temporal": 1,
        "iterations": 6,
        "downlink": "topk(0.1) | float32 | golomb",
        "clients": 3,
        "network": f"{NETWORK}, framing=on",
    },
}


class Stopped(BaseException):
    """As Ctrl-C: not an ``Exception``, so that nothing tidies up after it."""


def stop_after(number: int, kind: type[BaseException] = Stopped) -> Any:
    def progress(row: dict[str, Any]) -> None:
        if row["round"] == number:
            raise kind

    return progress


def recording(seen: list[int]) -> Any:
    return lambda row: seen.append(row["round"])
