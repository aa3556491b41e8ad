"""A trial's worth, the study's memory, and which trials count, by made-up runs."""

import math
from collections.abc import Callable
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import optuna
import pytest
from optuna.trial import TrialState

from fedsim import Evaluation, RunConfig
from fedsim.ground.errors import RESUMES, RunFailed, UsageError
from fedsim.search import exploration, finals, search
from fedsim.search.curves import curve_of
from fedsim.search.exploration import NONE_WITHIN, OVER, REPEATED, TOO_LONG, Exploration, Limits
from fedsim.search.goal import NOT_REACHED, Curve, Goal
from fedsim.search.stopping import BEHIND, DEARER, REACHED
from fedsim.search.study import CELL, WHY
from tests.support.madesearch import (
    POINT,
    SEED,
    Cells,
    curve,
    in_memory,
    made_study,
    study_of,
    trial,
)
from tests.support.searching import TINY

BUDGET = Goal(True, "accuracy", budget=1000.0)
TARGET = Goal(True, "accuracy", target=0.9)
FRONT = Goal(True, "accuracy")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory(monkeypatch)


# --- what a curve is worth ----------------------------------------------------------------------


def test_a_client_s_bits_are_the_means_over_cohorts_added_up() -> None:
    """Rounds of 2, 4 and 1 clients: 80 / 2, 80 / 4, 7; the second was not evaluated."""
    rows = [
        {"up_wire_bits": 80, "clients": 2, "metric": 0.5, "loss": 0.75},
        {"up_wire_bits": 80, "clients": 4, "metric": float("nan"), "loss": float("nan")},
        {"up_wire_bits": 7, "clients": 1, "metric": 0.25},
    ]
    assert curve_of(rows) == Curve((40, 67), (0.5, 0.25), (0.75, inf))
    received = [{"down_wire_bits": bits, "failures": 0} for bits in (0, 20, 300)]
    both = [up | down for up, down in zip(rows, received, strict=True)]
    assert curve_of(both, "total").bits == (40, 40 + 25 + 307)


def test_within_a_budget_the_last_evaluation_within_it_counts() -> None:
    """At exactly 1000 bits it is within; a better one before or after does not count."""
    assert BUDGET.point(curve((500, 0.9), (1000, 0.6), (1001, 0.99))) == (1000, 0.6)
    assert BUDGET.loss(curve((500, 0.9), (1000, 0.6), (1001, 0.99))) == -0.6
    assert BUDGET.loss(curve((1001, 0.9))) is None and BUDGET.loss(curve()) is None
    assert Goal(False, "perplexity", budget=1000.0).loss(curve((1, 7.5))) == 7.5


def test_to_a_target_the_bits_of_the_first_evaluation_there_count() -> None:
    """At exactly 0.9 it is there. A curve that misses by 0.25 at best is worth 100.25."""
    there = curve((10, 0.5), (100, 0.9), (1000, 0.99))
    assert TARGET.point(there) == (100, 0.9) and TARGET.loss(there) == 2
    lower = Goal(False, "perplexity", target=0.5)
    assert lower.point(curve((10, 0.51), (100, 0.5))) == (100, 0.5)
    assert Goal(True, "score", target=1.0).loss(curve((10, 0.5), (20, 0.75), (30, 0.25))) == 100.25
    assert NOT_REACHED == 100 and TARGET.loss(curve()) is None
    assert TARGET.loss(curve((0, 0.95))) == 0  # before any bits
    assert TARGET.task_loss(Curve((50,), (0.95,), (math.nan,))) == inf


def test_of_a_front_the_last_evaluation_counts_with_its_bits() -> None:
    assert FRONT.point(curve((10, 0.9), (20, 0.5))) == (20, 0.5)
    assert FRONT.loss(curve((10, 0.9), (20, 0.5))) == -0.5 and FRONT.point(curve()) is None


# --- what a study keeps -------------------------------------------------------------------------


