"""A search's rows by hand: what the table of trials says, which lie on the front, what mattered."""

from math import inf, isnan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim.results.intervals import wilson
from fedsim.search import record, tables
from fedsim.search.exploration import TOO_LONG, outcome
from fedsim.search.goal import Curve, Goal
from fedsim.search.methods import point_text
from fedsim.search.record import importance, too_few, trials
from fedsim.search.stopping import BEHIND
from tests.support.madesearch import POINT, curve, finalist, in_memory, made_study

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


def test_the_table_has_the_best_first_and_those_ended_early_last() -> None:
    rows = frame(("a", 20, 0.5), ("b", 10, 0.9), ("c", 10, 0.7)).assign(
        state=["complete", "pruned", "complete"],
        why=["", "behind", ""],
        temporal=4,
        gradient=[0.1, 0.1, None],
        coder="own",
        lr=0.02,
    )
    texts = tables.trials_table(rows, BUDGET)
    assert texts["method"].tolist() == ["c", "a", "b"]
    assert texts.iloc[0].to_dict() == {
        "trial": "2",
        "method": "c",
        "n": "4",
        "p": "",
        "coder": "",
        "lr": "0.02",
        "accuracy": "0.7000",
        "bits": "10 bit",
        "ended": "",
    }
    assert texts["ended"].tolist() == ["", "", "behind"]


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Trials of sbc and stc in turns: 0.75, 0.5 and one pruned; 0.625, one refused and one NaN."""
    in_memory(monkeypatch)
    study, scores = made_study(BUDGET), [0.75, 0.625, 0.5, None, 0.875, None]
    why, curves = ["", "", "", TOO_LONG, BEHIND, "NaN"], dict[str, Curve]()
    for k, score in enumerate(scores):
        number, _ = study.ask()
        curves[f"c{k}"] = Curve((), ()) if score is None else curve((500, score))
        study.tell(number, f"c{k}", curves[f"c{k}"], why[k], good=not why[k])
        folder = tmp_path / "cells" / f"c{k}"
        folder.mkdir(parents=True)
        (folder / "summary.json").touch()
    monkeypatch.setattr(record.curves, "read_curve", lambda folder, of="up": curves[folder.name])

    def rows(samples: int, *ranked: Any) -> pd.DataFrame:
        ended = {"status": "done", "scored_samples": samples}
        monkeypatch.setattr(record.curves, "ended", lambda folder: ended)
        return record.methods(study, trials(study, tmp_path), ranked, tmp_path)

    return rows


def test_a_row_per_method_counts_its_trials_and_has_its_best(compared: Any) -> None:
    """Of 40 samples 0.75 and 0.625 cannot be told apart, of 4000 they can."""
    rows = compared(40)
    assert rows["method"].tolist() == ["sbc", "stc"] and rows["trial"].tolist() == [0, 1]
    assert rows[["trials", "done", "pruned", "failed"]].to_numpy().tolist() == [
        [3, 2, 1, 0],
        [3, 1, 0, 2],
    ]
    assert rows["metric"].tolist() == [0.75, 0.625] and rows["bits"].tolist() == [500, 500]
    assert (rows["low"][0], rows["high"][0]) == wilson(0.75, 40)
    assert rows["tie"].tolist() == [False, True]
    assert compared(4000)["tie"].tolist() == [False, False]
    texts = tables.methods_table(rows, BUDGET).iloc[1]
    assert texts[""] == "2 tie" and texts["accuracy, best trial"].startswith("0.6250 (0.4")


def test_on_a_front_a_trial_that_was_ended_early_is_no_done_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its point counts for the front, and so its state is complete."""
    in_memory(monkeypatch)
    study, curves = made_study(FRONT), dict[str, Curve]()
    for k, why in enumerate(["", "", BEHIND]):
        number, _ = study.ask()
        curves[f"c{k}"] = curve((500 + k, 0.5))
        study.tell(number, f"c{k}", curves[f"c{k}"], why)
        (tmp_path / "cells" / f"c{k}").mkdir(parents=True)
        (tmp_path / "cells" / f"c{k}" / "summary.json").touch()
    monkeypatch.setattr(record.curves, "read_curve", lambda folder, of="up": curves[folder.name])
    monkeypatch.setattr(record.curves, "ended", lambda folder: {"status": "done"})
    frame = trials(study, tmp_path)
    rows = record.methods(study, frame, (), tmp_path).set_index("method")
    assert frame["state"].tolist() == ["complete"] * 3
    assert rows.loc["sbc", ["trials", "done", "pruned", "failed"]].tolist() == [2, 1, 1, 0]
    assert rows.loc["stc", ["trials", "done", "pruned", "failed"]].tolist() == [1, 1, 0, 0]


