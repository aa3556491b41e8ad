"""FedNova's weights by hand, and in a run whose clients do unlike numbers of iterations."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from compressors import decompress, parse
from fedsim import RunConfig, run
from fedsim.federation.trainer import build_model
from strategies.algorithms.dsgd import DSGD
from strategies.channel.traffic import Uplink, average, average_normalized
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import make_task, small
from tests.support.threes import give_links, last, threes

__all__ = ["make_task"]  # the fixture


def uplink(update: float, samples: int) -> Uplink:
    return Uplink(b"", {}, {"w": torch.tensor([update])}, {"num-examples": samples})


def test_by_hand() -> None:
    """Shares 1/4 and 3/4, 2 and 6 iterations: 5 times (1/4 of 4 / 2 plus 3/4 of 12 / 6) = 10."""
    ups = {0: uplink(4.0, 100), 1: uplink(12.0, 300)}
    assert average_normalized(ups, {0: 2, 1: 6})["w"].tolist() == [10.0]
    assert average(ups, "samples")["w"].tolist() == [10.0]
    assert DSGD("nova").weighs == "samples"  # its buffers
    assert average_normalized(ups, {0: 6, 1: 2})["w"].item() == pytest.approx(3 * (1 / 6 + 4.5))


def test_a_round_of_a_run(tmp_path: Path) -> None:
    """Rebuilt from the stored messages and the n that clients.parquet says."""
    import pandas as pd

    settings: dict[str, Any] = {"controller": "pace(0.02)", "weighting": "nova", "iterations": 1000}
    network = "compute=lognormal(4ms, 1), up=1Mbit"
    config = small(
        method="raw",
        network=network,
        keep_payloads=True,
        partition="dirichlet(0.5)",
        **settings | {"stop_at_bits": 1},
    )
    run(config, tmp_path)
    rows = pd.read_parquet(tmp_path / "clients.parquet")
    n, samples = rows["local_iterations"], rows["samples"] / rows["samples"].sum()
    assert n.nunique() > 1
    template = {k: p.detach() for k, p in build_model(config.plan.task, 0).named_parameters()}
    files = [tmp_path / f"payloads/round-00001/client-{c:03d}-up.bin" for c in rows["client"]]
    ups = [decompress(parse("raw"), file.read_bytes(), template) for file in files]
    last = load_file(tmp_path / "model.safetensors")
    for name, x in template.items():
        step = sum(q / t * up[name] for q, t, up in zip(samples, n, ups, strict=True))
        assert torch.allclose(last[name], x + (samples * n).sum() * step, atol=1e-6)


@pytest.mark.parametrize("stopped", [False, True])
def test_a_late_update_counts_by_the_iterations_that_were_asked_for(
    make_task: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    """Rounds of 2 and 1 iterations; client 1, asked for 2 in the first, comes in the second.

    Client 0 goes from 0 to 12, three quarters of the way to 16, and then half of the way, by 2.
    Client 1 has gone from 0 to 24. By samples both have the share 1/2, and the mean number of
    iterations is 3/2: the second step is 3/2 (2 / 2 / 1 + 24 / 2 / 2) = 10.5.
    """
    give_links(monkeypatch, compute=[1.0, 1.75])
    task = make_task(**threes([16.0, 32.0]))
    config = RunConfig.of(
        task=task.name,
        method="raw",
        temporal=2,
        iterations=3,
        weighting="nova",
        late="count",
        network="compute=1s",
        deadline="3s",
        checkpoint_every=1,
    )
    if stopped:
        with pytest.raises(Stopped):
            run(config, tmp_path, callbacks=[stop_after(1)])
    run(config, tmp_path)
    assert last(tmp_path) == [22.5] * 3
