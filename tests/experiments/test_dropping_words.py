"""Gradient dropping by words: what is counted, by hand."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tests.support.experiments import experiment


@pytest.fixture(scope="module")
def module() -> Any:
    return experiment("dropping-words")


def test_shares_of_what_was_sent(module: Any) -> None:
    """Of 10 entries that two seeds sent, 6 are of tables with a row per word."""
    sent = {"embed.weight": (1, 3), "out.weight": (2, 0), "out.bias": (2, 2)}
    entries = {"embed.weight": 40, "out.weight": 50, "out.bias": 10}
    layers = pd.DataFrame(
        [
            {
                "run": f"drop-99-seed{seed}",
                "tensor": name,
                "entries": entries[name],
                "sent": two[seed],
            }
            for name, two in sent.items()
            for seed in (0, 1)
        ]
    )
    row = module.shares(SimpleNamespace(layers=layers)).iloc[0]
    assert (row["name"], row["words_of_sent_percent"], row["words_of_all_percent"]) == (
        "drop-99",
        60,
        90,
    )
    assert row["sent_percent"] == 100 * 10 / 200
    assert (row["least"], row["least_percent"]) == ("out.weight", 2)
    assert (row["most"], row["most_percent"]) == ("out.bias", 20)


def test_seeds_are_paired_with_those_of_no_dropping(module: Any) -> None:
    scores = pd.DataFrame(
        [
            {
                "name": name,
                "seed": seed,
                "perplexity": value,
                "early": 500.0,
                "tail_loss": 5.0,
                "ratio": 1.0,
            }
            for name, values in {"drop-99": (220.0, 300.0), "dense": (200.0, 400.0)}.items()
            for seed, value in enumerate(values)
        ]
    )
    assert module.scores_table(scores).splitlines()[-1].endswith("| +10.0 / -25.0 |")


def test_figures_share_runs_and_rates_are_runs_of_their_own(module: Any) -> None:
    rows = experiment("dropping-words", "rows")
    assert len(rows.rows_of([])) == 12 and rows.rows_of(["fig3"]) == [
        "dense",
        "drop-90",
        "drop-99",
        "drop-99.9",
    ]
    tried = rows.cells(rows.rows_of(["rates"]), "short", None)
    assert len(tried) == 8 and {cell.config.seed for cell in tried} == {10}