def test_finals_decide_between_methods(compared: Any) -> None:
    """The finals rank stc first, and their seeds tell the two apart, the samples do not."""
    rows = compared(40, finalist(1, [-0.7, -0.71]), finalist(2, [-0.5, -0.51]))
    assert rows["method"].tolist() == ["stc", "sbc"] and rows["trial"].tolist() == [1, 2]
    assert rows["tie"].tolist() == [False, False] and rows["fresh_seeds"].tolist() == [2, 2]
    assert rows["fresh_metric"].tolist() == pytest.approx([0.705, 0.505])
    assert compared(40, finalist(1, [-0.7]), finalist(2, [-0.5]))["tie"].tolist() == [False, True]


def test_a_method_of_which_no_trial_ended_has_a_row(compared: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("tests.support.madesearch.Cells.methods", ("sbc", "stc", "raw"))
    rows = compared(40)
    assert rows["method"].tolist() == ["sbc", "stc", "raw"] and rows["trials"].tolist() == [3, 3, 0]
    assert tables.methods_table(rows, BUDGET)["accuracy, best trial"].tolist()[2] == "none"


def matters(**columns: Any) -> pd.DataFrame:
    """Eighty trials whose loss is the logarithm of their rate, as far as told otherwise."""
    rates = [10 ** (-3 + k / 40) for k in range(80)]
    made = pd.DataFrame(
        {
            "method": ["a", "b"] * 40,
            "coder": "own",
            "temporal": 4,
            "gradient": 0.1,
            "lr": rates,
            "bits": [2.0 ** (k // 8) for k in range(80)],
            "loss": [k / 40 for k in range(80)],
            "state": "complete",
            "why": "",
        }
    )
    return made.assign(**columns)


def test_what_mattered_is_what_the_loss_follows() -> None:
    """The rate decides; the methods alternate; a setting that all share is not named."""
    (shares,) = importance(matters(), BUDGET).values()
    assert next(iter(shares)) == "lr" and set(shares) == {"lr", "method"}
    assert shares["lr"] > 0.9 and sum(shares.values()) == pytest.approx(1)


def test_of_a_front_metric_and_bits_are_explained() -> None:
    assert [*importance(matters(), FRONT)] == ["accuracy", "bits"]
    assert [*importance(matters(), Goal(True, "accuracy", target=0.5))] == ["bits to the target"]


def test_trials_of_one_metric_explain_nothing() -> None:
    """All at the same: of a front the bits are left to explain."""
    assert importance(matters(loss=[-1.0] * 80), BUDGET) == {}
    assert [*importance(matters(loss=[-1.0] * 80), FRONT)] == ["bits"]


def test_no_importance_is_named_from_few_trials_of_a_method() -> None:
    """Trials that were ended early, or without a loss, do not count."""
    rows, names = matters(), ("a", "b")
    assert "b has 19, all methods have 39" in too_few(rows[:39], names)
    assert not too_few(rows[:40], names)
    early = rows[:40].assign(state=["complete"] * 39 + ["pruned"])
    assert "b has 19" in too_few(early, names)
    behind = rows[:40].assign(why=[""] * 39 + [BEHIND])  # as on a front
    assert "b has 19" in too_few(behind, names)
    for loss in (inf, None):
        assert "b has 19" in too_few(rows[:40].assign(loss=[*[1.0] * 39, loss]), names)
    assert "c has 0" in too_few(rows, (*names, "c"))
    one = rows.assign(method="a")
    assert too_few(one[:39], ["a"]) and not too_few(one[:40], ["a"])


def test_a_trial_in_words() -> None:
    assert point_text(POINT) == "sbc, n = 4, p = 0.1, lr = 0.02"
    more = POINT | {"coder": "ans | ans", "gradient": None, "server_lr": 0.7}
    assert point_text(more) == "sbc, n = 4, coders ans | ans, lr = 0.02, server lr = 0.7"
    assert outcome(curve((500, 0.8), (1001, 0.9)), BUDGET, "") == "accuracy 0.8000 at 500 bit"
    assert outcome(curve((1001, 0.9)), BUDGET, "why") == "accuracy 0.9000 at 1.00 kbit (why)"
    assert outcome(curve(), BUDGET, "") == "no evaluation"
