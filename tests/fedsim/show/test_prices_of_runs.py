"""A run's price on its own network is its own clock; where times decided what it trained, none."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import UsageError, load, run
from fedsim.network import parse
from fedsim.show.times import over_bandwidths, priced
from tests.support.runs import small

NETWORK = "up=lognormal(100kbit, 1), down=200kbit, latency=10ms, compute=lognormal(20ms, 1)"
SETTINGS: dict[str, dict[str, Any]] = {
    "clients with work of their own": {"controller": "pace(0.05)"},
    "downloads of clients that drop out": {
        "network": f"{NETWORK}, server_down=100kbit, server_up=150kbit",
        "dropout": "before=0.3, after=0.3", "seed": 1,
    },
    "clients that are away by chance": {"availability": 0.7},
    "both": {
        "controller": "link(0.5)", "method": "sbc", "dropout": "after=0.2", "seed": 1,
        "network": f"{NETWORK}, server_down=100kbit, server_up=150kbit",
    },
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_the_price_on_its_own_network_is_its_own_clock(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    given = {"network": NETWORK, "clients": 6, "cohort": 4, "iterations": 30} | settings
    run(small(**given), tmp_path)
    own = pd.read_parquet(tmp_path / "rounds.parquet")["sim_end_seconds"]
    ends = priced(load(tmp_path), parse(given["network"]))["sim_end_seconds"]
    assert ends.tolist() == pytest.approx(own.tolist(), rel=1e-9)


@pytest.mark.parametrize(
    "settings",
    [{"controller": "pace(0.05)"}, {"controller": "link(0.5)", "method": "sbc"},
     {"availability": "onoff(1s, 1s)"}, {"deadline": "10s"}],
    ids=lambda given: next(iter(given)),
)  # fmt: skip
def test_what_times_decided_has_no_price_elsewhere(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    run(small(network=NETWORK, **settings), tmp_path)
    name, value = next(iter(settings.items()))
    words = rf"was run with {name} = .*: times decided what it trained"
    with pytest.raises(UsageError, match=words):
        priced(load(tmp_path), parse("4g, compute=20ms"))
    with pytest.raises(UsageError, match=words):
        over_bandwidths(load(tmp_path), parse(NETWORK), 0.1)
