"""The table of accuracy, bits and epsilon is that of its file; its epsilons are the strategies'."""

import runpy

from fedsim.settings.strategies import algorithm_of
from tests.support.markdown import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "make_privacy.py"))


def test_the_table_is_that_of_the_file() -> None:
    assert len(MADE["read"]()) == len(MADE["METHODS"]) * len(MADE["STRATEGIES"]) * MADE["SEEDS"]


def test_epsilons_are_those_of_the_runs_settings() -> None:
    for row in MADE["read"]():
        plan = MADE["config"](row["method"], row["strategy"], int(row["seed"])).plan
        epsilon = algorithm_of(row["strategy"]).epsilon(plan.rounds)
        assert row["epsilon"] == ("" if epsilon is None else f"{epsilon:.4f}")
