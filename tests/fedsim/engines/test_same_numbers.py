"""One configuration, in process and on Ray: the same bytes, metrics, bits and weights."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
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
