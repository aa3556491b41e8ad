"""`--stop-at-bits`: a run that ends when a client has sent so many bits."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim import RunConfig, UsageError, run
from tests.support.interrupting import Stopped, stop_after
from tests.support.runs import rounds, small

MANY = {"temporal": 2, "iterations": 20, "evaluate_every": 10}  # ten rounds, scored at the end


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    run(small(**MANY), out)
    return out


def sent(folder: Path) -> pd.Series:
    """A client's upstream bits after each round."""
    table = rounds(folder)
    return (table["up_wire_bits"] / table["clients"]).cumsum()


@pytest.mark.slow
def test_it_ends_after_the_round_that_reaches_the_bits(whole: Path, tmp_path: Path) -> None:
    stop, seen = float(sent(whole)[5]), []  # exactly what was sent after six rounds of ten
    summary = run(small(**MANY, stop_at_bits=stop), tmp_path / "a", callbacks=[seen.append]).summary
    assert [row["round"] for row in seen] == [1, 2, 3, 4, 5, 6]
    assert [row["last"] for row in seen] == [False] * 5 + [True]
    assert (summary["rounds"], summary["iterations"]) == (6, 12)
    assert summary["up_wire_bits"] == stop and summary["status"] == "done"
    parameters = summary["parameters"]
    assert summary["ratio_wire"] == pytest.approx(32 * parameters * 12 / stop)
    scored = rounds(tmp_path / "a")["metric"].notna()
    assert list(scored) == [False] * 4 + [True, True]  # the last within the budget, and the last
    assert summary["metric"] == rounds(tmp_path / "a")["metric"].iloc[-1]
    same = [c for c in rounds(whole).columns if c not in ("metric", "loss")]
    pd.testing.assert_frame_equal(rounds(tmp_path / "a")[same], rounds(whole)[same][:6])
    run(small(**MANY, stop_at_bits=stop + 1), tmp_path / "b")
    assert len(rounds(tmp_path / "b")) == 7
    results = fedsim.load(tmp_path / "b")
    (found,) = fedsim.best(results, stop + 1).to_dict("records")
    assert found["up_wire_bits"] == stop  # scored within the budget, though it ended beyond


@pytest.mark.slow
def test_of_the_total_both_ways_count(whole: Path, tmp_path: Path) -> None:
    """The downlink of round 1 is the initial model, which is not charged."""
    table, seen = rounds(whole), list[Any]()
    both = ((table["up_wire_bits"] + table["down_wire_bits"]) / table["clients"]).cumsum()
    config = small(**MANY, stop_at_bits=float(both[3]), budget_of="total", checkpoint_every=2)
    with pytest.raises(Stopped):
        run(config, tmp_path / "a", callbacks=[stop_after(3)])
    run(config, tmp_path / "a", callbacks=[seen.append])
    assert [row["spent"] for row in seen] == [both[2], both[3]]
    assert [row["last"] for row in seen] == [False, True] and len(rounds(tmp_path / "a")) == 4
    assert list(rounds(tmp_path / "a")["metric"].notna()) == [False, False, True, True]


@pytest.mark.parametrize("budget", [1.0, 1.1, 2.0, 2.99])
def test_of_the_total_the_first_round_may_be_the_last_within(budget: float) -> None:
    """A dense message is all that round 1 sends; from round 2 on the model comes down, too."""
    bits = 32 * 21_386 * budget + 100  # and a header
    config = small(method="raw", **MANY, stop_at_bits=bits, budget_of="total")
    seen = run(config).rounds
    assert seen is not None and list(seen["metric"].notna()) == [True, True]


def test_it_is_part_of_a_runs_identity_only_where_it_is_given(whole: Path) -> None:
    assert "stop_at_bits" not in RunConfig().identity()
    assert RunConfig().digest == RunConfig(stop_at_bits=None).digest
    assert RunConfig(stop_at_bits="2Mbit") == RunConfig(stop_at_bits=2e6)
    assert RunConfig(stop_at_bits=2_000_000).digest != RunConfig().digest
    with pytest.raises(UsageError, match="stop_at_bits the default there, 2000000.0 here"):
        run(small(**MANY, stop_at_bits=2e6), whole)
