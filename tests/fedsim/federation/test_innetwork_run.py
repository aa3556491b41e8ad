"""Integer sums train the digits, and the stored messages alone make the final weights."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compressors import Switch
from fedsim import RunConfig, RunFailed, UsageError, run
from fedsim.runs.sweep import shared_digest
from fedsim.settings.config import cached_plan
from fedsim.settings.grids import SweepConfig
from tests.support import replaying
from tests.support.replaying import Weights
from tests.support.runs import rounds, small

SWITCH = {"method": "cnat(5, 0)", "strategy": "innetwork", "temporal": 5, "iterations": 20}
UNITS = 2.0**14  # a lowest power of 2**-14


def added(ups: dict[int, Weights], number: int) -> Weights:
    """The mean in numpy's int64, which no four clients fill: exact, rounded at the end."""
    found = {}
    for name in next(iter(ups.values())):
        given = np.stack([ups[c][name].numpy() for c in sorted(ups)]).astype(np.float64) * UNITS
        whole = given.astype(np.int64)
        assert np.array_equal(whole, given)
        found[name] = torch.from_numpy((whole.sum(0) / UNITS / len(ups)).astype(np.float32))
    return found


def final(folder: Path) -> Weights:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


def replayed(folder: Path, config: RunConfig) -> Weights:
    """The weights after every round's integer mean, from the stored uplinks alone."""
    weights = replaying.initial(config)
    for number, ups in enumerate(replaying.uplinks(folder, config), start=1):
        step = added(ups, number)
        weights = {name: x + step[name] for name, x in weights.items()}
    return dict(sorted(weights.items()))


def test_it_learns_and_replays(tmp_path: Path) -> None:
    """20 iterations reach two thirds (ten classes, a tenth by chance)."""
    config = small(**SWITCH, keep_payloads=True)
    summary = run(config, tmp_path).summary
    replaying.assert_equal(replayed(tmp_path, config), final(tmp_path))
    assert summary["metric"] > 0.67
    assert set(rounds(tmp_path)["up_value_bits"]) == {4 * 5 * summary["parameters"]}
    assert config.identity()["downlink"] == "raw"


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


def test_a_sweep_has_a_dense_reference() -> None:
    """The mean of what is sent raw, as for votes."""
    grid = SweepConfig.of(method="cnat(5, 0)", strategy="innetwork", temporal=[5, 10])
    found = [(cell.config.strategy, cell.config.method) for cell in grid.cells()]
    assert found == [("dsgd", "raw")] + [("innetwork", "cnat(5, 0)")] * 2
    assert shared_digest(grid) != shared_digest(SweepConfig.of(method="cnat(5, 0)", temporal=[5]))
