"""Signs and votes train the digits, and the stored messages alone make the final weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from compressors import derive, parse
from compressors.base import tensor_seed
from compressors.kernels import noise
from fedsim import RunConfig, run
from fedsim.runs.sweep import shared_digest
from fedsim.settings.config import from_toml
from fedsim.settings.grids import SweepConfig
from tests.support import replaying
from tests.support.replaying import Weights
from tests.support.runs import clients, rounds, small

SIGN = {"method": "sign(0.01)", "temporal": 1, "iterations": 14, "evaluate_every": 14}
VOTE = SIGN | {"strategy": "majority"}


def counted(config: RunConfig) -> Any:
    """The vote in numpy: how many say minus, and ties by the noise of (seed, round, tensor)."""

    def aggregate(ups: dict[int, Weights], number: int) -> Weights:
        found = {}
        for i, name in enumerate(next(iter(ups.values()))):
            given = np.stack([up[name].numpy() for up in ups.values()])
            minus, half = (given < 0).sum(0), len(ups) / 2
            seed = tensor_seed(derive(config.seed, "vote", number), i)
            coins = noise.words(seed, np.arange(minus.size)).reshape(minus.shape) >= 1 << 31
            below = np.where(minus == half, coins, minus > half)
            m = np.abs(given).max()
            found[name] = torch.from_numpy(np.where(below, -m, m).astype(np.float32))
        return found

    return aggregate


def final(folder: Path) -> Weights:
    return dict(sorted(load_file(folder / "model.safetensors").items()))


def test_the_mean_of_signs_learns_and_replays(tmp_path: Path) -> None:
    """14 steps of 0.01 reach two thirds (ten classes, a tenth by chance)."""
    config = small(**SIGN, keep_payloads=True)
    summary = run(config, tmp_path).summary
    replayed = replaying.raw_downlink(tmp_path, config)
    replaying.assert_equal(dict(sorted(replayed.items())), final(tmp_path))
    assert summary["metric"] > 0.67
    for up in replaying.uplinks(tmp_path, config)[-1].values():
        assert all(set(x.unique().tolist()) == set(_pm(0.01)) for x in up.values())


def _pm(magnitude: float) -> list[float]:
    return [float(np.float32(-magnitude)), float(np.float32(magnitude))]


@pytest.mark.parametrize("seed", [0, 4])
def test_the_vote_learns_and_replays(seed: int, tmp_path: Path) -> None:
    config = small(**VOTE, seed=seed, keep_payloads=True)
    assert config.plan.downlink == parse("sign(0.01)")
    summary = run(config, tmp_path).summary
    seen, server = replaying.compressed_downlink(tmp_path, config, counted(config))
    replaying.assert_equal(dict(sorted(server.items())), final(tmp_path))
    assert summary["metric"] > 0.67
    step = {name: (x - seen[name]).abs().max() for name, x in server.items()}
    assert all(float(x) == pytest.approx(0.01, rel=1e-3) for x in step.values())


def test_the_vote_is_one_bit_an_entry_both_ways(tmp_path: Path) -> None:
    config = small(**VOTE | {"iterations": 3, "evaluate_every": 3})
    summary = run(config, tmp_path).summary
    bits = 24 + summary["parameters"]
    bits += -bits % 8
    assert rounds(tmp_path)["up_wire_bits"].tolist() == [4 * bits] * 3
    assert rounds(tmp_path)["down_wire_bits"].tolist() == [0, 4 * bits, 4 * bits]
    assert set(clients(tmp_path)["up_wire_bits"]) == {bits}


def test_residuals_may_stay_with_the_voters(tmp_path: Path) -> None:
    config = small(**VOTE | {"method": "ef(sign(0.01))", "iterations": 3}, keep_payloads=True)
    run(config, tmp_path)
    _, server = replaying.compressed_downlink(tmp_path, config, counted(config))
    replaying.assert_equal(dict(sorted(server.items())), final(tmp_path))


@pytest.mark.parametrize("downlink", ["cnat", "ef(cnat)", "ef(topk(0.1) | cnat)"])
def test_natural_compression_both_ways(downlink: str, tmp_path: Path) -> None:
    """Algorithm 1 of natural compression: C_W at the workers, C_M at the master."""
    config = small(method="cnat", downlink=downlink, temporal=1, iterations=6, keep_payloads=True)
    run(config, tmp_path)
    _, server = replaying.compressed_downlink(tmp_path, config)
    replaying.assert_equal(dict(sorted(server.items())), final(tmp_path))
    parameters = sum(x.numel() for x in server.values())
    ups = rounds(tmp_path)["up_value_bits"]
    assert set(ups) == {4 * 9 * parameters}


def test_the_default_downlink(tmp_path: Path) -> None:
    """Raw, but for votes the one bit that carries them; spelled out it is the same run."""
    assert small().plan.downlink == small(downlink="raw").plan.downlink == parse("raw")
    assert small().digest == small(downlink="raw").digest
    vote = small(**VOTE)
    assert vote.digest == small(**VOTE, downlink="sign(0.01)").digest
    assert vote.digest != small(**VOTE, downlink="raw").digest
    assert small(**VOTE, downlink="raw").plan.downlink == parse("raw")
    assert vote.identity()["downlink"] == "per_tensor(sign(0.01))"
    (tmp_path / "config.toml").write_text(vote.to_toml(), encoding="utf-8")
    assert "downlink" not in vote.to_toml() and from_toml(tmp_path / "config.toml") == vote


def test_a_sweep_of_votes_has_a_dense_reference() -> None:
    """The reference is a mean of what is sent raw: there is nothing to vote on."""
    grid = SweepConfig.of(method="sign(0.01)", strategy="majority", temporal=[5, 10])
    found = [(cell.config.strategy, cell.config.method) for cell in grid.cells()]
    assert found == [("dsgd", "raw")] + [("majority", "sign(0.01)")] * 2
    other = SweepConfig.of(method="sign(0.01)", temporal=[5, 10])
    assert shared_digest(grid) != shared_digest(other)
