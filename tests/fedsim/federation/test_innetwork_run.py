"""Runs of integer sums: what does not fit them."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file

from compressors import Switch
from fedsim import RunFailed, UsageError, run
from fedsim.settings.config import cached_plan
from tests.support.replaying import Weights
from tests.support.runs import small

SWITCH = {"method": "cnat(5, 0)", "strategy": "innetwork", "temporal": 5, "iterations": 20}


def final(folder: Path) -> Weights:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


def test_an_overflow_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan that believes in more room: entries at the top of the window fill 2**31 units."""
    cached_plan.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(Switch, "capacity", 10)
        config = small(**SWITCH | {"method": "cnat(6, -20)"})
        words = r"round 1, tensor '.*', entry \d+: .* 32 bits"
        with pytest.raises(RunFailed, match=words) as error:
            run(config, tmp_path)
    cached_plan.cache_clear()
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["status"], summary["error"]) == ("failed", str(error.value))


def test_it_is_the_cohort_that_has_to_fit() -> None:
    """2**31 - 1 units hold 131071 times 2**14 of them, and one 2**30."""
    many = SWITCH | {"clients": 200_000}
    assert small(**many, cohort=131_071).plan.cohort == 131_071
    with pytest.raises(UsageError, match="131071 clients, and the cohort has 131072"):
        small(**many, cohort=131_072)
    assert small(**SWITCH | {"method": "cnat(6, 0)"}, cohort=1).plan.cohort == 1
