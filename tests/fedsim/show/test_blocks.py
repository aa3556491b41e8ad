"""Folders as blocks: best cells, budgets, what is left out, the command and its files."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.commands.cli import main
from fedsim.ground.errors import UsageError
from fedsim.results.compare import by_folder
from fedsim.show.blocks import blocks_of, compare_methods
from tests.support.sweepmaker import SBC, TOPK, make_run

QSGD = "per_tensor(dither(1))"


def lot(root: Path, form: str, metrics: list[float], gradient: float = 0.1, **more: object) -> Path:
    """A sweep of one cell with a metric per seed."""
    for seed, metric in enumerate(metrics):
        folder = root / "cells" / f"p{gradient}-s{seed}"
        make_run(folder, 10, gradient, seed, form=form, metric=metric, **more)  # type: ignore[arg-type]
    return root


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """Three methods; the first is the best by 0.1 and 0.2, give or take 0.01."""
    base = [0.90, 0.91, 0.92, 0.93, 0.94]
    swing = [0.01, -0.01, 0.01, -0.01, 0.0]
    parts = [[x - less + s for x, s in zip(base, swing, strict=True)] for less in (0.1, 0.2)]
    return [
        lot(tmp_path / "a", SBC, base),
        lot(tmp_path / "b", TOPK, parts[0]),
        lot(tmp_path / "c", QSGD, parts[1]),
    ]


def test_three_folders_are_compared(three: list[Path]) -> None:
    found = compare_methods(*three)
    assert found.answer == f"sbc is better than gradient_dropping and {QSGD}."
    assert found.values.shape == (5, 3) and found.methods["rank"].tolist() == [1, 2, 3]
    assert found.methods["difference"].tolist() == pytest.approx([0, -0.1, -0.2])
    loaded = fedsim.load(*three)
    pd.testing.assert_frame_equal(loaded.compare_methods().pairs, found.pairs)
    two = loaded.compare_methods("sbc", QSGD, reference=QSGD)
    assert two.answer == f"sbc is better than {QSGD}."
    with pytest.raises(UsageError, match="unknown method 'sbcc'"):
        loaded.compare_methods("sbcc")


def test_a_method_counts_with_its_best_cell(three: list[Path]) -> None:
    """The worse cell has the better last seed; one with fewer seeds is not the best."""
    lot(three[2] / "cells" / "more", QSGD, [0.1, 0.1, 0.1, 0.1, 0.99], 0.01)
    for folder in (three[2] / "cells" / "more" / "cells").iterdir():
        folder.rename(three[2] / "cells" / folder.name)
    (three[2] / "cells" / "more" / "cells").rmdir()
    (three[2] / "cells" / "more").rmdir()
    make_run(three[2] / "cells" / "one", 10, 0.001, 0, form=QSGD, metric=0.999)
    blocks = blocks_of(by_folder(*three))
    own = blocks.cells.set_index("label").loc[QSGD]
    assert (own["gradient"], own["cells"]) == (0.1, 3)
    assert blocks.values[QSGD].mean() == pytest.approx(0.72)


def test_a_block_that_a_method_lacks_is_left_out(three: list[Path]) -> None:
    make_run(three[0] / "cells" / "seed9", 10, 0.1, 9, form=SBC, metric=0.9)
    make_run(three[1] / "cells" / "failed", 10, 0.1, 9, form=TOPK, failed=True)
    blocks = blocks_of(by_folder(*three))
    assert (len(blocks.values), blocks.left_out, blocks.failed) == (5, 1, 1)


@pytest.mark.slow
def test_budgets_are_averaged_in_a_block(three: list[Path]) -> None:
    """Parts of a run are no repetitions: two budgets make no more blocks."""
    one, other = (blocks_of(by_folder(*three), [bits]) for bits in ("20kbit", "2Mbit"))
    both = blocks_of(by_folder(*three), ["20kbit", "2Mbit"])
    assert len(both.values) == 5
    pd.testing.assert_frame_equal(both.values, (one.values + other.values) / 2)
    assert not one.values.equals(other.values)
    with pytest.raises(UsageError, match="no evaluation within 10 bit"):
        blocks_of(by_folder(*three), ["10bit"])


def test_runs_that_cannot_be_one_table_are_refused(three: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"one method \(sbc\)"):
        compare_methods(three[0])
    other = lot(tmp_path / "d", TOPK, [50.0, 51.0], perplexity=True, task="mnist")
    with pytest.raises(UsageError, match=r"2 metrics \(accuracy, perplexity\)"):
        compare_methods(*three, other)
    again = lot(tmp_path / "e", SBC, [0.5, 0.4])
    with pytest.raises(UsageError, match="of one cell, n = 10 and p = 0.1, and of one seed, 0"):
        blocks_of([*by_folder(three[0]), *by_folder(again)])


def test_the_command_answers(
    three: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    csv, figure = tmp_path / "pairs.csv", tmp_path / "ranks.png"
    files = ["--csv", str(csv), "--figure", str(figure)]
    assert main(["compare", *map(str, three), "--margin", "0.05", *files]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert f"sbc is better than gradient_dropping and {QSGD}." in out
    assert "all methods have: 5." in out and "Nemenyi" in out and "reference" in out
    assert "accuracy up difference" in out  # headings: bits count upstream
    pairs = pd.read_csv(csv)
    assert pairs[["first", "other"]].to_numpy().tolist() == [
        ["sbc", "gradient_dropping"],
        ["sbc", QSGD],
        ["gradient_dropping", QSGD],
    ]
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert main(["compare", *map(str, three), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["blocks"] == 5 and len(told["pairs"]) == 3 and "cells" not in told


def test_two_methods_within_a_budget(
    three: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is printed is of the budget alone, and no table of the last evaluations."""
    monkeypatch.setenv("COLUMNS", "150")
    folders = [str(path) for path in three[:2]]
    for budget, told in (("1Gbit", "1.00 Gbit up"), ("1Gbit,2Gbit", "1.00 Gbit, 2.00 Gbit up")):
        assert main(["compare", *folders, "--budget", budget]) == 0
        out = " ".join(capsys.readouterr().out.split())
        assert f"within {told} of a client" in out and "A - B" not in out
    assert main(["compare", *folders, "--budget", "1Gbit", "--json"]) == 0
    assert "cells" not in json.loads(capsys.readouterr().out)
    assert main(["compare", *folders]) == 0
    assert "A - B" in capsys.readouterr().out


