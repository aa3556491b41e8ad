"""Sattler et al.'s plane: the statistic of its diagonals by hand, the cells, and smoke runs."""

import math
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from experiments.common import plane
from tests.support.commands import Typed, files
from tests.support.experiments import experiment


@pytest.fixture(scope="module")
def matrix() -> Any:
    """The experiment's run.py; its neighbours can be imported from then on."""
    return experiment("sbc-matrix")


@pytest.fixture(scope="module")
def square() -> Any:
    return plane.SHORT["digits"]


@pytest.fixture(scope="module")
def explained() -> Any:
    return experiment("sbc-matrix", "diagonals").explained


def grid(errors: list[list[float]]) -> pd.DataFrame:
    """Rows of n = 1, 10, 100, columns of p = 1, 0.1, 0.01."""
    return pd.DataFrame(
        [
            {"temporal": 10**i, "gradient": 10.0**-j, "diagonal": i + j, "error": error}
            for i, row in enumerate(errors)
            for j, error in enumerate(row)
        ]
    )


def test_the_statistic_by_hand(explained: Any) -> None:
    """2 x 2: diagonals 1 | 2, 4 | 9: mean 4, sums of squares 38 in all, 2 within, 36 between."""
    share = explained(grid([[1, 2], [4, 9]]))
    assert share.along == pytest.approx(2 / (4 - 3)) and share.across == pytest.approx(36 / 2)
    assert share.ratio == pytest.approx(18 / 2)
    assert share.eta == pytest.approx(36 / 38)
    assert share.total == pytest.approx(1 - 2 / (38 / 3))
    # by n: means 1.5 and 6.5, within 0.5 + 12.5; by p: means 2.5 and 5.5, within 4.5 + 24.5
    assert share.temporal == pytest.approx(1 - 13 / 2 / (38 / 3))
    assert share.gradient == pytest.approx(1 - 29 / 2 / (38 / 3))
    assert (share.temporal_slope, share.gradient_slope) == pytest.approx((5, 3))


def test_the_triangle_by_hand(matrix: Any) -> None:
    """At 300 iterations n = 100 has had three rounds; 0.35 is beyond 0.1 + 0.2."""
    errors = grid([[0.1, 0.2, 0.35], [0.24, 0.3, 0.5], [0.28, 0.5, 0.9]]).assign(stage=300)
    corner = experiment("sbc-matrix", "diagonals").triangle(errors, 3, 0.201)
    assert (corner.often, corner.cells) == (9, 5)
    assert corner.span == pytest.approx(0.2) and corner.widest == pytest.approx(0.04)
    # diagonals 0.1 | 0.2, 0.24 | 0.3, 0.28: squares 2 x 0.02**2 + 2 x 0.01**2 over 5 - 3
    assert corner.along == pytest.approx((0.001 / 2) ** 0.5)
    early = experiment("sbc-matrix", "diagonals").triangle(errors.assign(stage=299), 3, 0.201)
    assert (early.often, early.cells) == (6, 4)
    alone = experiment("sbc-matrix", "diagonals").triangle(errors, 3, 0.05)
    assert alone.cells == 1 and math.isnan(alone.widest) and math.isnan(alone.along)


def stages(*errors: list[list[float]]) -> pd.DataFrame:
    """Matrices at 300, 600, ... iterations."""
    matrices = [grid(matrix).assign(stage=300 * k) for k, matrix in enumerate(errors, 1)]
    return pd.concat(matrices).assign(method="sbc", task="own")


def test_the_best_form_moves(matrix: Any) -> None:
    forms = experiment("sbc-matrix", "forms")
    first = [[0.1, 0.3, 0.5], [0.2, 0.4, 0.6], [0.4, 0.5, 0.9]]
    then = [[0.1, 0.1, 0.3], [0.2, 0.4, 0.5], [0.3, 0.6, 0.9]]
    best = forms.best_forms(stages(first, then), 3)
    line = best[best["diagonal"] == 1].iloc[1]
    assert (line["temporal"], line["place"], line["error"], line["stale"]) == (1, 0, 0.1, 0.2)
    moved = forms.moves(best).to_dict("records")
    # at first 10, then 10 and 100 alike (the first counts), then 100; later 1, the same, 10
    assert [row["best"] for row in moved] == [[10, 10, 100], [1, 1, 10]]
    assert [row["shorter"] for row in moved][1] == 3 and moved[1]["longer"] == 0
    assert moved[0]["place"] == pytest.approx((1 + 0.5 + 1) / 3)
    assert moved[1]["stale"] == pytest.approx((0.1 + 0.1 + 0.1) / 3)