def test_first_comes_one_trial_per_method_as_it_was_drawn() -> None:
    study = made_study(BUDGET)
    first, second = study.ask(), study.ask()
    assert first == (0, POINT | {"temporal": 1}) and second[0] == 1
    assert second[1] == POINT | {"method": "stc", "temporal": 2}
    number, point = study.ask()
    assert number == 2 and 1 <= point["temporal"] <= 8 and 0.1 <= point["gradient"] <= 1


@pytest.mark.parametrize(
    ("goal", "points", "good", "state", "values"),
    [
        (BUDGET, ((500, 0.8),), True, "COMPLETE", [-0.8]),
        (BUDGET, ((500, 0.8),), False, "PRUNED", [-0.8]),  # as it stood
        (BUDGET, ((2000, 0.8),), True, "PRUNED", None),  # none within the budget
        (TARGET, ((1000, 0.9),), True, "COMPLETE", [3.0]),
        (FRONT, ((10, 0.7), (40, 0.6)), True, "COMPLETE", [40, -0.6]),  # bits, then the loss
    ],
)
def test_what_a_study_is_told(
    goal: Goal, points: Any, good: bool, state: str, values: list[float] | None
) -> None:
    """Of a trial that does not count, what it was worth at its steps is kept, but for a front."""
    study = made_study(goal)
    number, _ = study.ask()
    study.tell(number, "cell", curve(*points), "why", good)
    (told,) = study.trials
    assert told.state == TrialState[state] and told.number == 0
    assert (told.values or None) == values
    assert (told.user_attrs[CELL], told.user_attrs[WHY]) == ("cell", "why")
    if not good:
        assert told.intermediate_values == {8: -0.8}


def test_a_study_goes_on_where_it_was_stopped() -> None:
    """One trial told, one interrupted: it comes again with its number and its point, once."""
    study = made_study(BUDGET)
    number, _ = study.ask()
    study.tell(number, "a", curve((500, 0.8)))
    _, interrupted = study.ask()
    study.seconds = 12.5
    again = made_study(BUDGET)
    assert again.seconds == 12.5 and len(again.trials) == 1
    assert list(again.left_running()) == [(1, interrupted)]
    assert list(again.left_running()) == []
    again.tell(1, "b", curve((500, 0.7)))
    assert [t.values for t in again.trials] == [[-0.8], [-0.7]]
    assert again.ask()[0] == 2


def test_methods_take_turns_whatever_their_trials_come_to() -> None:
    """Pruned and refused trials count."""
    study, methods = made_study(BUDGET), list[str]()
    for k in range(7):
        number, point = study.ask()
        methods.append(point["method"])
        worth = (), ((500, 0.9 - k / 10),)
        study.tell(number, f"c{k}", curve(*worth[k % 2]), "", good=k % 3 == 0)
    assert methods == ["sbc", "stc", "sbc", "stc", "sbc", "stc", "sbc"]


