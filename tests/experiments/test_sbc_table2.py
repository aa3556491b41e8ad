"""Table II again, at the scale of a smoke test: the cells, the table, the figure."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.commands import Typed, files
from tests.support.experiments import experiment
from tests.support.realdata import folder_with

ROW = "mnist_lenet5"
NAMES = ["baseline", "dropping", "fedavg", "sbc1", "sbc2", "sbc3"]


@pytest.fixture(scope="module")
def table2() -> Any:
    """The experiment's module, as the command line loads it."""
    return experiment("sbc-table2")


@pytest.mark.parametrize("scale", ["short", "paper"])
def test_the_cells_are_the_columns_of_the_table(table2: Any, scale: str) -> None:
    cells = table2.cells(ROW, scale, None)
    assert list(cells) == NAMES
    plans = [cell.config.plan for cell in cells.values()]
    assert [(p.temporal, p.method.gradient) for p in plans] == [
        (1, 1),
        (1, 0.001),
        (500, 1),
        (1, 0.001),
        (10, 0.01),
        (100, 0.01),
    ]
    assert {(p.iterations, p.batch_size, p.clients) for p in plans} == {(2000, 128, 4)}
    assert [p.method.residuals for p in plans] == [False, True, False, True, True, True]
    assert ["mean" in p.method.text for p in plans] == [False, False, False, True, True, True]


def test_all_five_models_have_a_row_at_the_published_length(table2: Any) -> None:
    lengths = {"imagenet_resnet50": 700_000, "word_lstm": 60_000, "cifar_resnet32": 60_000}
    for row, iterations in (lengths | {"char_lstm": 16_000, ROW: 2000}).items():
        plans = [cell.config.plan for cell in table2.cells(row, "paper", None).values()]
        assert {p.iterations for p in plans} == {iterations}
        assert len(plans) == 6 + 2 * (row == "char_lstm")
        assert table2.PAPER[row]["fedavg"][1] == plans[2].temporal


def test_the_biases_of_the_lstm_are_spared_beside_the_paper_s_rows(table2: Any) -> None:
    cells = table2.cells("char_lstm", "paper", None)
    for ours, paper_s in (("sbc2_spared", "sbc2"), ("sbc3_spared", "sbc3")):
        plan, other = cells[ours].config.plan, cells[paper_s].config.plan
        assert (plan.temporal, plan.method.gradient) == (other.temporal, 0.01)
        assert plan.method.text.count("one_sided") == 2 and plan.masks == other.masks


@pytest.mark.slow
@pytest.mark.parametrize("row", ["digits", ROW])
def test_smoke(table2: Any, typed: Typed, row: str) -> None:
    arguments: tuple[str | Path, ...] = ("experiment", "sbc-table2", "--scale", "smoke")
    if row == ROW:
        arguments += ("--only", ROW, "--data", folder_with("MNIST"))
    said = typed(*arguments, "--out", "out")
    assert said.code == 0, said.err
    assert "Traceback" not in said.out + said.err
    out = Path("out", row)
    assert sorted(f.name for f in (out / "cells").iterdir()) == NAMES
    frame = pd.read_csv(out / "summary.csv")
    assert frame["status"].eq("done").all() and len(frame) == 6
    assert set(frame["iterations"]) == {8} and set(frame["temporal"]) == {1, 2}
    lines = pd.read_csv(out / "curves.csv")
    assert lines["method"].nunique() == 6 and lines["metric"].notna().all()
    last = lines.groupby("method")["up_bits"].last().tolist()
    assert sorted(last) == pytest.approx(sorted(frame["up_content_bits"]), rel=1e-5)
    table = (out / "table2.md").read_text()
    for title in ("Baseline", "Gradient dropping", "Federated averaging", "SBC (1)", "SBC (3)"):
        assert f"| {title} |" in table
    heading, _, *lines = table.splitlines()
    assert all(line.count("|") == heading.count("|") for line in lines)
    assert len(lines) == 6
    for line, (metric, ratio) in zip(lines, table2.PAPER.get(row, {}).values(), strict=False):
        assert f"| {metric:g} |" in line and line.endswith(f"| ×{ratio} |")
    assert (row == ROW) is not all(line.endswith("| – |") for line in lines)
    before = files(out / "cells")
    assert typed(*arguments, "--out", "out").code == 0
    assert files(out / "cells") == before
