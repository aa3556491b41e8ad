"""A run that stopped at any instant goes on and ends bit-identical to one that did not."""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import torch

from fedsim import RunConfig, run
from fedsim.runs import checkpoint as checkpoints
from fedsim.runs.checkpoint import Checkpoint, load_checkpoint, remove, save_checkpoint
from tests.support.faults import told
from tests.support.forked import exit_code
from tests.support.interrupting import SETTINGS, Stopped, recording, stop_after
from tests.support.runs import assert_same, parts, small


@pytest.mark.slow
@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_a_stopped_run_ends_as_if_it_had_not(settings: dict[str, Any], tmp_path: Path) -> None:
    """Six rounds, a checkpoint every second; stopped after 3 and, gone on from 2, after 5."""
    config = small(**{"iterations": 30, "checkpoint_every": 2, "evaluate_every": 2} | settings)
    run(config, tmp_path / "whole")
    out = tmp_path / "parts"
    for number in (3, 5):
        with pytest.raises(Stopped):
            run(config, out, callbacks=[stop_after(number)])
        kept = [f"checkpoint-{done:08d}" for done in (number - 3, number - 1) if done]
        assert sorted(d.name for d in out.glob("checkpoint-*")) == kept
    seen: list[int] = []
    run(config, out, callbacks=[recording(seen)])
    assert seen == [5, 6]
    assert_same(tmp_path / "whole", out)
    assert not list(out.glob("checkpoint-*")) and not parts(out)
    run(config, out, callbacks=[recording(seen)])
    assert seen == [5, 6]  # and not again


def test_checkpoints_change_nothing(tmp_path: Path) -> None:
    config = small(downlink="sbc(0.1)", strategy="fedadam")
    run(config, tmp_path / "without")
    run(config.but(checkpoint_every=1), tmp_path / "with")
    assert_same(tmp_path / "without", tmp_path / "with")


def test_before_the_first_checkpoint_it_starts_again(tmp_path: Path) -> None:
    config, seen = small(), []
    with pytest.raises(Stopped):
        run(config, tmp_path / "a", callbacks=[stop_after(3)])
    run(config, tmp_path / "a", callbacks=[recording(seen)])
    assert seen == [1, 2, 3, 4]
    run(config, tmp_path / "b")
    assert_same(tmp_path / "a", tmp_path / "b")


def checkpoint(number: int) -> Checkpoint:
    return Checkpoint(
        round=number,
        server={
            "weights/z": torch.ones(1),
            "weights/w": torch.tensor([0.1, -0.0, 1e-40]),
            "inner/v": torch.ones(2).double(),
        },
        values={"version": number, "base": {"0": 3}, "update": "AAE=", "spans": {"header": 24}},
        clients={0: {"iterations": torch.tensor(7)}, 11: {"a/b": torch.zeros(0, 3)}},
        rounds=[{"round": i, "metric": float("nan"), "bits": 2**40} for i in range(1, number + 1)],
        client_rows=[{"round": 1, "client": 0, "train_loss": 0.1}],
        layer_rows=[{"round": 1, "tensor": "w", "entries": 3, "sent": 1.5}],
    )


def test_a_checkpoint_and_back(tmp_path: Path) -> None:
    wanted = checkpoint(2)
    save_checkpoint(tmp_path, wanted, 0)
    found = load_checkpoint(tmp_path)
    assert found is not None
    assert (found.round, found.values) == (2, wanted.values)
    assert [*found.client_rows] == wanted.client_rows
    assert [*found.layer_rows] == wanted.layer_rows
    assert [r["bits"] for r in found.rounds] == [2**40] * 2
    pairs = [
        (wanted.server, found.server),
        *((wanted.clients[c], found.clients[c]) for c in (0, 11)),
    ]
    assert sorted(found.clients) == [0, 11]
    for before, after in pairs:
        assert list(before) == list(after)
        for name, x in before.items():
            assert after[name].dtype == x.dtype and after[name].shape == x.shape
            assert after[name].numpy().tobytes() == x.numpy().tobytes()


def test_only_the_last_two_checkpoints_stay(tmp_path: Path) -> None:
    for before, number in ((0, 1), (1, 2), (2, 10)):
        save_checkpoint(tmp_path, checkpoint(number), before)
    assert {d.name for d in tmp_path.iterdir()} == {"checkpoint-00000002", "checkpoint-00000010"}
    assert load_checkpoint(tmp_path).round == 10
    remove(tmp_path)
    assert load_checkpoint(tmp_path) is None and not list(tmp_path.iterdir())


def test_a_checkpoint_that_was_not_finished_is_not_there(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, checkpoint(2), 0)
    (tmp_path / "checkpoint-00000002").rename(tmp_path / ".0011.part")
    save_checkpoint(tmp_path, checkpoint(1), 0)
    assert load_checkpoint(tmp_path).round == 1
    assert not parts(tmp_path)


def dying(config: RunConfig, out: Path, where: str, number: int) -> None:
    """A run that kills its process."""

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    real, replace, calls = checkpoints.save_file, os.replace, list[Any]()

    def save_file(tensors: Any, path: Any) -> None:
        calls.append(path)
        real(tensors, path)
        if where == "checkpoint" and len(calls) == number:
            whole = Path(path).read_bytes()
            Path(path).write_bytes(whole[: len(whole) // 2])
            die()

    def replacing(part: Any, path: Any) -> None:
        named = Path(path).name == f"checkpoint-{number:08d}"
        if where == "rename" and named:
            die()
        replace(part, path)
        if where == "renamed" and named:
            die()
        if where == "summary" and Path(path).name == "summary.json":
            die()

    def progress(row: Any) -> None:
        if where == "round" and row["round"] == number:
            die()

    with patch.object(checkpoints, "save_file", save_file), patch.object(os, "replace", replacing):
        run(config, out, callbacks=[progress])


def killed(config: RunConfig, out: Path, where: str, number: int) -> None:
    assert exit_code(partial(dying, config, out, where, number)) == -signal.SIGKILL
    assert not (out / "summary.json").exists() or where == "summary"


INSTANTS = [
    ("round", 3, [3, 4, 5, 6]),
    ("checkpoint", 2, [3, 4, 5, 6]),
    ("renamed", 4, [5, 6]),
    ("checkpoint", 1, [1, 2, 3, 4, 5, 6]),
    ("rename", 4, [3, 4, 5, 6]),
    ("summary", 0, []),
]


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    ("where", "number", "goes_on"),
    [*INSTANTS[:3], *(pytest.param(*instant, marks=pytest.mark.proof) for instant in INSTANTS[3:])],
)
def test_kill_9(where: str, number: int, goes_on: list[int], tmp_path: Path) -> None:
    config = small(
        iterations=30,
        checkpoint_every=2,
        downlink="gradient_dropping(0.05)",
        strategy="fedadam",
        cohort=3,
        keep_payloads=True,
    )
    out = tmp_path / "killed"
    killed(config, out, where, number)
    left = parts(out)
    assert bool(left) == (where in ("checkpoint", "rename"))
    seen: list[int] = []
    run(config, out, callbacks=[recording(seen)])
    assert seen == goes_on
    assert not parts(out) and not list(out.glob("checkpoint-*"))
    run(config, tmp_path / "whole")
    assert_same(tmp_path / "whole", out)
    told("kill -9", f"run, {where} {number}", 1)
