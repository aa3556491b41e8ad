"""``--downlink relay``: the run that a raw downlink gives, bit for bit, and other bits down."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compressors import Compressor
from fedsim import RunConfig, run
from strategies import Relay
from tests.support.cases import cases
from tests.support.runs import clients, model, rounds, small

SETTINGS: Mapping[str, dict[str, Any]] = {
    "all": {"clients": 3},  # a third is no float: the sum's rounding shows
    "raw": {"method": "raw"},
    "codes without positions": {"method": "qsgd(7)"},
    "random positions": {"method": "randk(0.1) | float32"},
    "by samples": {"weighting": "samples", "partition": "dirichlet(0.5)"},
    "some of many": {"clients": 7, "cohort": 5, "iterations": 40},
    "dropout": {"dropout": "before=0.2, after=0.2", "iterations": 40},
    "empty rounds": {"clients": 2, "dropout": 0.6, "iterations": 60},
    "late ones count": {
        "late": "count",
        "deadline": "1s",
        "iterations": 60,
        "clients": 5,
        "network": "up=lognormal(8kbit, 1), down=1Gbit, compute=uniform(10ms, 30ms)",
    },
}
QUICK = ("all", "raw", "random positions")
OWN = ["down_", "total_bits", "sim_", "digest_payloads"]


@pytest.mark.parametrize("settings", cases(SETTINGS, QUICK))
def test_it_is_the_run_with_a_raw_downlink(settings: dict[str, Any], tmp_path: Path) -> None:
    for down in ("raw", "relay"):
        run(small(**settings, downlink=down, keep_payloads=True), tmp_path / down)
    assert model(tmp_path / "raw") == model(tmp_path / "relay")
    raw, relayed = (rounds(tmp_path / down) for down in ("raw", "relay"))
    same = [name for name in raw.columns if not name.startswith(tuple(OWN))]
    assert raw[same].equals(relayed[same])
    assert list((tmp_path / "relay").glob("payloads/*/*-down-relay.bin"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    cases(
        {
            name: name
            for name in ("some of many", "dropout", "empty rounds", "late ones count", "by samples")
        },
        quick=["some of many"],
    ),
)
def test_with_catch_up_it_is_the_same_run_with_fewer_bits_down(name: str, tmp_path: Path) -> None:
    for catch_up in (False, True):
        given = dict(SETTINGS[name]) | {"downlink": "relay", "catch_up": catch_up}
        run(small(**given), tmp_path / str(catch_up))
    assert model(tmp_path / "False") == model(tmp_path / "True")
    without, caught = (rounds(tmp_path / c)["down_wire_bits"].sum() for c in ("False", "True"))
    assert (caught < without) == (name != "by samples")  # where nobody misses a round
    assert name != "late ones count" or rounds(tmp_path / "True")["late"].sum() > 0


def test_every_bit_is_one_that_was_sent(tmp_path: Path) -> None:
    """Of four: the other three messages, each behind its length, and a byte for one's place."""
    run(small(downlink="relay", keep_payloads=True), tmp_path)
    told, frame = clients(tmp_path).set_index(["round", "client"]), rounds(tmp_path)
    assert told.loc[1, "down_wire_bits"].sum() == frame["down_wire_bits"].iloc[0] == 0
    for number in (2, 3, 4):
        for client in range(4):
            expected = 8
            for other in {0, 1, 2, 3} - {client}:
                before = tmp_path / "payloads" / f"round-{number - 1:05d}"
                size = len((before / f"client-{other:03d}-up.bin").read_bytes())
                expected += 8 * (size + (1 if size < 128 else 2))
            assert told.loc[(number, client), "down_wire_bits"] == expected
        own = told.loc[number, "down_wire_bits"]
        row = frame.set_index("round").loc[number]
        assert row["down_wire_bits"] == own.sum()
        parts = [f"down_{part}_bits" for part in ("header", "position", "value", "side")]
        assert row[parts].sum() == row["down_wire_bits"]


def test_it_can_be_given_as_a_value() -> None:
    down: Compressor = Relay()
    assert RunConfig(downlink=down) == RunConfig(downlink="relay")  # type: ignore[arg-type]
    assert RunConfig(downlink="relay").plan.downlink == down
