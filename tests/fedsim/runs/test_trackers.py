"""Trackers: what Weights & Biases and MLflow have of a run, read back, and what is refused."""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from fedsim import RunConfig, StoppedEarly, SweepConfig, UsageError, run, sweep
from fedsim.runs.remoterun import RemoteRun
from fedsim.runs.trackers import base
from fedsim.runs.trackers.registry import TRACKER_KINDS
from fedsim.search.search import search
from fedsim.settings.groups import TRACKERS
from tests.support.commands import Typed
from tests.support.runs import rounds, small
from tests.support.wandbfiles import OfflineRun

INSTALLED = {name for name in TRACKERS if (spec := importlib.util.find_spec(name)) and spec.origin}


def needs(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        name not in INSTALLED, reason=f"pip install 'fedsim-lab[{name}]': it is no part of dev"
    )


@pytest.fixture(autouse=True)
def nothing_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    yield


class Mlruns:
    """The runs of an experiment in MLflow, by name."""

    def __init__(self, experiment: str = "fedsim") -> None:
        from mlflow.tracking import MlflowClient

        self.client = MlflowClient()
        place = self.client.get_experiment_by_name(experiment)
        self.runs = {
            one.info.run_name: one for one in self.client.search_runs([place.experiment_id])
        }

    def history(self, run: Any, name: str) -> list[tuple[int, float]]:
        found = self.client.get_metric_history(run.info.run_id, name)
        return [(one.step, one.value) for one in found]


def test_every_name_has_its_tracker() -> None:
    assert list(TRACKER_KINDS) == list(TRACKERS)
    assert [kind.package for kind in TRACKER_KINDS.values()] == list(TRACKERS)


