"""Times over bandwidth: by hand from bits and iterations, and what the README says of them."""

from typing import Any

import pandas as pd
import pytest

from tests.support.experiments import experiment
from tests.support.markdown import ROOT

RESULTS = ROOT / "experiments" / "bandwidth" / "results"
TASKS = sorted(path.parent.name for path in RESULTS.glob("*/times.csv"))


@pytest.fixture(scope="module")
def tables() -> Any:
    return experiment("bandwidth", "tables")


@pytest.mark.parametrize("task", TASKS)
def test_times_follow_from_bits_and_iterations(tables: Any, task: str) -> None:
    """Exactly where messages are of one length; else the longest of a round counts.

    Dense rows send 2 (K - 1) / K of a model per iteration and receive as much at once.
    """
    frame = pd.read_csv(RESULTS / task / "times.csv")
    compute = experiment("bandwidth").TASKS[task]["short"].compute
    assert (frame["computing"] == float(compute.removesuffix("ms")) / 1000).all()
    least = frame["iteration"] * frame["computing"]
    both = frame["row"].isin(["dense", "delay10"])
    least += 1e6 * frame["mbit"] / frame["rate"].map(tables.RATES) / both.map({True: 2, False: 1})
    ratio = (frame["seconds"] / least).dropna()
    assert len(ratio) > 30 and ratio.between(1 - 1e-4, 1.05).all()
    dense = ratio[frame.loc[ratio.index, "row"].isin(["dense", "delay10", "cnat"])]
    assert dense.between(1 - 1e-4, 1 + 1e-4).all()
    parameters = pd.read_csv(RESULTS / task / "summary.csv")["parameters"].iloc[0]
    models = 1e6 * frame["mbit"] / (32 * parameters * frame["iteration"])
    # 2 x 3 / 4 each way; no model goes down before the first round.
    assert models[frame["row"] == "dense"].dropna().between(2.97, 3).all()
    for what in ("seconds", "each"):
        told = frame[frame[what].notna()]
        assert (told[f"{what}_coded"] >= told[what] * (1 - 1e-5)).all()
        assert (told[f"{what}_ring"] <= told[what] * (1 + 1e-5)).all()
        ours = told[told["row"].isin(["dense", "delay10"])]  # one clock: nothing is coded
        assert (ours[what] == ours[f"{what}_coded"]).all()
        assert (ours[what] == ours[f"{what}_ring"]).all()


@pytest.mark.parametrize("task", TASKS)
def test_an_allgather_brings_three_messages_of_four(tables: Any, task: str) -> None:
    """What comes down is the others' three messages; relayed, one's own goes up before."""
    frame = pd.read_csv(RESULTS / task / "times.csv")
    share = tables.shares(frame)
    assert (share["bits_ring"] / share["bits"]).between(0.745, 0.755).all()


def test_the_page_says_what_came_out(tables: Any) -> None:
    """Of the digits at 100 Mbit/s, 1 and 10 Gbit/s: an iteration, and the way to the target."""
    frame = pd.read_csv(RESULTS / "digits" / "times.csv")
    page = (RESULTS.parent / "README.md").read_text(encoding="utf-8")
    told = " ".join(page.split("## What the tables say")[1].split())
    fast = tables.speedups(frame).groupby(["row", "rate"])

    def said(row: str, what: str) -> list[str]:
        values = [fast.get_group((row, rate))[what] for rate in tables.CLAIMED]
        return [f"{of.mean():.2f} ± {tables.half_width(of):.2f}" for of in values]

    each = [[text.split(" ")[0] for text in said(row, "each")] for row in ("topr", "bf-p0-qsgd")]
    assert "{}, {} and {} times as fast with Top-r 10 %".format(*each[0]) in told
    assert "{}, {} and {} times with BF-P0".format(*each[1]) in told
    high, middle, low = said("topr", "seconds")
    assert f"1 Gbit/s it is {middle} times" in told and f"10 Gbit/s {low}, at" in told
    assert f"at 100 Mbit/s {high}." in told
    assert "{}, {} and {} times as fast".format(*said("bf-p0-qsgd", "seconds")) in told
    share = tables.shares(frame)
    edges = [tables.faster_from(share.loc[r, "bits"], share.loc[r, "coding"]) for r in share.index]
    assert f"{edges[0]:.1f} (Top-r 10 %) and {edges[1]:.1f} (BF-P0)" in told
    assert (frame.groupby("row")["seed"].nunique() == 5).all()


def test_speedups_by_hand(tables: Any) -> None:
    """Seed 0: 10 s and 4 s; with coding 5 s. Seed 1: 6 s and 3 s; with coding 6 s."""
    frame = pd.DataFrame(
        {
            "row": ["dense", "topr"] * 2,
            "seed": [0, 0, 1, 1],
            "rate": "1 Gbit/s",
            "seconds_ring": 1.0,
            "seconds": [10.0, 4.0, 6.0, 3.0],
            "seconds_coded": [10.0, 5.0, 6.0, 6.0],
            "each": 1.0,
            "each_ring": 1.0,
            "each_coded": 1.0,
        }
    )
    fast = tables.speedups(frame).query("row == 'topr'")
    assert fast["seconds"].tolist() == [2.5, 2.0]
    assert fast["seconds_coded"].tolist() == [2.0, 1.0]


def test_from_which_ratio_on_by_hand(tables: Any) -> None:
    """Dense: 1 + r. A method of half the bits, coding as long as training, 1.5 as many iterations:
    1.5 (2 + r / 2) is less from r = 8 on. One of as many bits never is."""
    assert tables.faster_from(0.5, 1.0, 1.5) == 8.0
    assert tables.faster_from(1.0, 0.0) == tables.faster_from(0.7, 0.0, 1.5) == float("inf")
    assert tables.faster_from(0.5, 0.0, 0.9) == 0.0


def test_every_row_is_a_message() -> None:
    from compressors import compress, decompress, parse
    from tests.support.generators import small_update

    for row in experiment("bandwidth", "rows").ROWS.values():
        for text in {row.method, row.downlink} - {"relay"}:
            update = small_update()
            packet, _ = compress(parse(text), update)
            assert set(decompress(parse(text), packet.payload, update)) == set(update)
