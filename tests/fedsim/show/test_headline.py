"""Headlines and figures with their chance: intervals, cells that are not told apart, colours."""

from html import escape
from math import inf, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.commands.sweep import print_sweep
from fedsim.results.intervals import wilson
from fedsim.show import figures
from fedsim.show.headline import headline, interval_width
from fedsim.show.heat import heat
from fedsim.show.report.page import _intro
from tests.support.sweepmaker import make_cell as cell
from tests.support.sweepmaker import make_sweep, runs_of


def seeds(n: int, p: float, *metrics: float, **more: Any) -> list[dict[str, Any]]:
    return [cell(n, p, metric, seed=seed, **more) for seed, metric in enumerate(metrics)]


def test_wilsons_interval_by_hand() -> None:
    """Of 10 of 10, z^2 = 3.8415: from 10 / (10 + z^2) = 0.7225 to 1."""
    assert wilson(1.0, 10) == (pytest.approx(0.7225, abs=1e-4), pytest.approx(1.0))
    low, high = wilson(0.5, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))


def test_one_seed_has_the_interval_of_its_test_samples() -> None:
    """0.950 and 0.945 of 600: z = 0.005 / 0.0129. 0.70 is 12 deviations away."""
    runs = runs_of(
        [
            cell(10, 0.1, 0.95, scored_samples=600),
            cell(10, 0.01, 0.945, scored_samples=600),
            cell(10, 0.001, 0.7, scored_samples=600),
            cell(1, 1, 0.99, scored_samples=600),
        ]
    )
    assert headline(runs) == (
        "Best of 3: n = 10, p = 0.1, accuracy 0.9500 (0.9295 to 0.9648: 95 %, 600 test samples, "
        "one seed). It and n = 10, p = 0.01 cannot be told apart: one seed says nothing of "
        "training's own chance, use --seeds 5."
    )
    unknown = headline(runs.drop(columns="scored_samples"))
    assert "accuracy 0.9500 (one seed). It and 2 others cannot be told apart" in unknown


def test_several_seeds_have_their_own_interval() -> None:
    """Differences to the second: 0.005 with a deviation of 0.02, of which 1 point is half: 34
    pairs find it (G*Power), 45 at 5 % over three. To the third: 0.2 with 0.01. Half: 2.776 *
    0.0158 / sqrt(5)."""
    best = [0.94, 0.96, 0.95, 0.97, 0.93]
    second = [x - d for x, d in zip(best, (0.025, -0.015, 0.025, -0.015, 0.005), strict=True)]
    third = [x - d for x, d in zip(best, (0.21, 0.19, 0.21, 0.19, 0.2), strict=True)]
    runs = runs_of([*seeds(10, 0.1, *best), *seeds(10, 0.01, *second), *seeds(10, 0.001, *third)])
    told = headline(runs)
    half = 2.7764 * 0.0158114 / sqrt(5)
    assert f"n = 10, p = 0.1, accuracy 0.9500 ± {half:.4f} (95 % interval, 5 seeds)." in told
    assert "It and n = 10, p = 0.01 cannot be told apart; about 45 seeds would tell" in told
    clear = headline(runs[runs["gradient"] != 0.01])
    assert clear.endswith("It is told from the other.")
    of_three = headline(runs[(runs["gradient"] != 0.01) & (runs["seed"] < 3)])
    assert "told from the other by 3 seeds; a claim takes 5." in of_three


def test_the_correction_is_over_all_pairs_because_scores_choose_the_best() -> None:
    """Of six cells two differ by 3.7 points of 600 samples: z = 2.636, p = 0.0084. Holm over the
    five others would separate the last, as 0.0084 * 5 < 0.05; over all 15 pairs it does not."""
    metrics = (0.955, 0.944, 0.943, 0.942, 0.941, 0.918)
    cells = [cell(10, 0.1 / 2**k, x, scored_samples=600) for k, x in enumerate(metrics)]
    assert "It and 5 others cannot be told apart" in headline(runs_of(cells))
    assert headline(runs_of([cells[0], cells[-1]])).split(").")[-1].startswith(" It is told from")


def test_a_metric_in_percent_has_no_interval_of_shares() -> None:
    """A task of one's own may call percent an accuracy: the table and the front are drawn."""
    percent = [cell(10, p, metric, scored_samples=600) for p, metric in ((0.1, 95.0), (0.01, 60.0))]
    assert "accuracy 95.0000 (one seed)." in headline(runs_of(percent))
    several = runs_of([*seeds(10, 0.1, 94.0, 95.0, 96.0), *seeds(10, 0.01, 59.0, 60.0, 61.0)])
    low, high = ends(several)[95.0]
    assert low < 95 < high