@pytest.mark.parametrize("name", TRACKERS)
def test_a_missing_package_is_told_before_any_work(
    name: str, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(base, "find_spec", lambda asked: None if asked == name else find(asked))
    for command in ("run", "sweep", "search"):
        said = typed(command, "--track", name, "--out", "here")
        assert said.code == 2 and f"pip install 'fedsim-lab[{name}]'" in said.err
        assert not Path("here").exists()


def test_a_folder_named_as_the_package_is_not_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W&B and TensorBoard make such folders, perhaps where Python looks for packages."""
    (tmp_path / "absent_package").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(TRACKER_KINDS["wandb"], "package", "absent_package")
    assert importlib.util.find_spec("absent_package") is not None
    with pytest.raises(UsageError, match="not installed"):
        TRACKER_KINDS["wandb"].check()


def test_a_cell_is_called_by_its_folder_wherever_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    home = tmp_path / "plane" / "cells" / "n10-p0.01-s0"
    remote_run = RemoteRun.of("n10-p0.01-s0", small(track="wandb"), home)
    there = tmp_path / "elsewhere"
    there.mkdir()
    remote_run.archive.unpack(there)
    assert base.run_names(there) == {"name": "n10-p0.01-s0", "group": "plane"}
    assert base.run_names(tmp_path / "alone") == {"name": "alone", "group": None}


def test_names_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    (tmp_path / base.TRACKED_FILE).write_text("{")
    with pytest.raises(UsageError, match="tracked.json cannot be read .*; remove it"):
        base.run_names(tmp_path)


def replaced(monkeypatch: pytest.MonkeyPatch, name: str, **names: Any) -> None:
    """A module of that name with these names in it, for a package that may not be installed."""
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin=__file__)
    vars(module).update(names)
    monkeypatch.setitem(sys.modules, name, module)


def test_wandb_goes_on_by_name_and_a_round_ends_with_its_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsim import Wandb

    begun, told = list[dict[str, Any]](), list[bool]()

    class Online:
        settings, starting_step = SimpleNamespace(mode="online"), 0

        def __init__(self, **options: Any) -> None:
            self.id, self.summary = options["id"], dict[str, Any]()
            begun.append(options)

        def log(self, columns: dict[str, float], step: int, commit: bool) -> None:
            told.append(commit)

        def finish(self, exit_code: int) -> None:
            pass

    replaced(monkeypatch, "wandb", init=Online, Settings=SimpleNamespace)
    monkeypatch.setattr(os, "environ", {})
    tracker = Wandb(tmp_path)
    for _ in range(2):
        tracker.begin({"task": "digits"}, [])
    assert os.environ == {"WANDB_ERROR_REPORTING": "false"}
    name = base.run_names(tmp_path)["wandb"]
    assert [(one["id"], one["resume"]) for one in begun] == [(name, "allow")] * 2
    for metric in (float("nan"), 0.5):
        tracker.round(
            {
                "round": 1,
                "metric": metric,
                "up_wire_bits": 40,
                "down_wire_bits": 0,
                "clients": 4,
                "failures": 0,
            }
        )
    tracker.end({"status": "done"})
    assert told == [False, True]


def test_mlflow_has_an_experiment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedsim import MLflow

    class Client(MagicMock):
        def get_experiment_by_name(self, name: str) -> Any:
            assert name == "fedsim"
            return SimpleNamespace(experiment_id="1")

        def create_run(self, place: str, **_: Any) -> Any:
            assert place == "1"
            return SimpleNamespace(info=SimpleNamespace(run_id="of mlflow"))

    replaced(monkeypatch, "mlflow")
    replaced(monkeypatch, "mlflow.entities", Param=SimpleNamespace, Metric=MagicMock())
    replaced(monkeypatch, "mlflow.tracking", MlflowClient=Client)
    tracker = MLflow(tmp_path)
    tracker.begin({}, [])
    tracker.end({"status": "done", "rounds": 4, "error": None})
    assert base.run_names(tmp_path)["mlflow"] == "of mlflow"


@pytest.mark.slow
@needs("wandb")
def test_wandb_has_settings_rounds_and_summary(tmp_path: Path) -> None:
    out = tmp_path / "one"
    done = run(small(track="wandb", evaluate_every=2, lr=0.1), out)
    found, frame = OfflineRun(out), rounds(out)
    assert (found.run.project, found.run.display_name, found.run.run_group) == ("fedsim", "one", "")
    assert found.config["lr"] == 0.1 and found.config["task"] == "digits"
    assert found.config["batch_size"] == 32 and found.config["temporal"] == 5
    assert [step for step, _ in found.history] == [1, 2, 3, 4]
    for (_, row), (_, kept) in zip(found.history, frame.iterrows(), strict=True):
        assert row["up_wire_bits"] == kept["up_wire_bits"]
        assert row["train_loss"] == pytest.approx(kept["train_loss"])
        assert ("metric" in row) == (kept["round"] % 2 == 0)
    assert found.history[-1][1]["up_bits"] == done.summary["up_wire_bits"]
    for name in ("metric", "up_wire_bits", "ratio_wire", "status"):
        assert found.summary[name] == done.summary[name], name
    assert found.exit == 0


@pytest.mark.slow
@needs("mlflow")
def test_mlflow_has_settings_rounds_and_summary(tmp_path: Path) -> None:
    out = tmp_path / "one"
    done = run(small(track="mlflow", evaluate_every=2, lr=0.1), out)
    store, frame = Mlruns(), rounds(out)
    one = store.runs["one"]
    assert one.info.status == "FINISHED"
    assert one.data.params["lr"] == "0.1" and one.data.params["task"] == "digits"
    assert one.data.params["batch_size"] == "32" and one.data.params["temporal"] == "5"
    assert store.history(one, "up_wire_bits") == [
        (row["round"], row["up_wire_bits"]) for _, row in frame.iterrows()
    ]
    assert [step for step, _ in store.history(one, "metric")] == [2, 4]
    assert one.data.metrics["up_bits"] == done.summary["up_wire_bits"]
    assert one.data.metrics["summary/ratio_wire"] == done.summary["ratio_wire"]


@pytest.mark.slow
@needs("mlflow")
def test_mlflow_says_how_a_run_ended(tmp_path: Path) -> None:
    def stop(row: dict[str, Any]) -> None:
        raise StoppedEarly("enough")

    with pytest.raises(StoppedEarly):
        run(small(track="mlflow"), tmp_path / "one", callbacks=[stop])
    one = Mlruns().runs["one"]
    assert one.info.status == "KILLED" and one.data.tags["error"] == "enough"


@pytest.mark.slow
@needs("mlflow")
@needs("wandb")
def test_sweeps_and_searches_are_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"method": "sbc", "temporal": [10], "gradient": [0.1], "iterations": 20}
    cells = sweep(SweepConfig.of(**given, track="wandb,mlflow"), "plane", jobs=2)
    runs = Mlruns().runs
    names = {folder.name for folder in Path("plane/cells").iterdir()}
    assert len(cells) == 2 and {*runs} == names
    assert {one.data.tags["group"] for one in runs.values()} == {"plane"}
    assert all(OfflineRun(Path("plane/cells", n)).run.run_group == "plane" for n in names)

    base_run = RunConfig.of(method="raw", temporal=1, iterations=20, track="mlflow")
    search(base_run, "found", budget="200kbit", methods="sbc", trials=2, seeds=1, say=str)
    groups = [one.data.tags["group"] for one in Mlruns().runs.values()]
    assert groups.count("found") == 2 and groups.count("found/finals") >= 1
    assert groups.count("found/held-out") >= 1


@pytest.mark.slow
@needs("mlflow")
def test_a_tracker_that_does_not_answer_ends_the_run_with_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "one"
    (out).mkdir()
    (out / base.TRACKED_FILE).write_text(
        json.dumps({"name": "one", "group": None, "mlflow": "nobody"})
    )
    with pytest.raises(Exception, match="nobody"):
        run(small(track="mlflow"), out)
    assert "nobody" in json.loads((out / "summary.json").read_text())["error"]


def test_a_run_leaves_the_environment_and_the_signals(tmp_path: Path) -> None:
    signals = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
    before = dict(os.environ), [signal.getsignal(number) for number in signals]
    run(small(partition="dirichlet(0.5)", track="tensorboard"), tmp_path)
    assert (dict(os.environ), [signal.getsignal(number) for number in signals]) == before
