"""A sweep over settings, run: its table, what is compared with what, and how its folder grows."""

from pathlib import Path

import pandas as pd
import pytest

import fedsim
from fedsim.results.labels import of_method
from fedsim.settings.config import from_toml
from fedsim.show.tables import add_difference, summary_texts
from tests.support.commands import Typed

SMALL = ("sweep", "--iterations", "4", "--temporal", "4", "--seeds", "2", "--jobs", "1",
         "--vary", "downlink=raw,sbc(0.05)")  # fmt: skip


@pytest.mark.slow
def test_a_sweep_over_settings(typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = typed(*SMALL, "--vary", "lr=0.05", "--out", str(out))
    assert first.code == 0, first.err
    held = {path: path.stat().st_mtime_ns for path in out.glob("cells/*/summary.json")}
    assert len(held) == 2 * (1 + 2)
    grown = typed(*SMALL, "--vary", "lr=0.05,0.2", "--out", str(out))
    assert grown.code == 0, grown.err
    assert {p: p.stat().st_mtime_ns for p in held} == held  # nothing is run again
    results = fedsim.load(out)
    runs = results.runs
    assert len(runs) == 2 * 2 * (1 + 2) and {*runs["lr"]} == {0.05, 0.2}
    assert (out / "report.html").exists()
    written = pd.read_csv(out / "summary.csv")
    assert written["lr"].tolist() == runs["lr"].tolist()
    headings, rows, _ = summary_texts(runs)
    assert headings[:4] == ["downlink", "lr", "n", "p"]
    assert len(rows) == 6 == len({tuple(texts[:5]) for texts, _ in rows})
    # every cell goes by the reference of its own rate, whatever its downlink is
    told = add_difference(runs)
    dense = runs[runs["dense"]].set_index(["lr", "seed"])["metric"]
    expected = [run["metric"] - dense[run["lr"], run["seed"]] for _, run in runs.iterrows()]
    assert told["difference"].tolist() == pytest.approx(expected)
    for label in {*runs.loc[~runs["dense"], "label"]}:
        own = of_method(runs, label)
        assert own["dense"].sum() == 2 and own["lr"].nunique() == 1
    curves = fedsim.plot.curves(results.rounds)
    assert len(curves.lines) >= 4


@pytest.mark.slow
def test_auto_and_ef_of_today_are_two_values(typed: Typed, no_page: None) -> None:
    """A folder of this version with both does not go on by the rule of 0.1.0."""
    method = ("--method", "ef(topk(0.1) | float32)", "--no-baseline", "--json", "--jobs", "1")
    for command, cells in (
        (("sweep", "--temporal", "4", "--vary", "momentum-masking=ef,auto"), 2),
        (("sweep", "--config", "runs.toml"), 2),
    ):
        Path("runs.toml").write_text(RUNS)
        more = () if "--config" in command else method
        for _ in range(2):
            out = Path(command[1].strip("-"))
            said = typed(*command, *more, "--iterations", "4", "--out", out)
            assert said.code == 0 and "as it was made" not in said.err, said.err
            masks = {from_toml(cell).plan.masks for cell in out.glob("cells/*/config.toml")}
            assert masks == {True, False} and len([*out.glob("cells/*")]) == cells


RUNS = """method = "ef(topk(0.1) | float32)"
temporal = 4
cells.plain.seed = 0
cells.masked.training.momentum_masking = "ef"
"""
