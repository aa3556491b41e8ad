"""Gradient dropping's experiment: its rows, what a figure shows, a smoke run."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from experiments.common.scores import row_and_seed
from fedsim import RunConfig
from fedsim.runs.run import run
from fedsim.tasks import get_task
from tests.support.commands import Typed
from tests.support.experiments import experiment

FIGURES = {
    "fig2": ["dense", "drop-90", "drop-99", "drop-99.9"],
    "fig4": ["dense", "drop-99", "local-99", "plain-dense", "plain-global-99", "plain-local-99"],
    "fig6": ["dense", "drop-99"],
    "fig8": ["drop-99", "min-1", "avg-1", "min-2", "avg-2", "column-1"],
    "table1": ["dense", "drop-90", "drop-99", "drop-99.9"],
}


@pytest.fixture(scope="module")
def rows() -> Any:
    return experiment("gradient-dropping", "rows")


@pytest.fixture(scope="module")
def tables() -> Any:
    return experiment("gradient-dropping", "tables")


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_runs_what_it_shows(rows: Any, figure: str) -> None:
    assert [row.name for row in rows.rows_of([figure])] == FIGURES[figure]


def test_runs_are_shared_between_figures(rows: Any) -> None:
    assert len(rows.rows_of(None)) == 13
    assert len(rows.rows_of(["fig2", "fig4"])) == 8


def test_figure_4_has_three_seeds(rows: Any) -> None:
    cells = rows.cells(rows.rows_of(None), "short", None)
    assert len(cells) == 13 + 2 * len(FIGURES["fig4"])
    for cell in cells:
        name, seed = row_and_seed(cell.name)
        assert cell.config.seed == seed <= 2 * (name in FIGURES["fig4"])


@pytest.mark.parametrize("scale", ["short", "paper"])
def test_a_cell_is_a_gradient_a_round(rows: Any, scale: str) -> None:
    for cell in rows.cells(rows.rows_of(None), scale, None):
        plan, row = cell.config.plan, rows.ROWS[row_and_seed(cell.name)[0]]
        assert (plan.temporal, plan.clients, plan.batch_size) == (1, 4, 40)
        assert plan.task.name.endswith("_ln_gradients") == row.layer
        assert not plan.masks
        assert row.up == row.down or "local" in row.name  # the paper has no local pulls
        assert plan.method.residuals == (row.up != "raw")


def test_the_server_s_adagrad_is_torch_s(rows: Any, tmp_path: Path) -> None:
    """Three rounds of one client that sends gradients end where its own AdaGrad ends."""
    common: dict[str, Any] = {
        "clients": 1,
        "iterations": 3,
        "temporal": 1,
        "method": "raw",
        "batch_size": 8,
    }
    task = rows.tasks(rows.SCALES["smoke"])[True]
    run(RunConfig.of(task=task, strategy="fedadagrad", server_lr=0.005, **common), tmp_path / "a")
    adagrad = partial(torch.optim.Adagrad, lr=0.005)
    alone = replace(get_task("digits"), name="digits_adagrad", optimizer=adagrad)
    run(RunConfig.of(task=alone, **common), tmp_path / "b")
    losses = [pd.read_parquet(tmp_path / name / "rounds.parquet")["train_loss"] for name in "ab"]
    torch.testing.assert_close(*(torch.tensor(x) for x in losses), rtol=1e-4, atol=1e-5)
    assert losses[0].nunique() == 3


@pytest.fixture(scope="module")
def times() -> Any:
    return experiment("gradient-dropping", "times")


def _rounds(name: str, count: int) -> pd.DataFrame:
    """Rounds of four clients: 2 s with 1 s of evaluation, 1 Gbit per client and round both ways."""
    return pd.DataFrame(
        {
            "run": name,
            "round": range(1, count + 1),
            "local_iterations": 1,
            "clients": 4,
            "metric": [float("nan") if i % 2 else i / 100 for i in range(1, count + 1)],
            "train_loss": [float(i) for i in range(count)],
            "seconds": 2.0,
            "evaluate_seconds": 1.0,
            "encode_seconds": 0.25,
            "up_wire_bits": 2e9,
            "down_wire_bits": 2e9,
        }
    )


def test_curves_are_blocks_of_rounds(tables: Any, times: Any) -> None:
    runs = [_rounds("dense-seed0", 40), _rounds("dense-seed2", 4), _rounds("drop-99-seed0", 4)]
    lines = tables.curves(pd.concat(runs))
    assert len(lines) == 28 and set(lines["seed"]) == {0, 2}
    lines = lines[lines["seed"] == 0]
    dense = lines[lines["name"] == "dense"]
    assert len(dense) == 20 and len(lines) == 24
    assert list(dense["train_loss"][:2]) == [0.5, 2.5]
    assert list(dense["accuracy_percent"][:2]) == [2.0, 4.0]
    assert list(dense["batches"][:2]) == [8, 16]
    assert list(dense["seconds"][:2]) == [2.0, 4.0]  # without evaluation
    assert list(dense["link_seconds"][:2]) == [2.5, 5.0]  # a quarter second each, and the link
    assert times.reached(dense, 3.0)["round"] == 4
    assert times.reached(dense, 99.0) is None


def test_the_table_shows_the_runs_of_each_figure(tables: Any, times: Any) -> None:
    names = ["dense", "drop-99", "plain-dense", "min-1"]
    runs_of = [f"{name}-seed0" for name in names]
    rounds = pd.concat([_rounds(run, 20) for run in runs_of])
    runs = pd.DataFrame(
        {
            "method": "raw",
            "clients": 4,
            "up_content_bits": 1e9,
            "down_content_bits": 2e9,
            "ratio_content": 1.0,
            "ratio_wire": 1.0,
            "rounds": 20,
            "parameters": 10,
            "data_source": "by hand",
        },
        index=runs_of,
    )
    table = tables.collect(runs, rounds, batch_size=40)
    for figure, wanted in FIGURES.items():
        here = [name for name in wanted if name in names]
        assert list(tables.shown(table, figure)["name"]) == here
    row = table.set_index("name").loc["dense"]
    assert (row["accuracy_percent"], row["early_percent"], row["tail_loss"]) == (20.0, 2.0, 18.5)
    assert (row["round_ms"], row["images"], row["link_images"]) == (1000.0, 160.0, 128.0)
    assert row["link_ms"] == 1250.0
    line = "| no dropping | yes | 2, 4, 6 | 1 | 20.00 | 99.28 | 2.00 |"
    assert line in tables.markdown(table) and line in tables.runs_table(table)
    speeds = times.speeds(table)
    text = times.times_markdown(speeds, tables.curves(rounds))
    speed = text[text.index("Table 1") :]
    assert speed.count("| drop") == 2 and "| 2489 | ×1.00 | 13100 | ×1.00 |" in speed


def test_seeds_are_compared_one_by_one(tables: Any) -> None:
    """Means and sample deviations over seeds, and differences from the dense run of a seed."""
    runs = [
        ("dense", 0, 90.0, 97.0, 0.1),
        ("dense", 1, 92.0, 97.2, 0.2),
        ("local-99", 0, 91.0, 97.5, 0.05),
        ("local-99", 1, 91.5, 97.3, 0.3),
    ]
    names = ["name", "seed", "early_percent", "accuracy_percent", "tail_loss"]
    more = {"title": "a", "layer_norm": True, "figures": "fig4", "ratio_content": 1.0}
    table = pd.DataFrame(runs, columns=names).assign(**more)
    (line,) = tables.differences(table).splitlines()[2:]
    assert line == "| yes | local | 0 / 1 | +1.0 / -0.5 | +0.5 / +0.1 | 0.50 / 1.50 |"
    means = tables.over_seeds(table).set_index("name")
    assert means.loc["dense", "early_percent_sd"] == pytest.approx(2**0.5)
    assert means.loc["dense", "seeds"] == 2 and means.loc["dense", "early_percent"] == 91
    assert "| 97.10 ± 0.14 |" in tables.runs_table(table)


def test_speeds_are_ratios_to_the_dense_run(times: Any) -> None:
    """Half the time, twice the images; and bits a hundredth of dense ones, 41 % of a round."""
    table = pd.DataFrame(
        {
            "name": ["drop-99", "dense", "min-1"],
            "seed": 0,
            "title": ["a", "b", "c"],
            "round_ms": [5.0, 10.0, 1.0],
            "encode_ms": 1.0,
            "images": [200.0, 100.0, 9.0],
            "link_ms": [1.0, 4.0, 1.0],
            "link_images": [400.0, 100.0, 9.0],
            "up_bits": [1e6, 1e8, 1.0],
            "down_bits": [1e6, 1e8, 1.0],
            "paper_images": [3726, 2489, None],
            "paper_words": [14740, 13100, None],
        }
    )
    speeds = times.speeds(table).set_index("name")
    assert [*speeds.index] == ["dense", "drop-99"]
    ratios = speeds.loc["drop-99", [c for c in speeds if str(c).endswith("_ratio")]]
    assert [*ratios] == pytest.approx(
        [2, 4, 3726 / 2489, 14740 / 13100, 1 / (0.59 + 0.0041)], rel=1e-9
    )
    assert times.speeds(table[table["name"] != "dense"]).empty


@pytest.mark.slow
def test_smoke(typed: Typed, rows: Any) -> None:
    said = typed("experiment", "gradient-dropping", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    table = pd.read_csv(Path("out", "tables.csv")).set_index("name")
    assert set(table["seed"]) == {0}
    assert set(table.index) == set(rows.SMOKE)
    # 1 % of entries: 32 bits per value and about 8 per position; 1 or 2 bits in place of 32.
    assert 70 < table["ratio_content"]["drop-99"] < 85
    for name, bits in (("min-1", 1), ("avg-2", 2)):
        ratio = table["ratio_content"][name]
        assert 32 / (0.01 * (bits + 9)) < ratio < 32 / (0.01 * (bits + 7.9))
    assert {"round_ms", "seconds"}.isdisjoint(table)
    assert [*pd.read_csv(Path("out", "times.csv"))["name"]] == ["dense", "drop-99"]
    for figure in ("fig2", "fig4", "fig6", "fig8"):
        assert Path("out", f"{figure}.png").stat().st_size > 10_000
