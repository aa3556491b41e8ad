"""A run's price on its own network is its own clock; where times decided what it trained, none."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import load, run
from fedsim.network import parse
from fedsim.show.times import priced
from tests.support.runs import small

NETWORK = "up=lognormal(100kbit, 1), down=200kbit, latency=10ms, compute=lognormal(20ms, 1)"
SETTINGS: dict[str, dict[str, Any]] = {
    "clients with work of their own": {"controller": "pace(0.05)"},
    "downloads of clients that drop out": {
        "network": f"{NETWORK}, server_down=100kbit, server_up=150kbit",
        "dropout": "before=0.3, after=0.3",
        "seed": 1,
    },
    "clients that are away by chance": {"availability": 0.7},
    "updates that are refused": {"availability": 1, "max_norm": 0.3},
    "updates that are all refused": {
        "availability": 1,
        "max_norm": 1e-9,
        "network": f"{NETWORK}, server_down=100kbit, server_up=150kbit",
    },
    "both": {
        "controller": "link(0.5)",
        "method": "sbc",
        "dropout": "after=0.2",
        "seed": 1,
        "network": f"{NETWORK}, server_down=100kbit, server_up=150kbit",
    },
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_price_on_its_own_network_is_its_own_clock(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    given = {"network": NETWORK, "clients": 6, "cohort": 4, "iterations": 30} | settings
    run(small(**given), tmp_path)
    own = pd.read_parquet(tmp_path / "rounds.parquet")["sim_end_seconds"]
    ends = priced(load(tmp_path), parse(given["network"]))["sim_end_seconds"]
    assert ends.tolist() == pytest.approx(own.tolist(), rel=1e-9)


def test_a_trace_called_battery_is_no_battery(tmp_path: Path) -> None:
    trace = tmp_path / "battery.csv"
    trace.write_text("seconds,up,down\n0,1e5,1e5\n")
    run(small(iterations=5, network=f"compute=1ms, trace={trace}"), tmp_path / "run")
    assert priced(load(tmp_path / "run"), parse("4g, compute=1ms"))["sim_seconds"].iloc[0] > 0
