"""Times to a target by hand: seeds that arrive and seeds that do not, cells, and bandwidths."""

import re
from math import inf, isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedsim import UsageError
from fedsim.commands import price
from fedsim.network import parse
from fedsim.network.pricing import PRICED_COLUMNS
from fedsim.results.load import Results
from fedsim.show.curves import Series
from fedsim.show.figures import rank
from fedsim.show.report.times import sentence
from fedsim.show.style import CellKey
from fedsim.show.times import Bandwidths, priced, times_over_bandwidths, to_target
from tests.support.sweepmaker import rounds_of


def clocked(label: str, seed: int, ends: list[float], metric: list[float]) -> pd.DataFrame:
    """Rounds of a run, with the clock and the metric at the end of each."""
    return pd.DataFrame(
        {
            "task": "digits",
            "label": label,
            "temporal": 1,
            "gradient": 0.1,
            "seed": seed,
            "run": f"{label}{seed}",
            "round": range(1, len(ends) + 1),
            "metric": metric,
            "sim_end_seconds": ends,
        }
    )


ROUNDS = pd.concat(
    [
        clocked("both", 0, [10, 20, 30], [0.5, 0.9, 0.8]),  # there at 20 s, at exactly 0.9
        clocked("both", 1, [10, 20, 40, 50], [0.5, 0.6, 0.95, 0.97]),  # there at 40 s
        clocked("two", 0, [1, 2], [0.95, 0.96]),  # there at 1 s
        clocked("two", 1, [1, 4], [0.5, 0.6]),  # never
        clocked("two", 2, [1, 3], [0.5, 0.9]),  # there at 3 s
        clocked("fast", 0, [5, 9], [np.nan, 0.9]),  # at 9 s; the first round was not scored
    ]
)


def test_a_cell_reaches_a_target_when_all_its_seeds_do() -> None:
    """Of `both` 20 and 40 s: mean 30, deviation sqrt 200. Of `two` one of three is not there: no
    time. `fast` has one seed, and no deviation. Whole runs: 9; 30 and 50; 2, 4 and 3."""
    table = to_target(ROUNDS, 0.9)
    assert table["label"].tolist() == ["fast", "both", "two"]  # the fastest first, none last
    assert table["seeds"].tolist() == [1, 2, 3] and table["reached"].tolist() == [1, 2, 2]
    assert table["target_seconds"].tolist()[:2] == [9, 30] and isnan(table["target_seconds"][2])
    spread = table["target_seconds_sd"].tolist()
    assert isnan(spread[0]) and spread[1] == pytest.approx(200**0.5) and isnan(spread[2])
    assert table["sim_seconds"].tolist() == [9, 40, 3]


def test_where_less_is_better_a_target_is_reached_from_above() -> None:
    """At most 0.55: `both` from the first round on, `two` with two seeds of three."""
    low = ROUNDS.assign(higher_is_better=False)
    table = to_target(low, 0.55).set_index("label")
    assert table["reached"].to_dict() == {"both": 2, "two": 2, "fast": 0}
    assert table.loc["both", "target_seconds"] == 10


def test_without_a_target_nothing_is_reached() -> None:
    table = to_target(ROUNDS, float("nan"))
    assert (table["reached"] == 0).all() and table["target_seconds"].isna().all()


def test_the_table_says_how_many_seeds_are_there() -> None:
    """`not reached`, 2 of 3: a mean over the seeds that arrive would flatter the cell."""
    console = Console(width=100)
    with console.capture() as said:
        times = to_target(ROUNDS, 0.9)
        console.print(price._network_table(times, "4g", 0.9, "accuracy", False, "n", console))
    lines = [" ".join(line.split()) for line in said.get().splitlines()]
    (two,), (both,) = ([x for x in lines if name in x] for name in ("two 1 0.1", "both 1 0.1"))
    assert "not reached" in two and "2 of 3" in two
    assert "30.0 s" in both and "2 of 2" in both and "40.0 s" in both


def test_the_page_s_sentence_tells_gaps_and_who_overtakes() -> None:
    """`a` is best from 1 to 2 s, where it ends; `b` from 5 s, `c` from 8 s."""
    rounds = pd.concat(
        [
            rounds_of("a", [8, 9], [0.5, 0.7]).assign(sim_end_seconds=[1, 2]),
            rounds_of("b", [8, 9, 10], [0.6, 0.8, 0.8]).assign(sim_end_seconds=[4, 5, 9]),
            rounds_of("c", [8, 9], [0.5, 0.9]).assign(sim_end_seconds=[7, 8]),
        ]
    )
    runs = pd.DataFrame({"status": "done"}, index=["a", "b", "c"])
    told = sentence(Results(runs, rounds, Path()))
    assert "clock: a from 1.00 s to 2.00 s, b from 5.00 s, c from 8.00 s. In between, " in told
    assert "overtakes" not in told
    told = sentence(Results(runs[1:], rounds, Path()))
    assert "clock: b from 4.00 s, c from 8.00 s. Each overtakes the one before it" in told


def test_figures_rank_by_the_target_and_then_by_the_end() -> None:
    ends, metric = np.array([10.0, 20, 30]), np.array([0.5, 0.9, 0.8])
    own = Series(CellKey(1, 0.1), ends, metric, metric, metric)
    assert rank(own, 0.9, True) == (20, -0.8) and rank(own, 0.99, True) == (inf, -0.8)
    assert rank(own, None, True) == (-0.8, 0) and rank(own, None, False) == (0.8, 0)
    assert rank(own, 0.5, False) == (10, 0.8)


# --- over bandwidths ----------------------------------------------------------------------------


