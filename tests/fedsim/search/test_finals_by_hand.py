"""The finals by hand: which trials come there, on which seeds, who ties, and who wins."""

from collections import defaultdict
from dataclasses import replace
from math import inf, isnan, log10
from pathlib import Path
from typing import Any

import pytest
from optuna.trial import TrialState

from fedsim.results.intervals import mean, tied
from fedsim.search import exploration, finals, stopping, tables
from fedsim.search.exploration import Limits
from fedsim.search.finals import Finals, SeedScores, _ranked, _seed_scores, select_finalists, winner
from fedsim.search.goal import NOT_REACHED, Curve, Goal
from fedsim.search.record import finalists as rows_of
from tests.support.madesearch import SEED, Cells, curve, finalist, lot, study_of, trial

BUDGET = Goal(True, "accuracy", budget=1000.0)
TARGET = Goal(True, "accuracy", target=0.9)
FRONT = Goal(True, "accuracy")


def numbers(goal: Goal, *trials: Any) -> list[int]:
    """Which trials go to the finals, in their order."""
    return [t.number for t in select_finalists(study_of(goal, trials))]


# --- which trials ---------------------------------------------------------------------------


def test_the_four_best_trials_go_on_and_of_equal_ones_the_first() -> None:
    """Losses -0.9, -0.8, -0.9, -0.7, -0.95: trial 4, then 0 and 2 as they came, then 1."""
    losses = (-0.9, -0.8, -0.9, -0.7, -0.95)
    assert numbers(BUDGET, *(trial(k, loss) for k, loss in enumerate(losses))) == [4, 0, 2, 1]


def test_a_trial_that_was_ended_early_or_failed_does_not_go_on() -> None:
    pruned = trial(1, -0.99, state=TrialState.PRUNED)
    failed = trial(2, state=TrialState.FAIL)
    assert numbers(BUDGET, trial(0, -0.5), pruned, failed) == [0]


def test_a_setting_that_was_tried_again_is_one_finalist_at_its_first_place() -> None:
    """Trials 0, 1 and 5 are one cell; of the six of loss -1 there are four settings."""
    same = [trial(k, -1.0, cell="a") for k in (0, 1, 5)]
    assert numbers(BUDGET, *same[:2], *(trial(k, -1.0) for k in (2, 3, 4)), same[2]) == [0, 2, 3, 4]


def test_to_a_target_those_go_on_that_reach_it_and_all_where_none_does() -> None:
    """A loss from ``NOT_REACHED`` on is that of a curve that misses."""
    there = [trial(0, NOT_REACHED + 0.01), trial(1, 5.0), trial(2, 4.0)]
    assert numbers(TARGET, *there) == [2, 1]
    assert numbers(TARGET, trial(0, NOT_REACHED), trial(1, NOT_REACHED + 0.01)) == [0, 1]


def test_the_front_has_what_no_other_beats_by_bits() -> None:
    """Bits and loss; 1 costs more than 0 for the same, 3 is worse than 2 for the same bits.

    4 is better than 2 for more bits and stays; 5 is beaten by all.
    """
    points = [(10, -0.5), (20, -0.5), (30, -0.8), (30, -0.7), (90, -0.9), (95, -0.1)]
    assert numbers(FRONT, *(trial(k, *point) for k, point in enumerate(points))) == [0, 2, 4]


@pytest.mark.parametrize(
    ("count", "places"),
    [
        (1, [0]),
        (5, [0, 1, 2, 3, 4]),
        (6, [0, 1, 2, 3, 4, 5]),
        (8, [0, 1, 3, 4, 6, 7]),
        (11, [0, 2, 4, 6, 8, 10]),
    ],
)
def test_of_a_longer_front_six_go_on_evenly(count: int, places: list[int]) -> None:
    """Of 8 the places 7 k / 5: 0, 1.4, 2.8, 4.2, 5.6, 7, to the nearest."""
    trials = [trial(k, 10.0 + k, -0.5 - k / 100) for k in range(count)]
    assert numbers(FRONT, *trials) == places


