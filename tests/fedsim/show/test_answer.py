"""What to choose for so many bits: `fedsim.best`, the report's tables, and how bits are written."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import fedsim
from fedsim import UsageError
from fedsim.commands.cli import main
from fedsim.ground import units
from fedsim.network.quantities import quantity
from fedsim.results.load import Results, load
from fedsim.show.answer import best_table, ladder
from fedsim.show.layout import print_whole
from fedsim.show.report import write
from tests.support.page import Page
from tests.support.sweepmaker import TOPK, make_sweep, rounds_of


def of(label: str, bits: list[float], metric: list[float], **more: object) -> pd.DataFrame:
    """Rounds whose messages have so many bits on the wire, and hardly any content."""
    return rounds_of(label, bits, metric, **more).assign(up_content_bits=1)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Results:
    root = tmp_path_factory.mktemp("answers")
    make_sweep(root / "a", (10, 20), (0.1, 0.01))
    make_sweep(root / "b", (10,), (0.1, 0.01), form=TOPK, failed=[(10, 0.01)])
    return load(root / "a", root / "b")


@pytest.mark.parametrize(
    ("text", "bits"),
    [("2Mbit", 2e6), ("2 Mbit", 2e6), ("2e6", 2e6), (2e6, 2e6), (2000, 2000), ("1.5 gbit", 1.5e9),
     ("812 bit", 812), ("500kbit", 5e5), ("1Tbit", 1e12), (np.float32(8), 8), (np.int64(8), 8)],
)  # fmt: skip
def test_bits_are_read_as_tables_print_them(text: str | float, bits: float) -> None:
    assert quantity(text, "--budget", "bits") == bits
    assert quantity(units.bits(bits), "--budget", "bits") == pytest.approx(bits, rel=0.005)


@pytest.mark.parametrize("text", ["2 MB", "0", "-1", "1.2.3", "nan", "inf", "", None, True, 0, -5])
def test_what_is_no_number_of_bits_is_told(text: str) -> None:
    with pytest.raises(UsageError) as error:
        quantity(text, "--budget", "bits")
    assert f"--budget is {text!r}: it is a number of bits above 0, such as" in str(error.value)
    assert "\n" not in str(error.value)


def test_bytes_are_answered_in_bits() -> None:
    with pytest.raises(UsageError, match=r"did you mean 40Mbit \(8 bits a byte\)\?"):
        quantity("5MB", "--budget", "bits")


def test_the_best_within_a_budget_goes_by_what_travelled() -> None:
    rounds = pd.concat([
        of("a", [10, 20, 30], [0.5, 0.4, 0.9]),
        of("a", [5, 25], [0.2, 0.7], gradient=0.01, run="a2"),
        of("b", [8, 40], [0.6, 0.8]),
        of("c", [90], [1.0]),
    ])  # fmt: skip
    found = fedsim.best(rounds, up_bits=29)
    assert found["label"].tolist() == ["a", "b", "c"]
    assert found["metric"].tolist()[:2] == [0.7, 0.6] and found["metric"].isna().tolist()[2]
    assert found["up_wire_bits"].tolist()[:2] == [25, 8] and found["gradient"][0] == 0.01
    assert fedsim.best(rounds, "30 bit")["metric"].tolist()[:2] == [0.9, 0.6]  # 30 is within 30
    assert fedsim.best(rounds, 90)["label"].tolist() == ["c", "a", "b"]
    low = fedsim.best(rounds.assign(higher_is_better=False), 40)
    assert low["metric"].tolist()[:2] == [0.7, 0.8]


def test_seeds_are_averaged_where_all_were_scored() -> None:
    rounds = pd.concat([
        of("a", [10, 20], [0.5, 0.7]),
        of("a", [12, 26], [0.6, 0.9], seed=1, run="a1"),
        of("b", [10, 20], [0.5, 0.9]),
        of("b", [10], [0.5], seed=1, run="b1"),  # stopped before its second round
    ])  # fmt: skip
    a, b = (fedsim.best(rounds, 25).set_index("label").loc[label] for label in "ab")
    assert (a["metric"], a["up_wire_bits"], a["seeds"]) == (pytest.approx(0.65), 16, 2)
    assert a["metric_sd"] == pytest.approx(np.std([0.7, 0.6], ddof=1))
    assert b["metric"] == pytest.approx(0.7) and b["up_wire_bits"] == 15
    with pytest.raises(UsageError, match="several runs of b, n = 1, p = 0.1, seed 0: choose one"):
        fedsim.best(pd.concat([rounds, of("b", [10, 20], [0.5, 0.9], run="again")]), 25)


def test_failed_runs_and_several_tasks(both: Results) -> None:
    found = fedsim.best(both, "20kbit").set_index("label")
    assert list(found.index) == ["sbc", "gradient_dropping", "dense"]
    assert found.loc["gradient_dropping", "gradient"] == 0.1  # that at 0.01 failed
    assert found.loc["sbc", "up_wire_bits"] == 15_940  # 20 messages of 797 bits, 72 of them header
    assert np.isnan(found.loc["dense", "metric"])
    other = both.rounds.assign(task="other")
    with pytest.raises(UsageError, match=r"of 2 tasks \(digits, other\)"):
        fedsim.best(pd.concat([both.rounds, other]), 1e6)
    with pytest.raises(UsageError, match="was given a str"):
        fedsim.best("results/sbc", 1e6)


def test_rising_budgets_end_without_a_limit(both: Results) -> None:
    steps = ladder(both)
    assert steps["budget"].tolist() == [1e4, 1e5, 1e6, 1e7, np.inf]
    assert (steps["metric"].diff().dropna() >= 0).all()
    assert steps["gradient"].tolist() == [0.01, 0.1, 0.1, 0.1, 1]
    assert (steps["up_wire_bits"] <= steps["budget"]).all()
    near = ladder(of("a", [3, 7, 40], [0.1, 0.2, 0.3]))
    assert near["budget"].tolist() == [5, 10, 20, np.inf]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_digit_of_the_terminals_table_is_cut(both: Results, width: int) -> None:
    long = both.rounds["label"].replace("sbc", "ef(per_tensor(topk(0.0004) | float32 | golomb))")
    results = replace(both, rounds=both.rounds.assign(label=long))
    shown = StringIO()
    console = Console(width=width, file=shown)
    print_whole(console, best_table(results, 2e6, console.width))
    told = shown.getvalue()
    for _, row in fedsim.best(results, 2e6).iterrows():
        assert f"{row['metric']:.4f}" in told and units.bits(row["up_wire_bits"]) in told
        assert f" {row['temporal']} " in told and f" {row['gradient']:g} " in told
    assert "method" in told and "0.0004" in told and "dropping" in told


@pytest.mark.slow
def test_the_report_compares_methods_within_a_budget(
    both: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = sorted({str(path.parents[1]) for path in both.folders.values()})
    out = str(tmp_path / "both")
    assert main(["report", *folders, "--out", out, "--budget", "20kbit"]) == 0
    said = capsys.readouterr().out
    assert "Best within 20.0 kbit per client upstream" in said and "15.9 kbit" in said
    page = Page((tmp_path / "both" / "report.html").read_text(encoding="utf-8"))
    assert "Every method within 20.0 kbit method n p accuracy iteration uplink used" in page.text
    assert "dense none none: the method had no evaluation within the budget." in page.text
    assert "10.0 kbit sbc 20 0.01" in page.text and "no limit dense" in page.text
    assert main(["report", folders[0], "--budget", "20 kbit", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["best"]
    assert [row["label"] for row in rows] == ["sbc", "dense"] and rows[1]["metric"] is None
    assert main(["report", folders[0], "--budget", "2 MB"]) != 0
    assert "--budget is '2 MB'" in capsys.readouterr().err


def test_a_page_without_a_finished_run_has_no_answer(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,), failed=[(1, 1), (10, 0.1)])
    assert "Best within" not in Page(write(tmp_path).read_text(encoding="utf-8")).text
