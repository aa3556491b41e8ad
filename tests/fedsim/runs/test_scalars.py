"""Scalars for TensorBoard: what is read back from the event files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import run
from tests.support.runs import rounds, small

accumulator = pytest.importorskip(
    "tensorboard.backend.event_processing.event_accumulator",
    reason="tensorboard is in the dev extra",
)


def read(folder: Path) -> dict[str, tuple[list[int], list[float]]]:
    """Steps and values of every scalar, nothing purged."""
    found = accumulator.EventAccumulator(str(folder / "tensorboard"), purge_orphaned_data=False)
    found.Reload()
    events = {tag: found.Scalars(tag) for tag in found.Tags()["scalars"]}
    return {tag: ([e.step for e in rows], [e.value for e in rows]) for tag, rows in events.items()}


def test_every_round_is_there_with_its_iterations(tmp_path: Path) -> None:
    summary = run(small(track="tensorboard", evaluate_every=2), tmp_path).summary
    found, frame = read(tmp_path), rounds(tmp_path)
    assert set(found) == {
        "accuracy",
        "loss/held_out",
        "loss/train",
        "bits/up_wire",
        "bits/up_payload",
        "bits/down_wire",
        "ratio/wire",
        "ratio/payload",
    }
    assert found["bits/up_wire"][0] == [5, 10, 15, 20]
    assert found["accuracy"][0] == [10, 20]
    np.testing.assert_allclose(found["accuracy"][1], frame["metric"].dropna(), rtol=1e-6)
    np.testing.assert_allclose(found["loss/train"][1], frame["train_loss"], rtol=1e-6)
    for tag, name in (
        ("bits/up_wire", "up_wire_bits"),
        ("bits/up_payload", "up_content_bits"),
        ("bits/down_wire", "down_wire_bits"),
        ("ratio/wire", "ratio_wire"),
        ("ratio/payload", "ratio_content"),
    ):
        assert found[tag][1][-1] == pytest.approx(summary[name], rel=1e-6)


def test_they_are_there_while_it_trains(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(row: dict[str, Any]) -> None:
        seen.append(len(read(tmp_path)["accuracy"][0]))

    run(small(track="tensorboard"), tmp_path, callbacks=[look])
    assert seen == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_run_that_goes_on_has_every_step_once(tmp_path: Path) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["round"] == 3:  # after the checkpoint of round 2: round 3 is done twice
            raise KeyboardInterrupt

    config = small(track="tensorboard", checkpoint_every=2)
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "a", callbacks=[stop])
    run(config, tmp_path / "a")
    run(config, tmp_path / "b")
    assert read(tmp_path / "a") == read(tmp_path / "b")
    assert read(tmp_path / "a")["loss/train"][0] == [5, 10, 15, 20]