# --- ties -------------------------------------------------------------------------------------


def test_the_interval_of_two_and_of_three_seeds() -> None:
    """Two values 1 and 2: deviation 1 / sqrt 2, so half is t / 2 with t = 12.7062047 (1 degree).

    1, 2, 6: deviations -2, -1, 3, variance 14 / 2 = 7; t = 4.3026527 (2 degrees).
    """
    two, three = mean([1.0, 2.0]), mean([1.0, 2.0, 6.0])
    assert two.value == 1.5 and two.half == pytest.approx(12.7062047 / 2, rel=1e-8)
    assert three.value == 3 and three.half == pytest.approx(4.3026527 * (7 / 3) ** 0.5, rel=1e-7)
    assert (two.count, three.count) == (2, 3)


def test_the_mean_of_one_of_none_and_of_what_was_not_reached() -> None:
    one, none, never = mean([0.5]), mean([]), mean([1.0, inf])
    assert one.value == 0.5 and isnan(one.half) and one.count == 1
    assert isnan(none.value) and none.count == 0
    assert never.value == inf and isnan(never.half) and never.count == 2


@pytest.mark.parametrize(("ahead", "tie"), [(1.170, False), (1.172, True)])
def test_two_seeds_are_told_apart_up_to_a_ratio_of_their_differences(
    ahead: float, tie: bool
) -> None:
    """Of differences a > b > 0 the mean (a + b) / 2 is above t (a - b) / 2 where
    a / b < (t + 1) / (t - 1) = 13.7062 / 11.7062 = 1.17085."""
    assert tied([ahead, 1.0], [0.0, 0.0]) is tie
    assert tied([0.0, 0.0], [ahead, 1.0]) is tie


def test_the_seeds_are_compared_in_pairs() -> None:
    """0.1 apart on every seed is told apart, however far the seeds lie from each other."""
    assert not tied([0.25, 0.5, 0.75], [0.125, 0.375, 0.625])
    assert tied([0.25, 0.5, 0.75], [0.625, 0.375, 0.125])


def test_a_target_reached_by_other_seeds_is_no_tie() -> None:
    assert tied([3.0, inf], [5.0, inf])
    assert not tied([3.0, inf], [inf, 3.0]) and not tied([3.0, 3.0], [3.0, inf])


# --- ranks and the winner ---------------------------------------------------------------------


def test_ranks_go_by_the_mean_loss_over_the_seeds_and_then_by_the_trial() -> None:
    """Means -0.8, -0.9, -0.8 and infinity, of one seed that has no point."""
    found = [
        finalist(5, [-0.75, -0.85]),
        finalist(2, [-0.9, -0.9]),
        finalist(3, [-0.85, -0.75]),
        finalist(1, [-1.0, inf]),
    ]
    assert [f.trial for f in _ranked(found, BUDGET)] == [2, 3, 5, 1]


def test_seeds_without_a_point_leave_the_ranks_to_the_others() -> None:
    """One of three seeds failed of each: 0.95 is before 0.3, and they are told apart.

    To 0.9, two seeds that reach it are before one; of settings that never do, the nearest leads.
    """
    none, far, near = curve(), curve((100, 0.1), (200, 0.2)), curve((100, 0.8), (200, 0.89))

    def of(goal: Goal, number: int, *runs: Curve) -> Any:
        return replace(finalist(number, []), validated=_seed_scores(goal, runs))

    good, bad = [curve((900, x)) for x in (0.94, 0.96)], [curve((800, x)) for x in (0.31, 0.32)]
    ranked = _ranked([of(BUDGET, 1, *bad, none), of(BUDGET, 2, *good, none)], BUDGET)
    assert [(f.trial, f.tie) for f in ranked] == [(2, False), (1, False)]
    once, twice = curve((9000, 0.91)), curve((10000, 0.95))
    ranked = _ranked([of(TARGET, 1, once, far, far), of(TARGET, 2, twice, twice, near)], TARGET)
    assert [f.trial for f in ranked] == [2, 1]
    ranked = _ranked([of(TARGET, 1, far, far), of(TARGET, 2, near, near)], TARGET)
    assert [f.trial for f in ranked] == [2, 1]


