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
from fedsim.search.picture import draw_trials
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


def shown(winner: Any, goal: Goal = GOAL) -> dict[str, Any]:
    """The marks of the picture by their names in the legend, and its other texts."""
    axes = draw_trials(ROWS, RANKED, winner, goal, "digits")
    handles = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    return handles | {
        "title": axes.get_title(loc="left"),
        "texts": [t.get_text() for t in axes.texts],
    }


def test_the_picture_has_the_winner_in_black_and_the_front_of_complete_trials() -> None:
    """Of three trials two ended by themselves, and both are on the front of bits and accuracy."""
    marks = shown(RANKED[0])
    assert marks["winner, held-out samples"].lines[0].get_color() == "black"
    assert "finalist, held-out samples" in marks and "budget 1 kbit" in marks
    assert marks["front of the trials"].get_offsets().tolist() == [[20, 0.5], [30, 0.7]]
    assert marks["trial that was ended early"].get_offsets().tolist() == [[10, 0.4]]
    assert marks["texts"] == ["sbc", "stc"]
    assert marks["title"].splitlines()[1] == "found: sbc, n = 4, p = 0.1, lr = 0.02"
    assert "winner, held-out samples" not in shown(None)


def test_a_name_on_the_front_has_the_fraction_of_its_trial() -> None:
    axes = draw_trials(ROWS.assign(method="gspar({p})"), RANKED, None, GOAL, "digits")
    assert [text.get_text() for text in axes.texts] == [f"gspar({ROWS['gradient'].iloc[-1]:g})"]


def test_the_front_is_that_of_the_goal() -> None:
    """Of a loss the cheaper trial beats the dearer one."""
    marks = shown(None, Goal(False, "loss", target=0.3))
    assert marks["front of the trials"].get_offsets().tolist() == [[20, 0.5]]
    assert marks["trial, validation samples"].get_offsets().tolist() == [[30, 0.7]]
    assert "target 0.3" in marks and not pyplot.get_fignums()


def test_the_page_says_what_was_found_and_what_was_left_out() -> None:
    facts, again = {"task": "digits"}, rerun(Path("out"), "mine.py")
    text = search_page(result(left={"raw": "one message is <dear>"}, again=again), facts)
    assert "sbc, n = 4, p = 0.1, lr = 0.02</strong>: accuracy 0.5000 on held-out" in text
    assert "<pre>fedsim run --config out/best.toml --rows mine.py --out out/best</pre>" in text
    assert 'id="methods"' in text and '<p class="note">too &lt;few&gt;</p>' in text
    assert "<li><code>raw</code>: one message is &lt;dear&gt;</li>" in text
    assert 'alt="trials: digits: best accuracy' in text
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
