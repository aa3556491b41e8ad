"""The experiment on position coders at smoke scale, on the digits that sklearn carries."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim.federation.draws import Batches
from tests.support.commands import Typed
from tests.support.experiments import experiment, made_up


@pytest.mark.slow
def test_position_coding_smoke(typed: Typed) -> None:
    said = typed("experiment", "position-coding", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "positions.csv"))
    digits = frame[frame["model"] == "digits"]
    assert set(digits["client"]) == {0, 1}
    assert digits.groupby(["setting", "client"]).size().eq(17).all()
    for _, group in frame.groupby(["model", "setting", "client"]):
        bits = group.set_index("coder")["bits_per_position"]
        assert bits["raw32"] == pytest.approx(32, rel=0.01)
        assert bits["auto"] <= bits.drop("auto").min() + 8  # a byte per tensor, one entry at least
        assert bits["golomb"] < bits["fixed"]
    random = frame[frame["model"] == "random"].set_index(["setting", "coder"])
    of_context = random["bits_per_position"].xs("context", level="coder")
    of_golomb = random["bits_per_position"].xs("golomb(exact)", level="coder")
    assert (of_context <= 1.01 * of_golomb).all()
    assert "| digits | sbc-0.01-n10 |" in said.out
    moments = pd.read_csv(Path("out", "moments.csv"))
    assert moments.groupby(["setting", "client"]).ngroups == 12
    golomb = frame[(frame["model"] == "digits") & (frame["coder"] == "golomb")]
    assert moments["positions"].sum() == golomb["positions"].sum()  # a row per message
    assert Path("out", "positions.png").stat().st_size > 10_000


def test_gaps_of_one_or_two() -> None:
    """Gaps 1, 1, 3 of one tensor and 2 of another, each tensor's first from -1."""
    message = [(np.array([0, 1, 4]), 9), (np.array([1]), 5)]
    row = experiment("position-coding").moment("digits", "sbc", 0, 0.5, message)
    assert (row["positions"], row["gaps_of_one_or_two_percent"]) == (4, 75)
    assert row["golomb_bits_per_position"] > 0 < row["context_bits_per_position"]


@pytest.mark.slow
def test_the_language_model_is_the_task_s_with_its_own_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = experiment("position-coding").record
    monkeypatch.setitem(record.SCALES, "smoke", (2, 32))
    sizes: list[int] = []

    def batches(shard: np.ndarray, size: int, seed: int, number: int) -> Batches:
        sizes.append(size)
        return Batches(shard, size, seed, number)

    monkeypatch.setattr(record, "Batches", batches)
    data = made_up(tmp_path / "data")
    patterns = list(record.record("char_lstm", record.SETTINGS[1], "smoke", data))
    assert sizes == [5] * 4  # the published batch
    assert {p.n for p in patterns} >= {160_000}  # two layers of 200


@pytest.mark.slow
def test_images_are_drawn_and_fewer_clients_train_where_a_step_is_dear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = experiment("position-coding").record
    monkeypatch.setitem(record.SCALES, "smoke", (4, 2))
    data, setting = made_up(tmp_path / "data"), record.SETTINGS[1]
    patterns = list(record.record("cifar_resnet20", setting, "smoke", data))
    assert {p.client for p in patterns} == {0, 1} and {p.moment for p in patterns} >= {0.5, 0.9}
    assert {p.n for p in patterns if p.tensor.endswith("weight")} >= {432, 9216, 36_864}
    assert all(p.positions.size >= 1 and p.positions.max() < p.n for p in patterns)