def test_ties_are_those_with_the_first_and_the_first_is_none() -> None:
    """Behind the first by 0.25, 0.25 on both seeds: apart; by -0.25 and 0.5: a tie."""
    found = [finalist(0, [-0.75, -0.75]), finalist(1, [-0.5, -0.5]), finalist(2, [-1.0, -0.25])]
    ranked = _ranked(found, BUDGET)
    assert [(f.trial, f.tie) for f in ranked] == [(0, False), (2, True), (1, False)]


def equals(*pairs: tuple[float, float], loss: float = -0.9) -> list[int]:
    """The finalists' order of trials of one loss, by the task's loss and bits of each."""
    return numbers(BUDGET, *(trial(k, loss, equals=pair) for k, pair in enumerate(pairs)))


def test_trials_of_equal_metric_go_by_the_task_s_loss_and_then_by_bits() -> None:
    """The fourth and the third have the least loss, the fourth by fewer bits; then 1, then 0."""
    assert equals((0.5, 10), (0.4, 90), (0.3, 50), (0.3, 40), (0.6, 1)) == [3, 2, 1, 0]


def test_finalists_of_equal_metric_go_by_the_task_s_loss_and_then_by_bits() -> None:
    """Mean losses 0.4, 0.3, 0.3; of the last two the third has fewer bits."""
    found = [
        replace(finalist(k, []), validated=replace(lot([-0.9, -0.9], bits), task_losses=t))
        for k, (bits, t) in enumerate([(10, (0.5, 0.3)), (90, (0.2, 0.4)), (50, (0.4, 0.2))])
    ]
    assert [f.trial for f in _ranked(found, BUDGET)] == [2, 1, 0]


def test_finalists_that_are_saturated_go_by_bits() -> None:
    """The metric is 1 on every seed of both; the second has a greater loss and fewer bits."""
    found = [
        replace(finalist(k, []), validated=replace(lot([-1, -1], bits), task_losses=t))
        for k, (bits, t) in enumerate([(90, (0.1, 0.1)), (20, (0.2, 0.2))])
    ]
    assert [f.trial for f in _ranked(found, BUDGET)] == [1, 0]


def test_the_winner_of_a_front_has_the_fewest_bits_of_those_that_tie_with_the_best() -> None:
    """By bits: 100, 200, 300 with means -0.80, -0.91, -0.92.

    200 is behind 300 by 0.02, -0.01, 0.02: mean 0.01, half 4.303 * 0.01732 / sqrt 3 = 0.043, a tie.
    100 is behind by 0.12, 0.10, 0.14: mean 0.12, half 4.303 * 0.02 / sqrt 3 = 0.050, apart.
    """
    front = [
        finalist(0, [-0.92, -0.91, -0.93], bits=300.0),
        finalist(1, [-0.80, -0.81, -0.79], bits=100.0),
        finalist(2, [-0.90, -0.92, -0.91], bits=200.0),
    ]
    ranked = _ranked(front, FRONT)
    assert [f.trial for f in ranked] == [1, 2, 0] and not any(f.tie for f in ranked)
    first = winner(ranked, FRONT)
    assert first is not None and first.trial == 2


def test_one_seed_does_not_make_a_tie_the_winner_of_a_front() -> None:
    front = [finalist(0, [-0.16], bits=100.0), finalist(1, [-0.87], bits=300.0)]
    first = winner(_ranked(front, FRONT), FRONT)
    assert first is not None and first.trial == 1


