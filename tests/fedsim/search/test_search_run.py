"""Searches from end to end: what they leave and refuse, and that a kill loses nothing."""

import signal
import sys
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim import Evaluation, RunConfig, UsageError, run
from fedsim.commands.cli import main
from fedsim.federation.clientdata import ClientData
from fedsim.ground.errors import RunFailed
from fedsim.runs.parallel import run_here
from fedsim.search import exploration, study
from fedsim.search import space as space_module
from fedsim.search.curves import read_curve
from fedsim.search.goal import Goal
from fedsim.search.methods import select_methods
from fedsim.search.search import rerun
from fedsim.search.space import Sizes, Space, fitting
from fedsim.settings.config import from_toml
from tests.support.forked import exit_code
from tests.support.searching import TINY, killed, searched, told

BASE = RunConfig(task=TINY, method="raw", temporal=1, evaluation=Evaluation(validation=0.2))


@pytest.mark.slow
def test_a_search_leaves_its_tables_page_and_winner(tmp_path: Path) -> None:
    said: list[str] = []
    found = searched(tmp_path, say=said.append)
    assert len(found.trials) == 8 and sum(line.startswith("trial ") for line in said) == 8
    assert found.winner is found.finalists[0]
    assert pd.read_csv(tmp_path / "trials.csv")["trial"].tolist() == list(range(8))
    assert len(pd.read_csv(tmp_path / "finalists.csv")) == len(found.finalists)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "best.toml" in page and "Every trial" in page
    assert (tmp_path / "search.png").stat().st_size > 5000
    assert all(f.held.points and len(f.validated.points) == 2 for f in found.finalists)
    inside = found.trials.loc[found.trials["state"] == "complete", "bits"]
    assert (inside <= 20e3).all()


@pytest.mark.slow
def test_a_search_of_both_ways_chooses_the_downlink(tmp_path: Path) -> None:
    """A trial's bits are those that its run has recorded up and down, within the budget."""
    base = RunConfig(task=TINY, method="raw", temporal=1, budget_of="total")
    found = searched(tmp_path, base=base, trials=10)
    ended = found.trials[found.trials["state"] == "complete"]
    assert len(ended) and (ended["bits"] <= 20e3).all()
    for row in ended.to_dict("records"):
        rounds = pd.read_parquet(tmp_path / "cells" / row["cell"] / "rounds.parquet")
        spent = ((rounds["up_wire_bits"] + rounds["down_wire_bits"]) / 2).cumsum()
        assert row["bits"] in spent[rounds["metric"].notna()].tolist()
    assert set(ended["downlink"]) <= {"raw", "relay", "sbc", "stc"} and len(set(ended["bits"])) > 1
    assert "both ways" in (tmp_path / "report.html").read_text(encoding="utf-8")
    config, best = from_toml(tmp_path / "best.toml"), found.winner
    assert best is not None and config.budget_of == "total"
    assert (config.downlink or "").startswith(best.params["downlink"])
    again = searched(tmp_path, base=base, trials=10)
    assert again.trials.equals(found.trials)


@pytest.mark.slow
def test_a_time_that_is_over_before_a_trial_begins_is_told(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="was over before a trial had ended.*give more --time"):
        searched(tmp_path, trials=None, time=0.001, seeds=1)
    assert searched(tmp_path, trials=1, seeds=1).finalists  # the folder goes on


def test_a_folder_that_holds_a_run_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("method = 'raw'")
    with pytest.raises(UsageError, match="it holds a run"):
        searched(tmp_path)
    for time in (0, ""):
        with pytest.raises(UsageError, match="--time is"):
            searched(tmp_path / "other", trials=None, time=time)
    with pytest.raises(UsageError, match="--rounds is 3"):
        searched(tmp_path / "other", base=RunConfig(task=TINY, method="raw", temporal=1, rounds=3))
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_the_command_that_runs_the_winner_again_can_be_pasted() -> None:
    assert rerun(Path("my results")) == (
        "fedsim run --config 'my results/best.toml' --out 'my results/best'"
    )


@pytest.mark.slow
def test_what_an_earlier_search_left_goes_where_there_is_no_winner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert searched(tmp_path, trials=2, seeds=1).winner and (tmp_path / "best.toml").exists()
    monkeypatch.setattr(sys.modules["fedsim.search.search"], "winner", lambda ranked, goal: None)
    assert searched(tmp_path, trials=2, seeds=1).winner is None
    assert not (tmp_path / "best.toml").exists()