def test_wrong_flags_are_refused_before_any_file(
    three: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, csv = [str(path) for path in three], tmp_path / "pairs.csv"
    for more, why in (
        (["--reference", "dens"], "dens"),
        (["--margin", "-1"], "margin is -1"),
        (["--budget", "2Mbits"], "2Mbits"),
        (["--csv", str(tmp_path)], "--csv"),
        (["--figure", str(tmp_path / "no" / "x.png")], "--figure"),
    ):
        assert main(["compare", *folders, "--csv", str(csv), *more]) == 2
        assert why in capsys.readouterr().err
    assert not csv.exists()


def test_bars_join_what_is_not_told_apart(three: list[Path]) -> None:
    """Ranks 1, 2 and 3 of 5 blocks; CD = 2.343 * sqrt(12 / 30) = 1.48: two bars of length 1."""
    axes = fedsim.plot.critical_difference(compare_methods(*three))
    bars = [line for line in axes.lines if line.get_linewidth() == 4]
    assert [np.asarray(bar.get_xdata()).tolist() for bar in bars] == [[1, 2], [2, 3]]
    (length,) = (line for line in axes.lines if line.get_marker() == "|")
    np.testing.assert_allclose(length.get_xydata(), [[1, -1.7], [2.48, -1.7]], atol=5e-3)
    texts = [text.get_text() for text in axes.texts]
    assert "CD = 1.48" in texts and "sbc (1.00)" in texts