def test_a_finalist_whose_seeds_all_failed_is_the_last_of_a_front() -> None:
    """Of 300 bits, none and 100 bits: 100 first, which wins, for it ties with 300."""
    none = replace(finalist(1, [inf, inf]), validated=SeedScores((None, None), (inf, inf)))
    found = [finalist(0, [-0.5, -0.5], 300.0), none, finalist(2, [-0.5, -0.5], 100.0)]
    ranked = _ranked(found, FRONT)
    first = winner(ranked, FRONT)
    assert first is not None and first.trial == 2
    assert [f.trial for f in ranked] == [2, 0, 1]


def test_held_out_scores_decide_nothing() -> None:
    """The best on held-out samples is the worst on the validation part, and stays the last."""
    for goal in (BUDGET, FRONT):
        orders = []
        for scores in ((-0.1, -0.9), (-0.9, -0.1)):
            found = [
                finalist(0, [-0.75, -0.75], held=[scores[0]] * 2),
                finalist(1, [-0.25, -0.25], held=[scores[1]] * 2),
            ]
            ranked = _ranked(found, goal)
            first = winner(ranked, goal)
            assert first is not None
            orders.append(([(f.trial, f.tie) for f in ranked], first.trial))
        assert orders[0] == orders[1] and orders[0][1] == 0


# --- what is told of a lot --------------------------------------------------------------------


def test_a_lot_tells_the_seeds_that_have_a_point() -> None:
    """Bits 100 and 10,000 of two seeds of three: mean 5,050; of logarithms 2 and 4: none."""
    own = SeedScores(((100.0, 0.5), None, (10_000.0, 0.7)), (2.0, inf, 4.0))
    assert own.metric().value == pytest.approx(0.6) and own.metric().count == 2
    assert own.bits() == 5050 and own.log_bits().value == inf
    whole = SeedScores((own.points[0], own.points[2]), (2.0, 4.0))
    assert whole.log_bits().value == 3
    assert whole.log_bits().half == pytest.approx(12.7062047 / 2 * 2, rel=1e-8)


def test_the_rows_of_finalists_have_the_bits_interval_of_a_target() -> None:
    """Logarithms 2 and 2.2 of two seeds: 10^(2.1 -+ 12.706 * 0.1)."""
    points = ((100.0, 0.9), (10**2.2, 0.91))
    own = replace(finalist(3, [2.0, 2.2]), validated=SeedScores(points, (2.0, 2.2)))
    (row,) = rows_of([own], TARGET).to_dict("records")
    assert (row["rank"], row["tie"], row["trial"], row["method"]) == (1, False, 3, "sbc")
    assert (row["validation_seeds"], row["validation_seed0"], row["validation_seed1"]) == (
        2,
        0.9,
        0.91,
    )
    assert log10(row["validation_bits_low"]) == pytest.approx(2.1 - 1.27062047, rel=1e-8)
    assert log10(row["validation_bits_high"]) == pytest.approx(2.1 + 1.27062047, rel=1e-8)
    assert "validation_bits_low" not in rows_of([own], BUDGET)


def test_a_table_says_how_many_seeds_reached_a_target() -> None:
    """One of two: its bits, and that it is one; none: not reached; all: with the interval.

    Within a budget, too, a setting that lacks seeds says so.
    """

    def texts(points: tuple[Any, ...], losses: tuple[float, ...]) -> list[str]:
        own = replace(finalist(0, [0.0]), validated=SeedScores(points, losses))
        return tables.finalists_table(rows_of([own], TARGET), TARGET).iloc[0].tolist()[6:8]

    assert texts(((1000.0, 0.9), None), (3.0, inf)) == ["0.9000", "1.00 kbit (1 of 2 seeds)"]
    assert texts((None, None), (inf, inf)) == ["none", "not reached"]
    same = ((1000.0, 0.9), (1000.0, 0.9))
    assert texts(same, (3.0, 3.0))[1] == "1.00 kbit (1.00 kbit to 1.00 kbit)"
    lacking = replace(finalist(0, []), validated=SeedScores(((1000.0, 0.9), None), (-0.9, inf)))
    assert (
        tables.finalists_table(rows_of([lacking], BUDGET), BUDGET)["bits"][0]
        == "1.00 kbit (1 of 2 seeds)"
    )