class Clock:
    """A clock that stands still but for what is counted: 2 s to begin a run, 1 s per round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr(exploration, "clock", lambda: self.now)
        monkeypatch.setattr(exploration, "run_here", self._run)

    def _run(self, work: Any, progress: Any, ended: Any) -> None:
        run_here(self._begun(work), lambda *row: self._later(1) or progress(*row), ended)

    def _begun(self, work: Any) -> Any:
        for item in work:
            self._later(2)
            yield item

    def _later(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20, 200])
def test_finalists_and_held_out_runs_are_inside_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    """What is under way when the time is over ends with its round. With more time it is done.

    The preparation, of 1000 s per message, does not count.
    """
    clock, said = Clock(monkeypatch), list[str]()
    monkeypatch.setattr(Sizes, "try_out", lambda *given: clock._later(1000))
    found = searched(tmp_path, trials=None, time=seconds, say=said.append)
    assert clock.now >= 2000 and clock.now % 1000 <= seconds + 3 and found.winner is not None
    short = any("the time is over" in line for line in said)
    whole = [f for f in found.finalists if None not in (*f.validated.points, *f.held.points)]
    assert short or len(whole) == len(found.finalists)
    assert whole if seconds > 20 else short
    if short:
        again = searched(tmp_path, trials=None, time=200)
        assert not any(None in (*f.validated.points, *f.held.points) for f in again.finalists[:1])


@pytest.mark.slow
def test_the_winner_runs_again_with_the_same_result(tmp_path: Path) -> None:
    base = RunConfig(method="raw", temporal=1, iterations=8, clients=2)
    found = searched(tmp_path / "a", base=base, budget="100kbit", methods="stc", trials=1, seeds=1)
    assert found.winner is not None
    point = found.winner.held.points[0]
    config = from_toml(tmp_path / "a" / "best.toml")
    assert config.evaluation.validation is None
    run(config, tmp_path / "again", progress=False)
    assert found.goal.point(read_curve(tmp_path / "again")) == point


@pytest.mark.proof
@pytest.mark.processes
def test_trials_side_by_side_are_counted_and_go_on(tmp_path: Path) -> None:
    """Two at a time; the same command with more trials goes on from those that there are."""
    said: list[str] = []
    assert len(searched(tmp_path, trials=5, seeds=1, jobs=2, say=said.append).trials) == 5
    assert sum(line.startswith("trial ") for line in said) == 5
    found = searched(tmp_path, trials=8, seeds=1, jobs=2)
    assert found.trials["trial"].tolist() == list(range(8))
    assert {*found.trials["state"]} <= {"complete", "pruned"} and found.winner is not None


@pytest.mark.slow
def test_a_killed_search_ends_as_one_that_was_not(tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole", trials=6, seeds=1)
    for line in (4, 7):  # that a process says: in the trials, then in the finals
        assert exit_code(partial(killed, tmp_path / "killed", line, 6)) == -signal.SIGKILL
    assert told(searched(tmp_path / "killed", trials=6, seeds=1)) == told(whole)


@pytest.mark.slow
def test_the_fewest_bits_to_a_target_are_those_of_every_point_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space_module, "_RATES", 1.0)  # one rate
    base, goal = replace(BASE, iterations=8), Goal(True, "accuracy", target=0.55)
    methods = ["topk(0.25) | float32 | golomb", "ef(onebit)", "cnat"]
    space = Space(base, goal, fitting(base, goal, methods, sizes := Sizes(base))[0], sizes)
    fewest = []
    for number, (method, n, coder) in enumerate(
        product(methods, (1, 2, 3, 4), ("own", "golomb | ans", "ans | ans"))
    ):
        point = {"method": method, "temporal": n, "coder": coder, "gradient": 1.0, "lr": 0.3}
        folder = tmp_path / "grid" / str(number)
        run(space.config(point), folder, progress=False)
        if there := goal.point(read_curve(folder)):
            fewest.append(there[0])
    monkeypatch.setattr(study, "CODERS", ("own", "golomb | ans", "ans | ans"))
    found = searched(
        tmp_path / "search",
        base=base,
        budget=None,
        target=0.55,
        methods=methods,
        trials=60,
        seeds=1,
    )
    reached = found.trials.loc[found.trials["state"] == "complete", ["bits", "metric"]]
    assert reached.loc[reached["metric"] >= 0.55, "bits"].min() == min(fewest)


@pytest.mark.slow
def test_without_a_goal_the_front_is_found(tmp_path: Path) -> None:
    found = searched(tmp_path, budget=None, trials=5)
    bits = [f.validated.bits() for f in found.finalists]
    assert bits == sorted(bits) and found.winner in found.finalists
    assert set(found.importance) <= {"accuracy", "bits"}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--budget", "50"], "--budget is 50 bit: one message of"),
        (["--budget", "1Mbit", "--target", "0.9"], "give one of them, or neither"),
        (["--trials", "3", "--time", "1min"], "--time is 1min and --trials 3: give one"),
        (["--trials", "0"], "--trials is 0: give a number above 0"),
        (["--target", "98"], "--target is 98.0: accuracy lies in (0, 1]"),
        (["--methods", "sbcc"], "unknown method 'sbcc' (did you mean sbc"),
        (
            ["--methods", "sbc, nothing(3)"],
            "--methods: method 'nothing(3)': unknown name 'nothing'",
        ),
        (["--methods", " ; "], "--methods is ' ; ': it takes all, published"),
        (["--time", "soon"], "--time is 'soon'"),
        (["--time", "1.5"], "it needs a unit: s, min or h, such as 1.5min"),
        (["--validation", "1.5"], "--validation is 1.5: give a number between 0 and 1"),
        (["--seed", f"{2**63 - 3}"], f"--seed is {2**63}: give a whole number from 0 to 2^63 - 1"),
    ],
)
def test_bad_searches_are_refused_before_work(
    flags: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["search", "--methods", "sbc,stc", *flags, "--out", str(tmp_path / "out")]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert said in lines[-1] and not [x for x in lines[:-1] if not x.startswith("preparing: ")]
    assert not (tmp_path / "out").exists()


def test_methods_that_cannot_run_are_left_out_with_the_reason() -> None:
    goal = Goal(True, "accuracy", budget=20e3)
    fit, left = fitting(BASE, goal, select_methods("sbc; dgc({p})"), Sizes(BASE))
    assert fit == ("sbc",) and "--momentum 0" in left["dgc({p})"]


@pytest.mark.slow
def test_every_point_of_every_published_method_can_be_run() -> None:
    """Two take no fraction above a tenth, or a half, and the first points are drawn up to 1."""
    goal, sizes = Goal(True, "accuracy", budget=20e3), Sizes(BASE)
    space = Space(BASE, goal, fitting(BASE, goal, select_methods("published"), sizes)[0], sizes)
    for number, method in enumerate(space.methods):
        point = space.draw(number, method, seed=0) | {"gradient": 1.0}
        p = space.used(point)["gradient"]
        greatest = {"cocktailsgd": 0.1, "rtopk({p}, 0.5) | float32 | golomb": 0.5}
        assert p in (greatest.get(method, 1.0), None)
        assert space.bits(point) and space.cell(point).name


def test_the_validation_part_is_trained_on_by_nobody() -> None:
    whole, parted = ClientData.of(BASE.but(validation=None)), ClientData.of(BASE)
    trained = sorted(index for shard in parted.shards for index in shard)
    assert len(trained) == 96 and len(parted.data.test_y) == 24 and len(set(trained)) == 96
    left = sorted(set(range(120)) - set(trained))
    assert (parted.data.test_x[:] == whole.data.train_x[left]).all()
    other = ClientData.of(replace(BASE, seed=5))
    assert (other.data.test_y == parted.data.test_y).all()  # every seed is scored on the same


def test_a_part_of_no_samples_is_refused() -> None:
    with pytest.raises(UsageError, match="it takes 0 of 120 training samples"):
        ClientData.of(BASE.but(validation=0.001))


def test_trials_are_kept_beside_the_space_that_they_are_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Any] = []

    def study(*given: Any) -> None:
        made.extend(given)
        raise InterruptedError

    monkeypatch.setattr(sys.modules["fedsim.search.search"], "Study", study)
    with pytest.raises(InterruptedError):
        searched(tmp_path)
    space, file, _ = made
    assert space.goal.budget == 20e3 and file == tmp_path / "study.db"
