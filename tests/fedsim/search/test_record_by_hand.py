"""A search's rows by hand: what the table of trials says, which lie on the front, what mattered."""

from math import inf, isnan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sklearn.ensemble  # noqa: F401 - what fANOVA imports when it is first used

from fedsim.search import record, tables
from fedsim.search.exploring import at, outcome
from fedsim.search.goal import Curve, Goal
from fedsim.search.picture import best_so_far, coloured
from fedsim.search.record import importance, trials
from tests.support.madesearch import POINT, curve, in_memory, made_study

BUDGET = Goal(True, "accuracy", budget=1000.0)
FRONT = Goal(True, "accuracy")


def test_a_row_per_trial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The evaluation that counts; where none does, the last with its bits and no loss; of a trial
    that never ran, nothing."""
    in_memory(monkeypatch)
    study = made_study(BUDGET)
    curves = {"a": curve((500, 0.8), (1001, 0.9)), "b": curve((1500, 0.7)), "c": None}
    for name, found in curves.items():
        number, _ = study.ask()
        study.tell(number, name, found or Curve((), ()), "why", good=name == "a")
        if found is not None:
            (tmp_path / "cells" / name).mkdir(parents=True)
            (tmp_path / "cells" / name / "summary.json").touch()
    monkeypatch.setattr(record.curves, "read_curve", lambda folder, of="up": curves[folder.name])
    found = trials(study, tmp_path)
    assert found["trial"].tolist() == [0, 1, 2] and found["cell"].tolist() == ["a", "b", "c"]
    assert found["state"].tolist() == ["complete", "pruned", "pruned"]
    assert found["bits"].tolist()[:2] == [500, 1500] and found["metric"].tolist()[:2] == [0.8, 0.7]
    assert found["loss"][0] == -0.8 and isnan(found["loss"][1]) and isnan(found["bits"][2])
    assert set(found["why"]) == {"why"}


def frame(*rows: tuple[str, float, float]) -> pd.DataFrame:
    """Trials of a method, their bits and metric."""
    made = pd.DataFrame(rows, columns=["method", "bits", "metric"])
    return made.assign(loss=-made["metric"], state="complete", trial=range(len(made)))


def test_the_front_of_the_trials() -> None:
    """By bits 10 0.5; 10 0.4; 20 0.5; 30 0.7: the first and the last; where less is better 0.4."""
    rows = frame(("a", 20, 0.5), ("b", 10, 0.4), ("c", 10, 0.5), ("d", 30, 0.7))
    assert best_so_far(rows, FRONT)["method"].tolist() == ["c", "d"]
    assert best_so_far(rows, Goal(False, "loss"))["method"].tolist() == ["b"]


def test_which_methods_have_a_colour() -> None:
    """The winner's, those of the front from its dear end, then those of the best trials."""
    rows = frame(("a", 20, 0.5), ("b", 10, 0.4), ("c", 10, 0.5), ("d", 30, 0.7), ("e", 40, 0.6))
    assert coloured(rows, FRONT, "b") == ["b", "d", "c", "e", "a"]
    assert coloured(rows, FRONT, most=2) == ["d", "c"] and coloured(rows, FRONT, "x")[0] == "d"


def test_the_table_has_the_best_first_and_those_ended_early_last() -> None:
    rows = frame(("a", 20, 0.5), ("b", 10, 0.9), ("c", 10, 0.7)).assign(
        state=["complete", "pruned", "complete"], why=["", "behind", ""], temporal=4,
        gradient=[0.1, 0.1, None], coder="own", lr=0.02,
    )
    headings, texts = tables.trials(rows, BUDGET)
    assert [row[1] for row in texts] == ["c", "a", "b"]
    assert dict(zip(headings, texts[0], strict=True)) == {
        "trial": "2", "method": "c", "n": "4", "p": "", "coder": "", "lr": "0.02",
        "accuracy": "0.7000", "bits": "10 bit", "ended": "",
    }  # fmt: skip
    assert texts[2][-1] == "behind"


def matters(**columns: Any) -> pd.DataFrame:
    """Sixteen trials whose loss is the logarithm of their rate, as far as told otherwise."""
    rates = [10 ** (-3 + k / 8) for k in range(16)]
    made = pd.DataFrame({
        "method": ["a", "b"] * 8, "coder": "own", "temporal": 4, "gradient": 0.1, "lr": rates,
        "bits": [2.0 ** (k // 4) for k in range(16)], "loss": [k / 8 for k in range(16)],
    })  # fmt: skip
    return made.assign(**columns)


def test_what_mattered_is_what_the_loss_follows() -> None:
    """The rate decides; the methods alternate; a setting that all share is not named."""
    (shares,) = importance(matters(), BUDGET).values()
    assert next(iter(shares)) == "lr" and set(shares) == {"lr", "method"}
    assert shares["lr"] > 0.9 and sum(shares.values()) == pytest.approx(1)


def test_a_method_without_a_fraction_counts_as_p_1() -> None:
    """Half of the trials send 0.1 and are worse by 2, half take no fraction: p explains it."""
    p = [0.1, None] * 8
    rows = matters(method="a", gradient=p, loss=[2.0 if x else 0.0 for x in p])
    (shares,) = importance(rows, BUDGET).values()
    assert next(iter(shares)) == "p" and shares["p"] > 0.9


def test_of_a_front_metric_and_bits_are_explained() -> None:
    found = importance(matters(), FRONT)
    assert [*found] == ["accuracy", "bits"]
    assert [*importance(matters(), Goal(True, "accuracy", target=0.5))] == ["bits to the target"]


def test_trials_of_one_metric_explain_nothing() -> None:
    """All at the same: of a front the bits are left to explain."""
    assert importance(matters(loss=[-1.0] * 16), BUDGET) == {}
    assert [*importance(matters(loss=[-1.0] * 16), FRONT)] == ["bits"]


def test_few_trials_say_nothing() -> None:
    """Seven with a loss; those that have none, or an infinite one, do not count."""
    rows = matters()
    assert importance(rows[:7], BUDGET) == {} and importance(rows[:8], BUDGET)
    assert importance(rows[:8].assign(loss=[*[1.0] * 7, inf]), BUDGET) == {}
    assert importance(rows[:8].assign(loss=[*[1.0] * 7, None]), BUDGET) == {}


def test_a_trial_in_words() -> None:
    assert at(POINT) == "sbc, n = 4, p = 0.1, lr = 0.02"
    more = POINT | {"coder": "ans | ans", "gradient": None, "server_lr": 0.7}
    assert at(more) == "sbc, n = 4, coders ans | ans, lr = 0.02, server lr = 0.7"
    assert outcome(curve((500, 0.8), (1001, 0.9)), BUDGET, "") == "accuracy 0.8000 at 500 bit"
    assert outcome(curve((1001, 0.9)), BUDGET, "why") == "accuracy 0.9000 at 1.00 kbit (why)"
    assert outcome(curve(), BUDGET, "") == "no evaluation"
