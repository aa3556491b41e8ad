"""Times over bandwidth: by hand from bits and iterations, and what the README says of them."""

from typing import Any

import pandas as pd
import pytest

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "bandwidth" / "results"
TASKS = sorted(path.parent.name for path in RESULTS.glob("*/times.csv"))


@pytest.fixture(scope="module")
def bandwidth() -> Any:
    return experiment("bandwidth")


@pytest.mark.parametrize("task", TASKS)
def test_times_follow_from_bits_and_iterations(bandwidth: Any, task: str) -> None:
    """Exactly without compression; else the longest message of a round counts, and not the mean."""
    frame = pd.read_csv(RESULTS / task / "times.csv")
    rates = experiment("bandwidth", "tables").RATES
    compute = float(bandwidth.TASKS[task]["short"].compute.removesuffix("ms")) / 1000
    least = frame["iteration"] * compute + 1e6 * frame["mbit"] / frame["rate"].map(rates)
    ratio = (frame["seconds"] / least).dropna()
    assert len(ratio) > 30 and ratio.between(1 - 1e-4, 1.05).all()
    dense = ratio[frame.loc[ratio.index, "row"].isin(["dense", "delay10", "cnat"])]
    assert dense.between(1 - 1e-4, 1 + 1e-4).all()


def test_the_page_says_what_came_out(bandwidth: Any) -> None:
    """Times as fast as no compression at 100 Mbit/s, 1 and 10 Gbit/s: digits and LeNet5."""
    tables, page = experiment("bandwidth", "tables"), (RESULTS.parent / "README.md").read_text()
    fast = [
        tables.speedups(pd.read_csv(RESULTS / task / "times.csv")).set_index(["row", "rate"])
        for task in ("digits", "fashion_lenet5")
    ]

    def both(row: str, rate: str, column: str = "faster", places: int = 2) -> list[str]:
        return [f"{one.loc[(row, rate), column]:.{places}f}" for one in fast]

    reduced = [both("bf-p2-qsgd", rate) for rate in tables.CLAIMED]
    assert reduced == [["2.56", "3.46"], ["1.16", "2.03"], ["0.83", "0.97"]]
    assert both("bf-p2-qsgd", "100 Mbit/s", "faster_coded") == ["0.43", "0.59"]
    assert both("topr", "100 Mbit/s", "faster_coded")[1] == "1.40"
    natural = [both("cnat", rate, places=1) for rate in ("100 Mbit/s", "1 Gbit/s")]
    assert natural == [["2.8", "3.3"], ["1.5", "2.3"]]
    for one in fast:
        there = one["iteration"].groupby("row").first()
        slower = there[["golomb", "sbc1", "sbc10"]] / there["dense"]
        assert slower.between(1.85, 2.65).all() and (one["seeds"] == 3).all()
    told = " ".join(page.split("## What the tables say")[1].split())
    assert "2.56 times as fast as no compression on the digits and 3.46 times on LeNet5" in told
    said = ["1.16 and 2.03", "0.83 and 0.97", "0.43 and 0.59", "2.8 and 3.3", "1.5 and 2.3"]
    assert all(f"{pair} " in told.replace(")", " ") for pair in said)
    assert "LeNet5 at 100 Mbit/s (1.40)" in told and "1.9 to 2.6 times the iterations" in told


def test_coding_is_added_to_both(bandwidth: Any) -> None:
    """2 s beside 10 s; with coding, 1 s more each: 11 / 3."""
    frame = pd.DataFrame({
        "row": ["dense", "topr"], "rate": ["1 Gbit/s"] * 2, "seconds": [10.0, 2.0],
        "coding": [1.0, 1.0],
    })  # fmt: skip
    fast = experiment("bandwidth", "tables").speedups(frame).iloc[1]
    assert (fast["faster"], fast["faster_coded"]) == (5.0, pytest.approx(11 / 3))


def test_every_row_is_a_message(bandwidth: Any) -> None:
    from compressors import compress, decompress, parse
    from tests.support.generators import small_update

    for row in experiment("bandwidth", "rows").ROWS.values():
        for text in (row.method, row.downlink):
            update = small_update()
            packet, _ = compress(parse(text), update)
            assert set(decompress(parse(text), packet.payload, update)) == set(update)
