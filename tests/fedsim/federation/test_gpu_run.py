"""A training run whose every message goes through the kernels for a GPU."""

from pathlib import Path

import pandas as pd
import pytest
import torch

from compressors.device import write
from fedsim import RunConfig, run
from tests.support.gpu import needs_triton, taken


@pytest.mark.slow
@needs_triton
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU trains with other last bits")
def test_a_run_through_the_kernels_is_the_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig.of(
        task="digits",
        method="sbc",
        gradient=0.01,
        temporal=5,
        iterations=10,
        clients=2,
        cohort=2,
        downlink="sbc(0.05)",
    )
    made, encode = [], write.encode_on_device
    monkeypatch.setattr(write, "encode_on_device", lambda *given: made.append(1) or encode(*given))
    run(config, tmp_path / "host", progress=False)
    assert not made
    with taken():
        run(config, tmp_path / "kernels", progress=False)
    assert len(made) >= 4
    host, kernels = (pd.read_parquet(tmp_path / n / "rounds.parquet") for n in ("host", "kernels"))
    told = [name for name in host.columns if not name.endswith("seconds")]
    pd.testing.assert_frame_equal(host[told], kernels[told])