def test_a_method_s_proposals_depend_on_its_own_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other scores of sbc change what sbc tries next, and nothing of stc."""
    asked = []
    for scores in ([0.1, 0.5, 0.9], [0.9, 0.5, 0.1]):
        study, points = made_study(BUDGET, file=str(scores)), []
        for k in range(8):
            number, point = study.ask()
            points.append(point)
            score = scores[k // 2 % 3] if point["method"] == "sbc" else 0.3 + k / 100
            study.tell(number, f"c{k}", curve((500, score)))
        asked.append(points)
    one, other = asked
    assert one[1::2] == other[1::2] and one[6] != other[6]


def test_a_trial_that_a_kill_left_planned_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study was stopped between the plan of its second trial and its begin."""
    study = made_study(BUDGET)
    study.tell(study.ask()[0], "a", curve((500, 0.8)))

    def killed(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(optuna.Study, "ask", killed)
        study.ask()
    again = made_study(BUDGET)
    assert again.ask() == (1, POINT | {"method": "stc", "temporal": 2})
    assert again.ask()[0] == 2


# --- which trials count -------------------------------------------------------------------------


class Made:
    """An exploration whose runs are made up: by the name of the cell, a summary and a curve."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        out: Path,
        goal: Goal,
        of: Callable[[str], tuple[dict[str, Any], Curve]],
        trials: int,
        bits: int = 10,
        before: "Made | None" = None,
    ) -> None:
        self.ran, self.said, self.of = list[str](), list[str](), of
        self.study = made_study(goal, bits, str(out / "study.db"))
        self.done: dict[str, tuple[dict[str, Any], Curve]] = {} if before is None else before.done
        monkeypatch.setattr(exploration, "run_here", self._run)
        monkeypatch.setattr(exploration.curves, "ended", self._ended)
        monkeypatch.setattr(
            exploration.curves, "read_curve", lambda f, of="up": self.done[f.name][1]
        )
        Exploration(self.study, out, Limits(trials), self.said.append).run(1, None)

    def _run(self, work: Any, progress: Any, ended: Any) -> None:
        for name, _, _ in work:
            self.ran.append(name)
            self.done[name] = self.of(name)
            ended(name)

    def _ended(self, folder: Path) -> dict[str, Any] | None:
        return self.done[folder.name][0] if folder.name in self.done else None


def ended(why: str, *points: tuple[float, float]) -> tuple[dict[str, Any], Curve]:
    """A run's summary and curve; ``why`` it was stopped, or failed; empty: it is done."""
    status = "done" if not why else "failed" if why == "NaN" else "stopped"
    return {"status": status, "error": why or None}, curve(*points)


@pytest.mark.parametrize(
    ("goal", "why", "state"),
    [
        (BUDGET, "", "COMPLETE"),
        (BUDGET, BEHIND, "PRUNED"),
        (BUDGET, "NaN", "PRUNED"),
        (TARGET, REACHED, "COMPLETE"),
        (TARGET, DEARER, "PRUNED"),
        (TARGET, BEHIND, "PRUNED"),
        (FRONT, BEHIND, "COMPLETE"),
    ],
)
def test_which_ends_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, goal: Goal, why: str, state: str
) -> None:
    """A run that ended by itself or at the target; on the front, one that was behind, too."""
    made = Made(monkeypatch, tmp_path, goal, lambda name: ended(why, (100, 0.95)), trials=1)
    (told,) = made.study.trials
    assert told.state == TrialState[state] and told.user_attrs[WHY] == why
    assert made.ran == ["sbc-n1-s7"]


@pytest.mark.parametrize("goal", [BUDGET, FRONT])
def test_a_trial_that_the_time_ended_goes_on_with_more_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, goal: Goal
) -> None:
    """The study has it as running, and its folder is run again."""
    first = Made(monkeypatch, tmp_path, goal, lambda name: ended(OVER, (100, 0.5)), trials=1)
    assert first.study.trials == [] and first.ran == ["sbc-n1-s7"]
    assert OVER in first.said[-1]
    same = made_study(goal, 10, str(tmp_path / "study.db"))  # the same command, and no more time
    Exploration(same, tmp_path, Limits(seconds=0.0), [].append).run(1, None)
    assert first.ran == ["sbc-n1-s7"] and same.trials == []
    again = Made(
        monkeypatch, tmp_path, goal, lambda name: ended("", (100, 0.95)), trials=1, before=first
    )
    assert again.ran == ["sbc-n1-s7"]
    assert [(t.number, t.state) for t in again.study.trials] == [(0, TrialState.COMPLETE)]


