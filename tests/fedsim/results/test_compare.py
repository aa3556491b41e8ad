"""Two folders of runs, cell by cell: differences, their tests, and what cannot be compared."""

import json
from math import inf
from pathlib import Path

import pandas as pd
import pytest

from fedsim.commands.cli import main
from fedsim.ground.errors import UsageError
from fedsim.results.compare import compare, compare_frames
from fedsim.results.load import load_results
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
    other = lot(tmp_path / "b", TOPK, [0.90, 0.90, 0.90], [0.4, 0.59, 0.5])
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
            make_run(
                lots[-1] / "cells" / f"n10-p0.1-s{seed}",
                10,
                0.1,
                seed,
                perplexity=True,
                form=form,
                metric=metric,
            )
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


def test_two_runs_of_a_seed_are_refused(tmp_path: Path) -> None:
    """They are no two seeds; that of another cell, and one that failed, are not in the way."""
    first, other = (lot(tmp_path / "a", SBC, [0.9, 0.8]), lot(tmp_path / "b", TOPK, [0.9, 0.7]))
    make_run(other / "cells" / "failed", 10, 0.1, 1, form=TOPK, failed=True)
    make_run(other / "cells" / "again", 10, 0.1, 1, form=TOPK, metric=0.7)
    assert compare(first, other)["seeds"].tolist() == [2]  # with the same settings one counts
    one, two = ((load_results(path).runs, path.name) for path in (first, other))
    twice = pd.concat([two[0], two[0].loc[["n10-p0.1-s0"]].rename({"n10-p0.1-s0": "again"})]), "b"
    why = r"b: n10-p0.1-s0 and again are of one cell, n = 10 and p = 0.1, and of one seed, 0; give"
    for pair in ((one, twice), (twice, one)):
        with pytest.raises(UsageError, match=why):
            compare_frames(*pair)


def test_raw_sending_leaves_its_reference_out(tmp_path: Path) -> None:
    """A sweep of raw sending has it too; a folder of references alone is compared by them."""
    first = lot(tmp_path / "a", SBC, [0.9, 0.8])
    for seed in (0, 1):
        make_run(tmp_path / "raw" / "cells" / f"raw{seed}", 10, 1.0, seed, metric=0.7)
        for name in ("raw", "dense"):
            make_run(tmp_path / name / "cells" / f"dense{seed}", 1, 1.0, seed, metric=0.6)
    table = compare(first, tmp_path / "raw")
    assert table["other_method"].tolist() == ["raw"] and table["other_metric"].tolist() == [0.7]
    table = compare(first, tmp_path / "dense")
    assert table["other_method"].tolist() == ["dense"] and table["other_metric"].tolist() == [0.6]


def test_a_cell_without_two_seeds_in_common_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = lot(tmp_path / "a", SBC, [0.9, 0.8], [0.5])
    other = lot(tmp_path / "b", TOPK, [0.8, 0.6], [])
    make_run(other / "cells" / "another", 10, 0.01, 7, form=TOPK)
    assert str(compare(first, other).loc[0, "temporal"]) == "10"
    assert main(["compare", str(first), str(other)]) == 0
    assert "─ 10 0.1 2 " in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_equal_differences_say_nothing_of_chance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one sample of 360, which rounding makes two numbers."""
    first = lot(tmp_path / "a", SBC, [300 / 360, 307 / 360], [0.9, 0.8])
    other = lot(tmp_path / "b", TOPK, [301 / 360, 308 / 360], [0.9, 0.8])
    table = compare(first, other).set_index("gradient")
    assert table["p_value"].isna().tolist() == [False, True]
    assert table["p_corrected"].fillna(0).tolist() == [1, 0] and not table["verdict"].any()
    assert main(["compare", str(first), str(other)]) == 0
    assert "Without a p-value: seeds whose differences are all the same" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.slow
def test_infinite_scores_and_no_bits_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    first = lot(tmp_path / "a", SBC, [inf, 0.8], [0.9, 0.8])
    other = lot(tmp_path / "b", TOPK, [0.8, 0.6], [inf, 0.8])
    for seed in (0, 1):
        silent = {"metric": 0.5, "up_wire_bits": 0.0, "total_bits": 0.0}
        make_run(first / "cells" / f"silent{seed}", 20, 0.1, seed, **silent)
        make_run(other / "cells" / f"sent{seed}", 20, 0.1, seed, form=TOPK, metric=0.5)
    table = compare(first, other).set_index(["temporal", "gradient"])
    assert table["difference"].to_dict() == {(10, 0.1): inf, (10, 0.01): -inf, (20, 0.1): 0}
    assert main(["compare", str(first), str(other)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "+inf" in out and "-inf" in out and "± 0.0000 1 neither" in out


def test_the_command_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = lot(tmp_path / "a", SBC, [0.91, 0.92, 0.93], [0.5, 0.7, 0.6])
    other = lot(tmp_path / "b", TOPK, [0.90, 0.90, 0.90], [0.4, 0.6, 0.5])
    assert main(["compare", str(first), str(other)]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "A: sbc, B: gradient_dropping" in out and "neither (?)" in out
    assert "fewer than 5 seeds" in out and "2 cells (Holm)" in out and "No answer" not in out
    assert main(["compare", str(first), str(other), "--reference", "raw"]) == 2
    assert "raw" in capsys.readouterr().err


@pytest.mark.slow
def test_failed_seeds_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = lot(tmp_path / "a", SBC, [0.91, 0.92, 0.93, 0.92, 0.91])
    other = lot(tmp_path / "b", TOPK, [0.95, 0.97, 0.96])
    for seed in (3, 4):
        make_run(other / "cells" / f"failed{seed}", 10, 0.1, seed, form=TOPK, failed=True)
    table = compare(first, other)
    assert table[["seeds", "failed", "other_failed"]].to_numpy().tolist() == [[3, 0, 2]]
    assert main(["compare", str(first), str(other)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Failed runs count nowhere: 0 of A, 2 of B." in told
    assert main(["compare", str(first), str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cells"][0]["other_failed"] == 2


def test_the_settings_that_differ_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that both folders hold has that name too."""
    lots = [lot(tmp_path / name, SBC, [0.9, 0.8]) for name in ("a", "b")]
    for config in lots[1].glob("cells/*/config.toml"):
        config.write_text(f"{config.read_text()}\nclients.cohort = 2\ntraining.lr = 0.05")
    table = compare(*lots)
    assert table["method"].tolist() == ["sbc"]
    assert table["other_method"].tolist() == ["sbc (cohort = 2, lr = 0.05)"]
    assert main(["compare", *map(str, lots)]) == 0
    assert "A: sbc, B: sbc (cohort = 2, lr = 0.05)" in " ".join(capsys.readouterr().out.split())
    same = lot(tmp_path / "c", SBC, [0.9, 0.8])
    assert compare(lots[0], same)["other_method"].tolist() == ["sbc"]


def test_small_scores_keep_their_digits(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lots = []
    for name, form, metrics in (("a", SBC, [2.1e-5, 2.3e-5]), ("b", TOPK, [1.1e-5, 1.2e-5])):
        lots.append(tmp_path / name)
        for seed, metric in enumerate(metrics):
            make_run(
                lots[-1] / "cells" / f"s{seed}",
                10,
                0.1,
                seed,
                form=form,
                metric=metric,
                metric_name="mse",
                higher_is_better=False,
            )
    assert main(["compare", *map(str, lots)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "2.2e-05 1.15e-05 +0.0000105 ± 0.0000064" in told
