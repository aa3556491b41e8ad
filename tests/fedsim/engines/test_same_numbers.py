"""One configuration, in process and on Ray: the same bytes, metrics, bits and weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import run
from tests.support.asyncruns import asynchronous
from tests.support.runs import assert_same, payloads, rounds, small

SETTINGS: dict[str, dict[str, Any]] = {
    "sbc": {"partition": "dirichlet(0.5)"},
    "gradient dropping, both ways, partial cohort": {
        "method": "gradient_dropping(0.05)", "downlink": "sbc(0.05)", "cohort": 2,
        "iterations": 30, "seed": 3,
    },
    "raw, fedadam": {"method": "raw", "strategy": "fedadam", "cohort": 3, "iterations": 18},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_local_and_flower(settings: dict[str, Any], tmp_path: Path) -> None:
    config = small(keep_payloads=True, **settings)
    for workers in (1, 2):
        run(replace(config, workers=workers), tmp_path / f"local{workers}")
    run(replace(config, engine="flower", workers=2), tmp_path / "flower")
    assert_same(tmp_path / "local1", tmp_path / "local2")
    assert_same(tmp_path / "local1", tmp_path / "flower")
    plan = config.plan
    assert len(payloads(tmp_path / "flower")) == 2 * plan.cohort * plan.rounds
    assert rounds(tmp_path / "flower")["up_wire_bits"].gt(0).all()


@pytest.mark.slow
def test_the_clock_is_the_same(tmp_path: Path) -> None:
    """Who is away, drops out or is late follows from the seed and the lengths of messages."""
    config = small(
        clients=6, cohort=4, ask=5, iterations=40, downlink="sbc(0.05)", catch_up=True,
        late="count", dropout="before=0.1, after=0.1", deadline="1s", availability=0.9,
        network="up=lognormal(20kbit, 1), down=1Mbit, latency=50ms, compute=uniform(10ms, 30ms)",
    )  # fmt: skip
    run(config, tmp_path / "local")
    run(replace(config, engine="flower", workers=2), tmp_path / "flower")
    assert_same(tmp_path / "local", tmp_path / "flower")
    assert_same_clock(tmp_path / "local", tmp_path / "flower")
    assert rounds(tmp_path / "local")["late"].sum() > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fewer at work", "sharded"])
def test_servers_that_do_not_wait(name: str, tmp_path: Path) -> None:
    """Messages go to Ray together, and updates are taken in by the clock: the same run."""
    config = asynchronous(name, keep_payloads=True)
    run(config, tmp_path / "local")
    run(replace(config, engine="flower", workers=2), tmp_path / "flower")
    assert_same(tmp_path / "local", tmp_path / "flower")
    assert_same_clock(tmp_path / "local", tmp_path / "flower")
    assert rounds(tmp_path / "local")["staleness"].max() > 0


def assert_same_clock(one: Path, other: Path) -> None:
    """Equal simulated times, which go on."""
    ends = [pd.read_parquet(x / "rounds.parquet")["sim_end_seconds"] for x in (one, other)]
    assert ends[0].equals(ends[1]) and (ends[0].diff().dropna() > 0).all()