def test_forms_compare_the_same_cells_at_all_stages(matrix: Any) -> None:
    """A cell that has had fewer rounds by the first stage is left out later too."""
    forms = experiment("sbc-matrix", "forms")
    errors = [[0.1, 0.3, 0.5], [0.2, 0.4, 0.6], [0.0, 0.0, 0.0]]
    frame = stages(errors, errors).assign(stage=lambda all_: all_["stage"] // 3)
    assert forms.best_forms(frame, 3)["temporal"].max() == 10


def test_dense_cells_are_trained_once(square: Any) -> None:
    cells = {cell.name: cell.config for cell in square.cells(None)}
    assert len(cells) == 6 + 2 * 30
    assert [n for n in cells if n.startswith("dense")] == [f"dense-n{3**i}-p1" for i in range(6)]
    sparsest = cells["sbc-n243-p0.00412"]
    assert sparsest.plan.method.gradient == pytest.approx(3**-5) and sparsest.plan.rounds == 1
    drawn = [square.name(m, square.ratio**n, square.ratio**-p) for m, n, p in square.drawn]
    assert len(set(drawn)) == 6 and set(drawn) <= set(cells)


def test_unmasked_cells_are_those_of_the_first_row(matrix: Any, square: Any) -> None:
    """The same runs as beside them in all but the momentum."""
    masked = {cell.name: cell.config for cell in square.cells(None)}
    bare = square.unmasked(None)
    assert len(bare) == 10 and not {cell.name for cell in bare} & {*masked}
    for cell in bare:
        before = masked[cell.name.removesuffix("-unmasked")]
        assert before.plan.masks and not cell.config.plan.masks and before.temporal == 1
        assert cell.config.but(momentum_masking="on") == before


def test_sparse_against_dense_by_hand() -> None:
    plane = pd.DataFrame(
        {
            "kind": ["gradient", "gradient", "temporal", "both"],
            "temporal": [1, 1, 3, 3],
            "gradient": [1 / 3, 1 / 9, 1, 1 / 3],
            "diagonal": [1, 2, 1, 2],
            "error": [4, 3, 2, 1],
        }
    )
    lowest = experiment("sbc-curves", "phases").lowest
    row = lowest(plane.assign(method="sbc", stage=9, dense=2.5)).iloc[0]
    assert (row["temporal"], row["gradient"], row["best"]) == (2, 4, 1)
    assert (row["n"], row["gain"], row["below"], row["cells"]) == (3, 1.5, 2, 4)


def test_a_stepped_row_lowers_its_rate(matrix: Any) -> None:
    """To a tenth, between two of the stages that are compared, at either length."""
    for scale in ("short", "paper"):
        row = matrix.SCALES[scale]["fashion_lenet5_stepped"]
        task = row.cells(None)[0].config.plan.task
        assert task.name == "fashion_lenet5_stepped" and task.lr_steps == ((row.falls, 0.1),)
        assert row.stages[0] < row.falls < row.stages[-1] and row.falls in row.stages
        plain = matrix.SCALES[scale]["fashion_lenet5"].cells(None)[0].config.plan.task
        assert plain.lr_steps == ()


@pytest.mark.parametrize("scale", ["smoke", "short", "paper"])
def test_every_stage_is_evaluated(matrix: Any, scale: str) -> None:
    for square in matrix.SCALES[scale].values():
        for cell in [*square.cells(None), *square.unmasked(None)]:
            plan = cell.config.plan
            every = plan.evaluate_every * plan.temporal
            for stage in square.stages:
                assert stage < plan.temporal or stage % every == 0, (cell.name, stage)


def test_ratios_of_table_i(typed: Typed) -> None:
    table1 = experiment("sbc-table1")
    lines = table1.theory().splitlines()
    assert "| SBC (1) | 1 | 0.001 | 0 | 11.49 | ×2784 | ×1530-2572 |" in lines
    run = {
        "temporal": 10,
        "gradient": 0.01,
        "rounds": 2,
        "parameters": 1000,
        "up_sent": 20,
        "up_value_bits": 0,
        "up_position_bits": 160,
        "up_side_bits": 64,
        "up_header_bits": 50,
        "ratio_content": 3000.0,
        "ratio_wire": 2500.0,
    }
    frame = table1.measured(pd.DataFrame(dict.fromkeys(table1.ROWS, run)).T).set_index("name")
    row = frame.loc["sbc2"]
    assert (row["gradient"], row["position_bits"], row["side_bits"]) == (0.01, 8, 32)
    assert row["theory"] == pytest.approx(32 * 10 / 0.01 / 8.10791, rel=1e-5)


@pytest.mark.slow
def test_smoke(typed: Typed) -> None:
    said = typed("experiment", "sbc-matrix", "--scale", "smoke", "--out", "sbc-matrix-smoke")
    assert said.code == 0, said.err
    out = Path("sbc-matrix-smoke", "digits")
    assert len(pd.read_csv(out / "matrix.csv")) == 2 * 2 * 4
    assert (out / "matrix.png").stat().st_size > 10_000
    bare = pd.read_csv(out / "unmasked.csv")
    assert len(bare) == 2 * 2 and (bare["masked"] != bare["unmasked"]).any()
    assert len(pd.read_csv(out / "diagonals.csv")) == 2 * 2
    text = (out / "tables.md").read_text()
    assert "The triangle" in text and "Without momentum masking" in text
    before = {f.name for f in (out / "cells").iterdir() if not f.name.endswith("-unmasked")}
    for folder in (out / "cells").glob("*-unmasked"):
        shutil.rmtree(folder)
    said = typed("experiment", "sbc-curves", "--scale", "smoke", "--out", "curves")
    assert said.code == 0, said.err
    curves = Path("curves", "digits")
    assert {f.name for f in (curves / "cells").iterdir()} == before
    assert files(curves / "cells") == files(out / "cells")  # copied, not trained again
    lines = list(experiment("sbc-curves").LINES)
    assert list(dict.fromkeys(pd.read_csv(curves / "curves.csv")["method"])) == lines[:5]
    assert (curves / "sparsity.png").exists() and (curves / "curves.png").exists()


@pytest.mark.slow
def test_table1_smoke(typed: Typed) -> None:
    said = typed("experiment", "sbc-table1", "--scale", "smoke", "--out", "out")
    assert said.code == 0, said.err
    frame = pd.read_csv(Path("out", "digits", "messages.csv")).set_index("name")
    assert frame.loc["sign", "value_bits"] == 1 and frame.loc["qsgd", "value_bits"] == 8
    assert frame.loc["baseline", "compression"] == 1
    assert frame.loc["sbc1", "compression"] > frame.loc["dropping", "compression"]
