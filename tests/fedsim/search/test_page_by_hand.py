"""A search's page and picture of made-up trials: what stands there of each, and in which look."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib import pyplot

from fedsim.search import tables
from fedsim.search.goal import Goal
from fedsim.search.page import SearchResult, search_page
from fedsim.search.picture import chart
from fedsim.search.record import finalists
from fedsim.search.search import rerun
from tests.support.madesearch import POINT, finalist

GOAL = Goal(True, "accuracy", budget=1000.0)
ROWS = pd.DataFrame(
    [
        {"trial": 0, "state": "complete", "why": "", **POINT, "bits": 20.0, "metric": 0.5},
        {"trial": 1, "state": "pruned", "why": "behind", **POINT, "bits": 10.0, "metric": 0.4},
        {
            "trial": 2,
            "state": "complete",
            "why": "",
            **POINT,
            "method": "stc",
            "bits": 30.0,
            "metric": 0.7,
        },
    ]
).assign(loss=lambda rows: -rows["metric"])
METHODS = ROWS.drop(index=1).assign(
    trials=2,
    done=1,
    pruned=1,
    failed=0,
    tie=False,
    low=0.4,
    high=0.8,
    fresh_metric=0.5,
    fresh_half=float("nan"),
)
RANKED = [finalist(2, [-0.7]), finalist(0, [-0.5])]


def result(**parts: Any) -> SearchResult:
    """What a search of the rows came to."""
    made = SearchResult(
        GOAL, ROWS, METHODS, tuple(RANKED), RANKED[0], {}, "too <few>", {}, Path(), False, "", ""
    )
    return replace(made, **parts)


def test_the_winner_lies_on_top_in_black() -> None:
    made = chart(ROWS, RANKED, RANKED[0], GOAL, "digits")
    stars = [marks for marks in made.marks if "finalist" in "".join(marks.texts)]
    assert [marks.look.colour for marks in stars] == ["#999999", "#000000"]
    assert [marks.name for marks in stars] == [
        "finalist, held-out samples",
        "winner, held-out samples",
    ]
    assert not any(marks.direct_label for marks in stars)
    assert made.title.splitlines()[1] == "found: sbc, n = 4, p = 0.1, lr = 0.02"
    assert [marks.name for marks in made.marks[:2]] == ["sbc", "stc"]  # the winner's method first
    assert made.x.title == "bits that a client has sent (wire)" and made.x.scale == "bits"
    assert (made.at_x, made.at_y) == (1000.0, None)


def test_the_front_is_that_of_the_goal() -> None:
    (front,) = [m for m in chart(ROWS, [], None, GOAL, "t").marks if "front" in m.name]
    assert list(front.x) == [10, 20, 30]
    (front,) = [
        m for m in chart(ROWS, [], None, Goal(False, "loss"), "t").marks if "front" in m.name
    ]
    assert list(front.x) == [10]


def test_trials_that_were_ended_early_are_hollow() -> None:
    marks = {m.name: m for m in chart(ROWS, [], None, GOAL, "t").marks}
    assert marks["sbc"].hollow == [False, True] and marks["stc"].hollow == [False]


def test_the_page_says_what_was_found_and_what_was_left_out() -> None:
    facts, again = {"task": "digits"}, rerun(Path("out"), "mine.py")
    text = search_page(result(left={"raw": "one message is <dear>"}, again=again), facts)
    assert "sbc, n = 4, p = 0.1, lr = 0.02</strong>: accuracy 0.5000 on held-out" in text
    assert "<pre>fedsim run --config out/best.toml --rows mine.py --out out/best</pre>" in text
    assert 'id="methods"' in text and '<p class="note">too &lt;few&gt;</p>' in text
    assert "<li><code>raw</code>: one message is &lt;dear&gt;</li>" in text
    assert "winner, held-out samples" in text
    assert "No trial has" in search_page(result(trials=ROWS[:0], finalists=(), winner=None), facts)


def test_importance_is_drawn_and_leaves_matplotlib_s_settings_alone() -> None:
    rows = pd.concat([ROWS[ROWS["state"] == "complete"]] * 20).assign(lr=[0.1, 0.2] * 20)
    before = dict(matplotlib.rcParams)
    text = search_page(result(trials=rows, too_few=""), {"task": "digits"})
    assert 'alt="importance of each setting for accuracy"' in text and "PED-ANOVA" in text
    assert dict(matplotlib.rcParams) == before and not pyplot.get_fignums()


def test_a_tie_has_its_rank() -> None:
    rows = finalists([RANKED[0], replace(RANKED[1], tie=True)], GOAL)
    assert tables.finalists_table(rows, GOAL)[""].tolist() == ["1", "2 tie"]
