"""Two folders of runs, cell by cell: differences, their tests, and what cannot be compared."""

from pathlib import Path

import pytest

from fedsim.commands.cli import main
from fedsim.ground.errors import UsageError
from fedsim.results.compare import compare
from tests.support.sweepmaker import SBC, TOPK, make_run

CELLS = ((10, 0.1), (10, 0.01))


def lot(root: Path, form: str, *metrics: list[float]) -> Path:
    """A sweep with these metrics, cell by cell and seed by seed."""
    for (n, p), seeds in zip(CELLS, metrics, strict=False):
        for seed, metric in enumerate(seeds):
            folder = root / "cells" / f"n{n}-p{p}-s{seed}"
            make_run(folder, n, p, seed, form=form, metric=metric, total_bits=1000.0 * (seed + 1))
    make_run(root / "cells" / "dense", 1, 1.0, 0)
    return root


def test_differences_and_their_tests(tmp_path: Path) -> None:
    """By hand: 0.01, 0.02, 0.03 have t = 2 * sqrt(3) with 2 degrees: p = 0.0742, half 0.0248."""
    first = lot(tmp_path / "a", SBC, [0.91, 0.92, 0.93], [0.5, 0.7, 0.6])
    other = lot(tmp_path / "b", TOPK, [0.90, 0.90, 0.90], [0.4, 0.6, 0.5])
    table = compare(first, other).set_index("gradient")
    row = table.loc[0.1]
    assert (row["method"], row["other_method"], row["seeds"]) == ("sbc", "gradient_dropping", 3)
    assert row["difference"] == pytest.approx(0.02) and row["half"] == pytest.approx(0.02484, 1e-3)
    assert row["p_value"] == pytest.approx(0.0742, abs=1e-4) and row["verdict"] == ""
    assert (row["total_bits"], row["other_total_bits"]) == (2000, 2000)
    assert table.loc[0.01, "p_corrected"] == pytest.approx(2 * table.loc[0.01, "p_value"])
    assert table.loc[0.01, "verdict"] == "first"
    assert compare(other, first).set_index("gradient").loc[0.01, "verdict"] == "other"


def test_only_seeds_of_both_count(tmp_path: Path) -> None:
    first = lot(tmp_path / "a", SBC, [0.9, 0.8, 0.1])
    other = lot(tmp_path / "b", TOPK, [0.8, 0.7])
    table = compare(first, other)
    assert table["seeds"].tolist() == [2] and table["metric"].tolist() == [pytest.approx(0.85)]


def test_a_lower_perplexity_is_better(tmp_path: Path) -> None:
    lots = []
    for name, form, metrics in (("a", SBC, [50, 61, 70]), ("b", TOPK, [40, 50, 60.5])):
        lots.append(tmp_path / name)
        for seed, metric in enumerate(metrics):
            make_run(lots[-1] / "cells" / f"n10-p0.1-s{seed}", 10, 0.1, seed, perplexity=True,
                     form=form, metric=metric)  # fmt: skip
    assert compare(*lots)["verdict"].tolist() == ["other"]


@pytest.mark.parametrize(
    ("metrics", "why"), [(([0.9],), "no two seeds"), (([], [0.9, 0.8]), "no cell"), ((), "no cell")]
)
def test_what_cannot_be_compared(tmp_path: Path, metrics: tuple[list[float]], why: str) -> None:
    first = lot(tmp_path / "a", SBC, [0.9, 0.8], [])
    make_run(first / "cells" / "more", 20, 0.1, 0)
    other = lot(tmp_path / "b", TOPK, *metrics)
    with pytest.raises(UsageError, match=why):
        compare(first, other)


def test_a_folder_of_two_methods_is_refused(tmp_path: Path) -> None:
    first = lot(tmp_path / "a", SBC, [0.9, 0.8])
    make_run(first / "cells" / "another", 10, 0.1, 2, form=TOPK)
    with pytest.raises(UsageError, match="it holds gradient_dropping, sbc; give folders of one"):
        compare(first, lot(tmp_path / "b", TOPK, [0.9, 0.8]))


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = lot(tmp_path / "a", SBC, [0.91, 0.92, 0.93], [0.5, 0.7, 0.6])
    other = lot(tmp_path / "b", TOPK, [0.90, 0.90, 0.90], [0.4, 0.6, 0.5])
    assert main(["compare", str(first), str(other)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "A: sbc, B: gradient_dropping" in out and "neither" in out
    assert "Fewer than 5 seeds" in out and "2 cells (Holm)" in out
