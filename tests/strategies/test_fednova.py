"""FedNova's weights by hand, and in a run whose clients do unlike numbers of iterations."""

from pathlib import Path
from typing import Any

import pytest
import torch

from fedsim import RunConfig, run
from strategies.algorithms.dsgd import DSGD
from strategies.channel.traffic import Uplink, average, average_normalized
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import make_task
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