def test_settings_that_do_not_go_together_end_a_trial(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such as a delay that leaves fewer updates than a buffer takes: the others go on."""
    cell = Cells.cell

    def refusing(self: Cells, params: dict[str, Any], *given: Any) -> Any:
        if params["method"] == "sbc":
            raise UsageError("buffer_size is 10: there are 4 updates")
        return cell(self, params, *given)

    monkeypatch.setattr(Cells, "cell", refusing)
    made = Made(monkeypatch, tmp_path, BUDGET, lambda name: ended("", (100, 0.5)), trials=2)
    assert [(t.state.name, t.user_attrs[WHY]) for t in made.study.trials] == [
        ("PRUNED", "buffer_size is 10: there are 4 updates"),
        ("COMPLETE", ""),
    ]


def test_a_trial_without_an_evaluation_within_the_budget_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its first message was of 1001 bits, though one of fewer was expected."""
    made = Made(monkeypatch, tmp_path, BUDGET, lambda name: ended("", (1001, 0.9)), trials=1)
    (told,) = made.study.trials
    assert (told.state, told.user_attrs[WHY]) == (TrialState.PRUNED, NONE_WITHIN)
    assert made.said[0].endswith("accuracy 0.9000 at 1.00 kbit (no evaluation within the budget)")


def test_the_number_of_trials_counts_all_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Three, of which two were told before; with three asked for none is left to do."""

    def good(name: str) -> tuple[dict[str, Any], Curve]:
        return ended("", (100, 0.5))

    first = Made(monkeypatch, tmp_path, BUDGET, good, trials=2)
    assert first.ran == ["sbc-n1-s7", "stc-n2-s7"]
    again = Made(monkeypatch, tmp_path, BUDGET, good, 3, before=first)
    assert [t.number for t in again.study.trials] == [0, 1, 2]
    assert len(again.said) == 1 and again.said[0].startswith("trial 2: ")
    assert Made(monkeypatch, tmp_path, BUDGET, good, 3, before=again).said == []


def test_the_best_so_far_is_told_of_trials_that_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """0.5 counts and is the best; 0.9 was behind and does not count."""
    runs = {"sbc-n1-s7": ended("", (100, 0.5)), "stc-n2-s7": ended(BEHIND, (100, 0.9))}
    made = Made(monkeypatch, tmp_path, BUDGET, runs.__getitem__, trials=2)
    assert [line.split(": ", 2)[2] for line in made.said] == [
        "accuracy 0.5000 at 100 bit · best so far",
        f"accuracy 0.9000 at 100 bit ({BEHIND})",
    ]
    runs["stc-n2-s7"] = ended("", (100, 0.4))
    worse = Made(monkeypatch, tmp_path / "worse", BUDGET, runs.__getitem__, trials=2)
    assert worse.said[1].endswith("accuracy 0.4000 at 100 bit")


@pytest.mark.parametrize(("bits", "ran"), [(1500, 1), (1501, 0)])
def test_a_message_of_more_than_one_and_a_half_budgets_is_not_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, bits: int, ran: int
) -> None:
    made = Made(monkeypatch, tmp_path, BUDGET, lambda name: ended("", (9, 0.5)), 1, bits)
    assert len(made.ran) == ran and len(made.study.trials) == 1
    assert made.study.trials[0].user_attrs[WHY] == ("" if ran else TOO_LONG)


def fails(times: int, why: str = f"OSError: disk; {RESUMES}") -> Any:
    """Runs of which that of stc fails so many times, and then is done."""
    left = [ended("NaN", (9, 0.5))[0] | {"error": why}] * times

    def of(name: str) -> tuple[dict[str, Any], Curve]:
        failed = left.pop() if left and name.startswith("stc") else None
        return (failed, curve()) if failed else ended("", (9, 0.5))

    return of


def told(made: Made) -> list[Any]:
    """The trials of a study."""
    return [(t.number, t.state, t.params, t.values) for t in made.study.trials]


def test_a_trial_whose_files_fail_is_tried_once_more_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before any other is asked for, which the sampler proposes by all that have ended."""
    whole = Made(monkeypatch, tmp_path / "whole", BUDGET, fails(0), trials=4)
    made = Made(monkeypatch, tmp_path / "failed", BUDGET, fails(1), trials=4)
    assert made.ran == [*whole.ran[:2], *whole.ran[1:]]
    assert told(made) == told(whole)
    assert made.said[1] == f"trial 1: OSError: disk; {RESUMES}; it is tried once more"


def test_a_trial_whose_files_fail_twice_ends_the_search_and_the_same_command_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Made(monkeypatch, tmp_path / "whole", BUDGET, fails(0), trials=4)
    out, left = tmp_path / "failed", cast(Made, SimpleNamespace(done={}))
    with pytest.raises(RunFailed, match=f"trial 1: OSError: disk; {RESUMES}"):
        Made(monkeypatch, out, BUDGET, fails(2), 4, before=left)
    assert told(Made(monkeypatch, out, BUDGET, fails(0), 4, before=left)) == told(whole)


def test_a_trial_whose_folder_lacks_its_summary_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(Made, "_ended", lambda self, folder: None)
    with pytest.raises(RunFailed, match="trial 0: its folder has no summary.json"):
        Made(monkeypatch, tmp_path, BUDGET, fails(0), trials=2)


def test_a_trial_that_fails_when_no_other_is_to_come_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Side by side the work may be at its end before the last run fails."""

    def beside(self: Made, work: Any, progress: Any, ended: Any) -> None:
        names = [name for name, *_ in work]
        for name in names:
            self.done[name] = self.of(name)
            ended(name)

    monkeypatch.setattr(Made, "_run", beside)
    made = Made(monkeypatch, tmp_path, BUDGET, fails(1), trials=2)
    assert [t.state.name for t in made.study.trials] == ["COMPLETE"] * 2


def test_a_cell_that_has_ended_is_not_run_again_but_for_one_that_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One cell: first done, then asked for again; a failed one runs anew."""
    for why, runs, states in (
        ("", 1, ["COMPLETE"] * 2),
        (BEHIND, 1, ["PRUNED"] * 2),
        ("NaN", 2, ["PRUNED"] * 2),
    ):
        out = tmp_path / (why or "done")
        with monkeypatch.context() as patched:
            patched.setattr("tests.support.madesearch.Cells.draw", lambda *given: POINT)
            patched.setattr("tests.support.madesearch.Cells.cell", lambda *given: named())
            made = Made(patched, out, BUDGET, lambda name, why=why: ended(why, (9, 0.5)), 2)
        assert len(made.ran) == runs and [t.state.name for t in made.study.trials] == states
        assert {t.user_attrs[WHY] for t in made.study.trials} == {why}


def test_what_a_search_leaves_names_what_was_left_out(tmp_path: Path) -> None:
    base = RunConfig(task=TINY, evaluation=Evaluation(validation=0.2))
    study: Any = study_of(BUDGET, [trial(0, -0.5)])
    study.seconds, study.space = (
        1.0,
        SimpleNamespace(goal=BUDGET, base=base, dense=64, methods=("sbc",), used=dict),
    )
    study.trials[0].user_attrs[WHY] = ""
    search._written(study, [], "none", {"dgc": "it needs no momentum"}, tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<code>dgc</code>: it needs no momentum" in page


def named() -> Any:
    return SimpleNamespace(name="one", config=None)


def test_a_cell_that_runs_already_is_not_run_beside_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of four trials of one cell, all asked for before the first has ended, three are told."""
    monkeypatch.setattr("tests.support.madesearch.Cells.cell", lambda *given: named())
    study, said = made_study(BUDGET), list[str]()
    exploration = Exploration(study, tmp_path, Limits(trials=4), said.append)
    assert [name for name, _, _ in exploration._work()] == ["one"]
    assert [t.user_attrs[WHY] for t in study.trials] == [REPEATED] * 3
    assert all("no evaluation (runs already)" in line for line in said)


# --- time and reserve ---------------------------------------------------------------------------


def test_the_time_is_over_with_what_is_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 100 s, 30 spent before and 20 now, 50 reserved: over; a second less reserved: not."""
    monkeypatch.setattr(exploration, "clock", lambda: 1000.0)
    limits = Limits(seconds=100.0, reserved=50.0)
    limits.begin(30.0)
    monkeypatch.setattr(exploration, "clock", lambda: 1020.0)
    assert limits.spent() == 50 == limits.left() and limits.trials_over()
    limits.reserved = 49.0
    assert not limits.trials_over() and not Limits(trials=3, started=0.0).trials_over()


@pytest.mark.parametrize(
    ("jobs", "limit", "wanted"), [(1, 1000.0, 198.0), (2, 1000.0, 99.0), (1, 200.0, 66.0)]
)
def test_the_finals_are_given_what_the_best_trials_took_at_most_half(
    tmp_path: Path, jobs: int, limit: float, wanted: float
) -> None:
    """Trials of 10 and 20 s: 1.1 * 2 parts * 3 seeds * 30 s = 198 s, shared by the jobs.

    Within 100 s, half of 200, there are one seed's 66 s.
    """
    study = study_of(BUDGET, [trial(0, -0.9, took=10.0), trial(1, -0.8, took=20.0)])
    study.space = Cells(BUDGET)
    limits = Limits(seconds=limit)
    made = finals.Finals(study, tmp_path, 3, jobs, None, limits, print)
    assert made.reserve() == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("left", "kept", "seeds"),
    [
        (265.0, [0, 1, 2], 3),
        (263.0, [0, 1], 3),
        (199.0, [0, 1], 3),
        (197.0, [0, 1], 2),
        (131.0, [0, 1], 1),
        (65.0, [0], 1),
        (1.0, [0], 1),
    ],
)
def test_finalists_then_seeds_are_fewer_where_the_time_is_short(
    tmp_path: Path, left: float, kept: list[int], seeds: int
) -> None:
    """Trials of 10, 20, 10 s; 2.2 times that per seed: of all three 264 s, of two 66 s a seed."""
    took = {0: 10.0, 1: 20.0, 2: 10.0}
    study = study_of(BUDGET, [trial(k, -0.9 + k / 10, took=s) for k, s in took.items()])
    study.space = Cells(BUDGET)
    trials, fresh, _ = finals.Finals(study, tmp_path, 3, 1, None, Limits(), print).fit(left)
    assert [t.number for t in trials] == kept
    assert list(fresh) == list(range(SEED + 1, SEED + 1 + seeds))


# --- a saturated search -------------------------------------------------------------------------


def test_of_saturated_curves_those_of_fewer_bits_are_worth_more() -> None:
    """At 1.0 the metric cannot rise: 250 of 1000 bits are 0.75 less, any of them less than -1.

    Below it, to a target and for the front, bits do not count.
    """
    assert BUDGET.value(curve((250, 1.0))) == -1.75 and BUDGET.value(curve((1000, 1.0))) == -1
    assert BUDGET.value(curve((10, 0.9965))) == -0.9965 and BUDGET.value(curve()) is None
    assert TARGET.value(curve((100, 1.0))) == 2 and FRONT.value(curve((100, 1.0))) == -1
    assert Goal(True, "r2", budget=1000.0).value(curve((10, 1.0))) == -1  # may be above 1 elsewhere


def test_a_search_says_once_that_it_is_saturated_and_goes_for_fewer_bits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of two trials with 1.0 that of 90 bits, which came last, is the first finalist."""
    runs = {"sbc-n1-s7": ended("", (900, 1.0)), "stc-n2-s7": ended("", (90, 1.0))}
    made = Made(monkeypatch, tmp_path, BUDGET, runs.__getitem__, trials=2)
    assert [line.split(": ")[0] for line in made.said] == ["trial 0", "saturated", "trial 1"]
    assert made.said[2].endswith("at 90 bit · best so far")
    assert [t.number for t in finals.select_finalists(made.study)] == [1, 0]


def test_without_a_number_of_trials_a_search_takes_ten_minutes() -> None:
    assert search._limits(None, None, 3).seconds == 600 and search._limits(None, 5, 3).trials == 5
    assert search._limits("2min", None, 3).seconds == 120
    assert search._limits(None, 5, 3).seconds is None