# --- the runs of the finals -------------------------------------------------------------------


class Played:
    """Finals whose runs are looked up, by part, trial (by n) and seed, and take ``each`` seconds.

    ``failing``: parts and names of the runs that fail.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, found: Any, failing: Any = (), each: float = 0.0
    ) -> None:
        self.found, self.failing, self.each, self.now = found, failing, each, 0.0
        self.ran, self.done = list[Any](), set[Path]()
        monkeypatch.setattr(exploration, "run_here", self._run)
        monkeypatch.setattr(exploration, "clock", lambda: self.now)
        monkeypatch.setattr(finals.curves, "ended", self._ended)
        monkeypatch.setattr(finals.curves, "read_curve", self._read)

    def _run(self, work: Any, progress: Any, told: Any) -> None:
        for name, config, folder in work:
            self.now += self.each
            self.ran.append((folder.parts[-3], *config))
            self.done.add(folder)
            told(name)

    def _ended(self, folder: Path) -> dict[str, str] | None:
        failed = (folder.parts[-3], folder.name) in self.failing
        ended = {"status": "failed" if failed else "done", "error": "no" if failed else None}
        return ended if folder in self.done else None

    def _read(self, folder: Path, of: str = "up") -> Curve:
        return self.found[folder.parts[-3], folder.name]


def final(out: Path, seeds: int, count: int, seconds: float, said: list[str]) -> Any:
    """What the finals of so many trials of 10 s come to within ``seconds``."""
    study: Any = study_of(BUDGET, [trial(k, -0.9 + k / 10, took=10.0) for k in range(count)])
    study.space = Cells(BUDGET)
    return Finals(study, out, seeds, 1, None, Limits(seconds=seconds), said.append).run()


SAME: Any = defaultdict(lambda: curve((500, 0.6)))


def test_finals_run_on_fresh_seeds_first_validated_then_held_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two trials on seeds 8 and 9, which follow the trials' seed 7; n = 2 with seed 9 failed.

    Within 1000 bits trial 0 has validation scores 0.6 and 0.7; trial 1 has 0.9 and none, so that
    it is the last. Held-out scores are read from the other folder.
    """
    space: Any = Cells(BUDGET)
    study: Any = study_of(BUDGET, [trial(0, -0.5, cell="one"), trial(1, -0.6, cell="two")])
    study.space = space
    found = {
        ("finals", "sbc-n1-s8"): curve((500, 0.6), (1001, 0.99)),
        ("finals", "sbc-n1-s9"): curve((1000, 0.7)),
        ("held-out", "sbc-n1-s8"): curve((400, 0.1)),
        ("held-out", "sbc-n1-s9"): curve((400, 0.2)),
        ("finals", "sbc-n2-s8"): curve((300, 0.9)),
        ("held-out", "sbc-n2-s8"): curve((300, 0.3)),
        ("held-out", "sbc-n2-s9"): curve((300, 0.4)),
    }
    played, said = Played(monkeypatch, found, {("finals", "sbc-n2-s9")}), list[str]()
    ranked, words = Finals(study, tmp_path, 2, 1, None, Limits(), said.append).run()
    assert SEED not in {int(name.rsplit("s", 1)[1]) for _, name, _ in played.ran}
    assert sorted(played.ran) == sorted(
        (part, f"sbc-n{n}-s{seed}", scored)
        for part, scored in (("finals", "validation"), ("held-out", "held-out"))
        for n in (1, 2)
        for seed in (8, 9)
    )
    first, second = ranked
    assert (first.trial, second.trial) == (0, 1)
    unknown = (inf, inf)  # the task's losses
    assert first.validated == SeedScores(((500, 0.6), (1000, 0.7)), (-0.6, -0.7), unknown)
    assert first.held == SeedScores(((400, 0.1), (400, 0.2)), (-0.1, -0.2), unknown)
    assert second.validated == SeedScores(((300, 0.9), None), (-0.9, inf), unknown)
    assert second.held == replace(lot([-0.3, -0.4], bits=300), task_losses=unknown)
    assert first.config == ("sbc-n1-s8", "held-out")
    assert words == "2 settings, 2 fresh seeds each"
    assert said[0] == f"finals: {words}; 8 of 8 runs to do"
    played.ran.clear()
    Finals(study, tmp_path, 2, 1, None, Limits(), said.append).run()
    assert played.ran == [("finals", "sbc-n2-s9", "validation")]


