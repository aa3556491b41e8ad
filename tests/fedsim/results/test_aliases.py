"""Columns by the names of headings, symbols and metrics, wherever a column is asked for."""

from pathlib import Path

import pytest

from fedsim import load, plot, table
from fedsim.ground.errors import UsageError
from fedsim.results.aliases import COLUMN_HEADINGS, column_of, named_columns
from fedsim.results.schema import COLUMNS
from fedsim.show.export import paper_table
from fedsim.show.tables import summary_texts
from tests.support.commands import Typed
from tests.support.sweepmaker import make_cell, make_sweep, runs_of

TYPED = ["n", "p", "accuracy", "up", "ratio-both", "vs dense"]
NAMED = ["temporal", "gradient", "metric", "up_wire_bits", "ratio_both", "difference"]


def runs() -> list[dict]:
    return [make_cell(1, 1.0, 0.9, 64.0), make_cell(10, 0.1, 0.8, 8.0)]


def test_a_heading_is_an_alias_of_its_column() -> None:
    names = ["label", *COLUMNS]
    for column, heading in COLUMN_HEADINGS.items():
        text = heading.replace("\n", " ")
        expected = text if text in names else column  # a column's own name goes first
        assert column_of(text, names) == expected
        assert column_of(text.replace(" ", "_"), names) == expected


def test_tables_take_aliases() -> None:
    frame = runs_of(runs())
    assert table(frame, columns=TYPED) == table(frame, columns=NAMED)
    assert table(frame, "csv", TYPED) == table(frame, "csv", NAMED)
    assert paper_table(frame.assign(clients=4, iterations=10), TYPED) == paper_table(
        frame.assign(clients=4, iterations=10), NAMED
    )
    assert summary_texts(frame, TYPED) == summary_texts(frame, NAMED)
    with pytest.raises(UsageError, match="columns has perplexity: it may name "):
        table(frame, columns=["n", "perplexity"])


def test_a_further_score_is_called_by_its_metric() -> None:
    assert named_columns(["top5"], ["metric", "score_top5"], ["top1"]) == ["score_top5"]


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_what_trains_refuses_an_unknown_name_alone(command: str, typed: Typed) -> None:
    said = typed(command, "--columns", f"{','.join(TYPED)},speed", "--out", "new")
    assert said.code == 2 and "--columns has speed: " in said.err
    assert not Path("new").exists()


@pytest.mark.slow
def test_figures_take_aliases(tmp_path: Path, typed: Typed) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1, 0.01))
    results = load(tmp_path / "a")
    assert plot.matrix(results.runs, "up").figure.axes[-1].get_ylabel() == (
        plot.matrix(results.runs, "up_wire_bits").figure.axes[-1].get_ylabel()
    )
    axes = plot.curves(results.rounds, "up", "accuracy")
    assert axes.get_xlabel() == plot.curves(results.rounds, "up_bits").get_xlabel()
    for figure, flag in (("matrix", "--value"), ("curves", "--x")):
        assert typed("show", figure, tmp_path / "a", flag, "up", "--out", "f.png").code == 0
    assert typed("report", tmp_path / "a", "--columns", ",".join(TYPED)).code == 0
    assert r"n & p & accuracy & " in (tmp_path / "a" / "summary.tex").read_text()
    with pytest.raises(UsageError, match="sim_end_seconds"):
        plot.curves(results.rounds, "time")