def test_a_method_s_time_is_that_of_its_best_cell_at_each_rate() -> None:
    """Cells of `a`: 4 and 1, 3 and 2; of `b` 2 and 2. They cross where 3 to 1 meets 2 to 2.

    On logarithms: ln 3/2 before, ln 1/2 after: a share ln 1.5 / ln 3 = 0.369 of the way.
    """
    cells = pd.DataFrame({"label": ["a", "a", "b"], "temporal": 1, "gradient": [0.1, 0.2, 0.3]})
    seconds = np.array([[4.0, 1.0], [3.0, 2.0], [2.0, 2.0]])
    lines = Bandwidths(np.array([10.0, 1000.0]), seconds, cells)
    assert {name: x.tolist() for name, x in lines.methods().items()} == {"a": [3, 1], "b": [2, 2]}
    (low, border, first), (again, high, then) = lines.fastest()
    assert (low, first, then, high) == (10, "b", "a", 1000) and border == again
    assert border == pytest.approx(10 * 100 ** (np.log(1.5) / np.log(3)))
    same = Bandwidths(lines.rates, np.full((2, 2), 2.0), cells[1:])
    assert same.fastest() == [(10, 1000, "a")]  # of equals the first by name


def made(tmp_path: Path, bits: dict[str, tuple[int, list[float]]], **given: Any) -> Results:
    """Runs of one client, each of the bits of a message and its metrics; named label and seed."""
    rows, rounds, folders = [], [], {}
    for name, (up, metric) in bits.items():
        label, seed = name[:-1], int(name[-1])
        rows.append(
            {
                "run": name,
                "label": label,
                "temporal": 2,
                "gradient": 0.1,
                "seed": seed,
                "status": "done",
                "clients": 1,
                "task": "t",
                "higher_is_better": True,
            }
        )
        count = len(metric)
        rounds.append(
            pd.DataFrame(
                {
                    "task": "t",
                    "label": label,
                    "temporal": 2,
                    "gradient": 0.1,
                    "seed": seed,
                    "run": name,
                    "round": range(1, count + 1),
                    "metric": metric,
                    "local_iterations": 2,
                    "clients": 1,
                    "train_seconds": 2.0,
                    "higher_is_better": True,
                }
            )
        )
        folders[name] = tmp_path / name
        folders[name].mkdir()
        lines = [(number, 0, 60, up, 0, 0) for number in range(1, count + 1)]
        table = pd.DataFrame(lines, columns=PRICED_COLUMNS)
        table.to_parquet(folders[name] / "clients.parquet", index=False)
    runs = pd.DataFrame(rows).set_index("run")
    return Results(
        runs,
        pd.concat(rounds, ignore_index=True),
        tmp_path,
        folders=folders,
        configs={name: dict(given) for name in bits},
    )


def test_over_bandwidths_by_hand(tmp_path: Path) -> None:
    """2 s of training a round. `a`: 100 bits, there in rounds 1 and 2: at 10 bit/s 12 and 24 s,
    mean 18; at 100 bit/s 3 and 6 s, mean 4.5. `b`: 50 bits, there in round 2: 14 and 5 s.

    `c` is there with one seed of two and has no line.
    """
    results = made(
        tmp_path,
        {
            "a0": (100, [0.9, 0.9]),
            "a1": (100, [0.5, 0.95]),
            "b0": (50, [0.1, 0.9]),
            "c0": (1, [0.99]),
            "c1": (1, [0.1]),
        },
    )
    lines = times_over_bandwidths(results, parse("compute=1s"), 0.9, (10.0, 100.0))
    assert lines.cells["label"].tolist() == ["a", "b"] and lines.rates.tolist() == [10, 100]
    assert lines.seconds.tolist() == [[18, 4.5], [14, 5]]
    with pytest.raises(UsageError, match="--target is 0.99: no cell reaches it with every seed"):
        times_over_bandwidths(results, parse("compute=1s"), 0.99, (10.0,))


def test_over_bandwidths_where_less_is_better(tmp_path: Path) -> None:
    """Down to 5: reached in round 2 at 4; 102 bits a round at 100 bit/s."""
    results = made(tmp_path, {"a0": (100, [9.0, 4.0])})
    results.runs["higher_is_better"] = False
    lines = times_over_bandwidths(results, parse("compute=0s"), 5.0, (100.0,))
    assert lines.seconds.tolist() == [[2.0]]


def test_priced_rounds_start_at_zero_with_each_run(tmp_path: Path) -> None:
    """1 s an iteration, as measured; 10 bit/s: 12 s a round of 100 bits, 7 s of 50."""
    results = made(tmp_path, {"a0": (100, [0.1, 0.2]), "b0": (50, [0.3])})
    table = priced(results, parse("up=10bit"))
    assert table["sim_end_seconds"].tolist() == [12, 24, 7]


@pytest.mark.parametrize(
    "setting",
    [
        {"deadline": "3s"},
        {"ask": "3"},
        {"availability": "onoff(3s, 4s)"},
        {"controller": "pace(0.05)"},
        {"controller": "link(0.5)"},
    ],
    ids=str,
)
def test_what_time_decided_has_no_price(tmp_path: Path, setting: dict[str, str]) -> None:
    ((name, value),) = setting.items()
    results = made(tmp_path, {"a0": (100, [0.1])}, **setting)
    told = re.escape(f"was run with {name} = {value}: times decided")
    with pytest.raises(UsageError, match=told):
        priced(results, parse("4g"))
    with pytest.raises(UsageError, match=told):
        times_over_bandwidths(results, parse("4g"), 0.1)
