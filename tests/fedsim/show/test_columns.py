"""Columns that are shown only where they say something: cohorts, failures, shares."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from fedsim import load, table
from fedsim.results.load import Results
from fedsim.show.columns import sends_less_per_client, sends_other_shares
from fedsim.show.report.sections import summary
from fedsim.show.tables import summary_table
from tests.support.sweepmaker import make_run, make_sweep

MORE = ("sent", "per client", "failures", "not used")


def printed(results: Results, width: int) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(summary_table(results.runs, width))
    return capture.get()


def test_by_default_none_of_them_is_there(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.1,))
    results = load(tmp_path)
    head = printed(results, 200).split("───")[0]
    assert not any(word in head for word in MORE)
    assert "share" not in table(results.runs) and "failures" not in table(results.runs)
    assert results.runs["failures"].tolist() == [0, 0]
    assert results.runs["up_wire_bits_per_client"].tolist() == pytest.approx(
        results.runs["up_wire_bits"].tolist()
    )
    assert results.runs["trained_parameters"].isna().all() and results.runs["up_share"].isna().all()


SAID: dict[str, Any] = {
    "up_share": 0.0123,
    "up_wire_bits_per_client": 7810.0,
    "failures": 4,
    "failure_reasons": "MemoryError: no <room> x 4",
    "failed_up_bits": 5550,
}


@pytest.mark.parametrize("width", [100, 220])
def test_what_happened_is_told_in_table_and_page(tmp_path: Path, width: int) -> None:
    make_run(tmp_path / "a", 10, 0.01, **SAID)
    results = load(tmp_path / "a")
    text = printed(results, width)
    for word in (*MORE, "0.0123", "7.81 kbit", "5.55 kbit", "MemoryError: no <room> x 4"):
        assert word in text, word
    failures = "a: replies not used 4 (MemoryError: no <room> x 4); such uploads: 5.55 kbit"
    assert " ".join(text.split()).endswith(failures)
    page = summary(results)
    assert "MemoryError: no &lt;room&gt; x 4" in page and "7.81 kbit" in page
    head, _, row = table(results.runs).splitlines()
    assert "up per client (kbit)" in head and "7.81" in row
    assert "| failures | not used (kbit) |" in head
    assert "| 0.0123 |" in row and "| 4 | 5.55 |" in row


def test_which_columns_say_something() -> None:
    """A share that is off by more than a tenth of p; bits of the federation that are not those of
    a client of every round."""
    runs = pd.DataFrame({"gradient": [0.5, 0.5, 0.5, 1.0], "up_share": [0.54, 0.5625, 0.4, np.nan]})
    assert sends_other_shares(runs).tolist() == [False, True, True, False]
    bits = pd.DataFrame(
        {"up_wire_bits": [10.0, 10.0, 10.0], "up_wire_bits_per_client": [10.0, 5.0, np.nan]}
    )
    assert sends_less_per_client(bits).tolist() == [False, True, False]
