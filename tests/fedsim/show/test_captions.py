"""Captions say of bits what the columns hold: payloads, and what Flower's framing makes of them."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedsim.commands.cli import main
from fedsim.ground import units
from fedsim.results.load import load_results
from fedsim.results.schema import COLUMNS, frame, read_summary
from fedsim.show.answer import best_table
from fedsim.show.columns import framing_told, table_caption
from fedsim.show.export import paper_table
from fedsim.show.report import report
from tests.support.sweepmaker import make_cell, runs_of

KEPT = Path("tests/kept/0.1.0").resolve()
SAID = " With Flower's framing (up_message_bits) uploads are ×2.50 to ×8.00 as long: ratios up are \
×25.0 to ×40.0."


def two() -> pd.DataFrame:
    """A run whose messages are 8 times as long as their payloads, and one with 2.5 times."""
    return runs_of(
        [
            make_cell(1, 0.1, 0.9, 1e3, ratio_wire=200.0, up_message_bits=8e3, down_wire_bits=9e3),
            make_cell(2, 0.1, 0.8, 4e3, ratio_wire=100.0, up_message_bits=10e3, down_wire_bits=9e3),
        ]
    )


@pytest.mark.parametrize("columns", [("up_wire_bits",), ("ratio_wire", "up_content_bits")])
def test_a_caption_of_bits_says_payloads_and_what_messages_come_to(columns: Any) -> None:
    text = table_caption(two(), columns)
    assert "Bits are of payloads" in text and "whole messages" not in text and SAID in text
    assert table_caption(two(), ("temporal", "metric")).find("framing") == -1


def test_a_folder_without_messages_is_told_of_none() -> None:
    cells = [make_cell(1, 0.1, 0.9, 1e3), make_cell(2, 0.1, 0.8, up_message_bits=8.0)]
    cells[1]["up_wire_bits"] = 0.0  # a run that sent nothing
    assert framing_told(runs_of(cells)) == ""
    assert framing_told(runs_of(cells)[["up_wire_bits"]]) == ""


@pytest.mark.slow
def test_every_caption_s_bits_are_those_of_its_column(tmp_path: Path) -> None:
    """The terminal's, the page's, a paper's and the best run's, of a run that was trained."""
    flags = ["--method", "sbc(0.01)", "--iterations", "4", "--temporal", "2"]
    assert main(["run", *flags, "--out", str(tmp_path / "run")]) == 0
    results = load_results(tmp_path / "run")
    (run,) = results.runs.to_dict("records")
    clients = pd.read_parquet(tmp_path / "run/clients.parquet")
    each = clients.groupby("client")[["up_wire_bits", "up_message_bits"]].sum().mean()
    assert run["up_wire_bits"] == each["up_wire_bits"]
    assert run["up_message_bits"] == each["up_message_bits"] > 2 * each["up_wire_bits"]
    longer = each["up_message_bits"] / each["up_wire_bits"]
    ratio = units.ratio(run["ratio_wire"] / longer)
    framed = f"{units.ratio(longer)} as long: ratios up are {ratio}"
    report(tmp_path / "run")
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    texts = {
        "terminal": table_caption(results.runs, ["up_wire_bits"]),
        "page": page,
        "paper": paper_table(results.runs),
        "best": str(best_table(results, 1e9, 200).renderables[-1]),
    }
    for name, text in texts.items():
        flat = re.sub(r"\s+", " ", text.replace(r"$\times$", "×").replace("&#x27;", "'"))
        assert "payloads" in flat and "whole messages" not in flat, name
        assert framed in flat, name
    assert "1 kbit = 1000 bit." in page and "percentage points" not in page


def test_the_ratio_both_ways_is_in_every_summary() -> None:
    """Also where 0.1.0 has written the run, whose file lacks it."""
    assert COLUMNS["ratio_both"] is float
    cell = read_summary(KEPT / "run")
    both = 2 * cell["ratio_wire"] * cell["up_wire_bits"]
    both /= cell["up_wire_bits"] + cell["down_wire_bits"]
    assert cell["ratio_both"] == pytest.approx(both, rel=1e-12)
    assert frame([cell])["ratio_both"].item() == cell["ratio_both"]
    assert load_results(KEPT / "sweep").runs["ratio_both"].notna().all()
