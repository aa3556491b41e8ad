"""A round in which nobody arrives is written, and the run goes on, unless replies are required."""

import math
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from fedsim import RunFailed, run
from tests.support.runs import model, rounds, small

EMPTY: dict[str, dict[str, Any]] = {
    "everybody drops out": {"dropout": 1.0},
    "everybody is late": {"deadline": "1ms", "network": "up=1kbit, compute=1ms"},
    "everybody drops out, to a strategy of Flower's": {
        "dropout": "after=1",
        "strategy": "fedadam",
        "downlink": "sbc(0.1)",
    },
    "with a controller": {"dropout": 1.0, "method": "sbc", "controller": "plateau(2)"},
    "with a momentum at the server": {"dropout": 1.0, "strategy": "nesterov"},
    "with sums of differences": {"dropout": 1.0, "strategy": "ef21", "method": "ef21(raw)"},
    "with an optimizer at the server": {
        "dropout": 1.0,
        "strategy": "gradients",
        "temporal": 1,
        "iterations": 4,
    },
}


@pytest.mark.parametrize("settings", EMPTY.values(), ids=EMPTY)
def test_the_model_stays_and_every_round_is_written(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    summary = run(small(**{"method": "raw"} | settings), tmp_path).summary
    frame = rounds(tmp_path)
    assert frame["clients"].tolist() == [0] * 4 and frame["up_wire_bits"].sum() == 0
    assert frame["train_loss"].isna().all() and frame["loss"].nunique(dropna=True) == 1
    assert (summary["status"], summary["up_wire_bits"], summary["iterations"]) == (
        "done",
        0,
        frame["iteration"].iloc[-1],
    )
    assert math.isinf(summary["ratio_wire"]) and summary["up_share"] == 0


def test_the_model_is_that_of_the_start(tmp_path: Path) -> None:
    run(small(method="raw", dropout=1.0), tmp_path / "raw")
    run(small(method="sbc(0.1)", downlink="sbc(0.5)", dropout="after=1"), tmp_path / "sbc")
    assert model(tmp_path / "raw") == model(tmp_path / "sbc")
    assert load_file(tmp_path / "raw" / "model.safetensors")


@pytest.mark.parametrize("settings", list(EMPTY.values())[:3], ids=list(EMPTY)[:3])
def test_replies_that_are_required_end_the_run(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="0 of 4 clients replied and 1 are required"):
        run(small(**{"method": "raw", "min_replies": 1} | settings), tmp_path)