def test_of_equal_cells_the_one_of_fewest_bits_leads() -> None:
    equal = [*seeds(1, 0.1, 0.9, 0.8, bits=90.0), *seeds(10, 0.1, 0.9, 0.8, bits=9.0)]
    assert headline(runs_of(equal)).startswith("Best of 2: n = 10, p = 0.1,")


def test_a_lower_metric_leads_where_it_is_better() -> None:
    more: dict[str, Any] = {"metric_name": "perplexity", "higher_is_better": False}
    runs = runs_of([cell(10, 0.1, 40.0, **more), cell(10, 0.01, 30.0, **more)])
    assert headline(runs).startswith("Best of 2: n = 10, p = 0.01, perplexity 30 (one seed)")


def test_a_sweep_and_its_page_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summaries = make_sweep(tmp_path, (10,), (0.1, 0.01), seeds=(0, 1), baseline=False)
    runs = fedsim.load(tmp_path).runs
    named = dict(zip(map(str, range(4)), summaries, strict=True))
    named["1"] = named["1"] | {"status": "failed", "error": "no room"}
    print_sweep(named, runs, tmp_path, "", None, False)
    said = capsys.readouterr()
    told = " ".join(said.out.split())
    assert said.err == "failed: 1: no room\n"  # n, p and seed do not tell cells of --vary apart
    assert headline(runs).startswith("Best of 2: ") and f"{headline(runs)} Results:" in told
    assert f"<p>{escape(headline(runs))}</p>" in _intro(fedsim.load(tmp_path))


def test_nothing_is_said_without_a_metric_or_of_two_runs_of_a_seed() -> None:
    assert headline(runs_of([cell(10, 0.1, inf)])) == ""
    assert headline(runs_of([cell(10, 0.1, 0.5, status="failed")])) == ""
    assert headline(runs_of([cell(10, 0.1, 0.5), cell(10, 0.1, 0.6)])) == ""


def test_colours_span_a_cells_interval() -> None:
    """0.950 and 0.945 of 600 test samples are half a point apart; an interval is 3.5 wide."""
    runs = runs_of(
        [cell(10, p, metric, scored_samples=600) for p, metric in ((0.1, 0.95), (0.01, 0.945))]
    )
    shades = heat(runs).shades
    low, high = wilson(0.9475, 600)
    assert shades.widened and shades.high - shades.low == pytest.approx(high - low)
    places = shades.place(np.array([0.945, 0.95]))
    assert 0.3 < places[0] < places[1] < 0.7
    assert "may be chance" in heat(runs).legend_text
    far = heat(runs.assign(metric=[0.95, 0.6])).shades
    assert not far.widened and (far.low, far.high) == (0.6, 0.95)
    assert heat(runs.drop(columns="scored_samples")).shades.low == 0.945


def test_the_width_of_seeds_is_by_their_median_deviation() -> None:
    """Three cells of three seeds: 2 * t(6) * 0.02 / sqrt(3) = 2 * 2.4469 * 0.011547."""
    assert interval_width([0.01, 0.02, 0.5], [3, 3, 3], 0.9, 600) == pytest.approx(
        2 * 2.4469 * 0.011547, abs=1e-5
    )
    assert interval_width([float("nan")], [1], 0.9, None) == 0


def test_the_front_has_intervals() -> None:
    """Deviations 0.01 and 0.03, median 0.02, four degrees of freedom: t = 2.7764. The first cell
    has the half width of the median, the other that of its own two degrees, t = 4.3027, as the
    headline has it; it ends at 1."""
    runs = runs_of(
        [*seeds(10, 0.1, 0.69, 0.70, 0.71, bits=10.0), *seeds(10, 0.01, 0.94, 0.97, 1.0, bits=1.0)]
    )
    half = 2.7764 * 0.02 / sqrt(3)
    assert ends(runs)[0.7] == pytest.approx((0.7 - half, 0.7 + half), abs=1e-4)
    assert ends(runs)[0.97] == pytest.approx((0.97 - 4.3027 * 0.03 / sqrt(3), 1), abs=1e-4)
    single = runs[runs["seed"] == 0].assign(scored_samples=600)
    assert ends(single)[0.69] == pytest.approx(wilson(0.69, 600))


def ends(runs: pd.DataFrame) -> dict[float, tuple[float, float]]:
    """The ends of the interval of each mark of the front, by its metric."""
    return {
        round(float(one.y[0]), 2): (float(one.low[0]), float(one.high[0]))
        for one in figures.pareto_chart(runs).marks
        if one.kind == "points" and one.low is not None and one.high is not None
    }
