"""What one-line mistakes in the trainer's rooms would change, and no other quick test sees."""

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fedsim import RunConfig, run
from fedsim.federation import branches
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import evenly_spread
from tests.support.runs import small
from tests.support.together import Together


def test_clients_that_train_at_once_share_the_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: Together
) -> None:
    """A clock that goes on by a second with each look: two parts of two clients, a second each."""
    clock = count()
    made = SimpleNamespace(perf_counter=lambda: float(next(clock)))
    monkeypatch.setattr(branches, "time", made)
    together(2)
    run(small(), tmp_path)
    assert pd.read_parquet(tmp_path / "rounds.parquet")["train_seconds"].tolist() == [2.0] * 4


def test_nobody_trains_on_the_validation_part() -> None:
    plain, parted = (
        ClientData.of(RunConfig.of(task="digits", validation=share)) for share in (None, 0.25)
    )
    trained = np.concatenate(parted.shards)
    every = len(plain.data.train_x)
    assert len(trained) == len(set(trained.tolist())) == every - len(parted.data.test_x)
    assert len(parted.data.test_x) == pytest.approx(0.25 * every, abs=10)


def test_held_out_samples_are_evenly_spread() -> None:
    assert evenly_spread(1000, 4).tolist() == [0, 250, 500, 750]