def test_finals_that_failed_make_no_fewer_finalists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Trials of 10 s, four of them on two seeds, of which three runs fail: the best stays."""
    failing = {("held-out", "sbc-n1-s8"), ("held-out", "sbc-n4-s8"), ("held-out", "sbc-n4-s9")}
    best = {("finals", f"sbc-n4-s{seed}"): curve((500, 0.99)) for seed in (8, 9)}
    Played(monkeypatch, defaultdict(SAME.default_factory, best), failing, 10.0)
    ranked, words = final(tmp_path, 2, 4, 185.0, [])
    assert words == "4 settings, 2 fresh seeds each" and ranked[0].trial == 3


@pytest.mark.parametrize(
    ("each", "ran", "wanted"),
    [
        (2.0, 18, "3 settings, 3 fresh seeds each"),
        (7.0, 8, "2 of 3 settings, 2 of 3 fresh seeds each"),
        (15.0, 4, "2 of 3 settings, 1 of 3 fresh seeds each"),
    ],
)
def test_finals_that_take_less_than_their_trials_did_are_followed_by_others(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, each: float, ran: int, wanted: str
) -> None:
    """Trials of 10 s: within 70 s two settings with a seed, 4 runs of 11 s. They take 2 s each, and
    the other 14 runs 28 s; or 7 s, and a second seed 28 s; or 15 s, and there are 10 s left."""
    played = Played(monkeypatch, SAME, each=each)
    _, words = final(tmp_path, 3, 3, 70.0, [])
    assert len(played.ran) == ran and words == wanted and played.now <= 70


@pytest.mark.parametrize(
    ("goal", "metric", "last", "left", "why"),
    [
        (TARGET, 0.9, False, 10.0, stopping.REACHED),
        (TARGET, 0.89, False, 10.0, None),
        (TARGET, 0.9, True, 10.0, None),
        (TARGET, float("nan"), False, 10.0, None),
        (BUDGET, 1.0, False, 10.0, None),
        (BUDGET, 0.5, False, 0.5, None),
        (BUDGET, 0.5, False, 0.0, exploration.OVER),
    ],
)
def test_a_final_ends_at_the_target_or_where_no_time_is_left(
    monkeypatch: pytest.MonkeyPatch,
    goal: Goal,
    metric: float,
    last: bool,
    left: float,
    why: str | None,
) -> None:
    study, asked, row = study_of(goal, []), list[Any](), {"metric": metric, "last": last}
    study.space, limits = Cells(goal), Limits(seconds=10.0, started=0.0)
    monkeypatch.setattr(
        exploration, "run_here", lambda work, progress, told: asked.append(progress("a", row))
    )
    monkeypatch.setattr(exploration, "clock", lambda: 10.0 - left)
    Finals(study, Path(), 1, 1, None, limits, [].append)._run([("a", None, Path("a"))])
    assert asked == [why]


def test_a_final_that_ended_at_the_target_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    for error, done in ((stopping.REACHED, True), (exploration.OVER, False)):
        summary = {"status": "stopped", "error": error}
        monkeypatch.setattr(finals.curves, "ended", lambda folder, own=summary: own)
        assert finals._done(Path("a")) is done
