"""Runs whose n and p are moved: orders on the wire, ends, resumed runs, both engines."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedsim import run
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import assert_same, model, rounds, small

LINKS = "up=lognormal(100kbit, 1), down=20Mbit, latency=10ms, compute=2ms"
CONTROLLED: dict[str, dict[str, Any]] = {
    "warmup": {"controller": "warmup(3)"},
    "plateau": {"controller": "plateau(1, better=0.2)", "checkpoint_every": 1},
    "link": {"controller": "link(0.02)", "network": LINKS},
    "noise": {"controller": "noise(1)", "cohort": 2},
    "adacomm, downlink": {"controller": "adacomm(5)", "downlink": "sbc(0.1)"},
}


def controlled(**settings: Any) -> Any:
    """A run of twenty iterations whose method takes a fraction."""
    return small(**{"method": "sbc", "gradient": 0.05} | settings)


def test_all_digits_of_p_are_meant_where_it_stays(tmp_path: Path) -> None:
    """Three of them travel, and both ends know the others."""
    for name, more in (("plain", {}), ("fixed", {"controller": "fixed"})):
        run(controlled(gradient=0.12345, iterations=10, **more), tmp_path / name)
    assert model(tmp_path / "plain") == model(tmp_path / "fixed")
    one, other = rounds(tmp_path / "plain"), rounds(tmp_path / "fixed")
    assert one["up_sent"].equals(other["up_sent"])
    assert (other["sent_fraction"] == 0.12345).all()


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "fetchsgd", "method": "fetchsgd(0.05)", "momentum": 0.0},
        {"strategy": "majority", "method": "ef(sign)"},
        {"strategy": "innetwork", "method": "cnat(5, 0)"},
    ],
    ids=lambda settings: settings["strategy"],
)
def test_ordered_messages_are_read_as_the_algorithm_reads_them(settings: dict[str, Any]) -> None:
    """FetchSGD adds up sketches: under a controller it was handed updates."""
    settings = settings | {"temporal": 2, "iterations": 4}
    plain, fixed = (run(small(**settings, **more)).model for more in ({}, {"controller": "fixed"}))
    assert all(torch.equal(plain[name], x) for name, x in fixed.items())


@pytest.mark.slow
@pytest.mark.parametrize("settings", CONTROLLED.values(), ids=CONTROLLED)
def test_a_stopped_run_goes_on_with_the_same_n_and_p(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    config = controlled(**{"checkpoint_every": 2, "iterations": 30, **settings})
    run(config, tmp_path / "whole")
    with pytest.raises(Stopped):
        run(config, tmp_path / "parts", callbacks=[stop_after(3)])
    run(config, tmp_path / "parts")
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert rounds(tmp_path / "whole")["iteration"].iloc[-1] == 30
