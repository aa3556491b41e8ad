"""Tables: arithmetic, units, and that nothing is cut off on a narrow terminal."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from fedsim.ground import units
from fedsim.ground.errors import UsageError
from fedsim.results.load import load_results
from fedsim.show.export import table
from fedsim.show.layout import folded
from fedsim.show.report import report
from fedsim.show.tables import summary_table, summary_texts
from tests.support.sweepmaker import ITERATIONS, PARAMETERS, TOPK, make_run, make_sweep, runs_of
from tests.support.sweepmaker import make_cell as cell


def printed(cells: list[dict[str, Any]], width: int, **more: Any) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(summary_table(runs_of(cells), width, **more))
    return capture.get()


def test_bits_have_three_digits() -> None:
    counts = [0, 7, 999, 999.4, 999.6, 1234, 12_345, 999_499, 999_500, 13_794_560, 4.2e10, 3e15]
    assert [units.bits(count) for count in counts] == [
        "0 bit",
        "7 bit",
        "999 bit",
        "999 bit",
        "1.00 kbit",
        "1.23 kbit",
        "12.3 kbit",
        "999 kbit",
        "1.00 Mbit",
        "13.8 Mbit",
        "42.0 Gbit",
        "3000 Tbit",
    ]
    assert units.bits(None) == units.bits(float("nan")) == ""


def test_other_numbers() -> None:
    assert [units.ratio(x) for x in (1, 9.996, 35.14, 634.4, 24_935)] == [
        "×1.00",
        "×10.0",
        "×35.1",
        "×634",
        "×24935",
    ]
    assert [units.digits(x) for x in (0.99998, 0.00232, 35.14)] == ["1.00", "0.00232", "35.1"]
    assert units.difference(-0.01234, "accuracy") == "-1.23"
    assert units.difference(0.5, "perplexity") == "+0.5"
    assert units.difference(-4e-15, "accuracy") == "0.00"
    assert units.score(0.98765, "accuracy") == "0.9877"
    assert units.score(31.4159, "perplexity") == "31.42"


def test_epsilon_stands_beside_metric_and_bits_where_a_run_has_one() -> None:
    plain = cell(1, 1.0, 0.9)
    private = cell(10, 0.1, 0.8, epsilon=4.377178)
    assert "epsilon" not in printed([plain], 200)
    text = printed([plain, private], 200)
    heading = next(line for line in text.splitlines() if "epsilon" in line)
    assert "accuracy" in heading or "metric" in heading
    assert [("4.38" in line or "4.377" in line) for line in text.splitlines()].count(True) == 1


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_no_number_is_cut_off(tmp_path: Path, width: int, seeds: tuple[int, ...]) -> None:
    cells = make_sweep(tmp_path, seeds=seeds, failed=[(100, 0.001)], perplexity=len(seeds) > 1)
    text = printed(cells, width, per_seed=True)
    lines = text.splitlines()
    assert max(len(line) for line in lines) <= width and "…" not in text
    left = " ".join(text.split()).partition("Not shown here: ")[2].removesuffix(" (--columns).")
    left = left.split(", ")
    assert (left != [""]) == (width < 200)
    (dense,) = [c for c in cells if (c["temporal"], c["gradient"], c["seed"]) == (1, 1, 0)]
    for done in (c for c in cells if c["status"] == "done"):
        name = done["metric_name"]
        ways = done["up_wire_bits"] + done["down_wire_bits"]
        both = 64 * PARAMETERS * ITERATIONS / ways  # 32 bits up and 32 down
        start = [f"{done['seed']}"] if len(seeds) > 1 else []
        start += [f"{done['temporal']}", f"{done['gradient']:g}"]
        numbers = [
            units.score(done["metric"], name),
            units.bits(done["up_wire_bits"]),
            units.ratio(done["ratio_wire"]),
            units.ratio(both),
            "done",
            *([] if "p/n" in left else [units.plain(done["total_sparsity"])]),
            *([] if "up content" in left else [units.bits(done["up_content_bits"])]),
            *([] if "ratio up content" in left else [units.ratio(done["ratio_content"])]),
            *([] if "down content" in left else [units.bits(done["down_content_bits"])]),
            *([] if "seconds" in left else [units.seconds(done["seconds"])]),
        ]
        if done["seed"] == 0 and done is not dense:
            numbers.append(units.difference(done["metric"] - dense["metric"], name))
        begins = r"\s+".join(map(re.escape, start))
        (row,) = [line for line in lines if re.match(rf"\s*{begins}\s", line)]
        for number in numbers:
            assert re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.])", row), (number, row)
    assert text.count("failed") == len(seeds)


def test_rows_stand_by_delay_and_sparsity() -> None:
    cells = [cell(10, 0.1, 0.1), cell(2, 0.01, 0.2), cell(2, 0.1, 0.3), cell(1, 1, 0.4)]
    text = printed(cells, 100)
    order = [text.index(metric) for metric in ("0.4000", "0.3000", "0.2000", "0.1000")]
    assert order == sorted(order)


def test_a_table_has_the_columns_that_are_asked_for() -> None:
    cells = [cell(1, 1, 0.5), cell(10, 0.1, 0.4, seconds=2.0)]
    cells = [one | {"down_wire_bits": 8.0} for one in cells]
    lines = printed(cells, 80, columns=["seconds", "metric", "ratio_both"]).splitlines()
    assert lines[1].split() + lines[2].split() == ["ratio", "seconds", "accuracy", "both"]
    assert lines[5].split()[:2] == ["2.00", "0.4000"]
    with pytest.raises(UsageError, match="columns has speed: it may name .*ratio_both"):
        printed(cells, 80, columns=["speed"])


def test_iterations_are_those_done(tmp_path: Path) -> None:
    """A run that stopped at its bits has fewer than it was set, which labels and settings tell."""
    make_run(tmp_path / "a", 10, 0.01, iterations=150)
    runs = load_results(tmp_path / "a").runs
    assert summary_texts(runs, ["iterations"])[0] == ["iterations\ndone"]
    lines = table(runs, columns=["iterations"]).splitlines()
    assert (lines[0], lines[-1]) == ("| iterations done |", "| 150 |")


def test_unlike_quantities_have_columns_of_their_own(tmp_path: Path) -> None:
    cells = make_sweep(tmp_path, seeds=(0, 1))
    headings, rows, _ = summary_texts(runs_of(cells))
    assert not any("\n" in text for texts, _ in rows for text in texts)
    scores = [cell(10, 0.1, 0.4), cell(10, 0.1, 31.4, task="text", metric_name="perplexity")]
    headings, rows, _ = summary_texts(runs_of(scores))
    (names,) = [k for k, heading in enumerate(headings) if heading == "metric"]
    assert [texts[names] for texts, _ in rows] == ["accuracy", "perplexity"]
    losses = runs_of([cell(1, 1, 30.0), cell(10, 0.1, 31.4)]).assign(metric_name="perplexity")
    assert "vs dense" in summary_texts(losses)[0]  # points are of fractions


def test_text_is_no_markup_and_the_method_shows_p_as_a_variable() -> None:
    text = printed([cell(10, 0.1, 0.9, task="[bold]x[/bold]"), cell(10, 0.01, 0.9)], 100)
    assert "[bold]x[/bold]" in text and "sbc({p})" in text


def test_a_table_for_a_paper(tmp_path: Path) -> None:
    make_sweep(tmp_path, (10,), (0.01, 0.001))
    runs = load_results(tmp_path).runs
    lines = table(runs).splitlines()
    assert lines[0] == (
        "| method | n | p | p/n | accuracy | vs dense (points) | up (kbit) | up content (kbit) | "
        "down (Mbit) | down content (Mbit) | ratio up | ratio up content | ratio both | seconds |"
    )
    run = runs.iloc[1]
    points = 100 * (run["metric"] - runs["metric"].iloc[0])
    megabits = [f"{run[f'{name}_bits'] / 1e3:.3g}" for name in ("up_wire", "up_content")]
    start = ["sbc", "10", "0.01", "0.001", f"{run['metric']:.4f}", f"{points:+.2f}", *megabits]
    assert lines[3].startswith(f"| {' | '.join(start)} | 3.20 | ")
    assert lines[3].split(" | ")[-3] == "2207"  # the ratio, without an exponent
    latex = table(runs, "latex", ["label", "metric", "up_content_bits", "parameters"])
    assert r"method & accuracy & up content (kbit) & parameters \\" in table(
        runs[1:], "latex", ["label", "metric", "up_content_bits", "parameters"]
    )
    assert "{lrrr}" in latex and r"\_bits" not in latex


@pytest.mark.slow
def test_the_table_that_is_pasted_into_a_paper(tmp_path: Path) -> None:
    make_sweep(tmp_path, (1, 10), (0.1, 0.01), seeds=(0, 1), failed=[(10, 0.1)])
    report(tmp_path)
    text = (tmp_path / "summary.tex").read_text(encoding="utf-8")
    begin, end = text.index(r"\toprule"), text.index(r"\bottomrule")
    rows = [row.split(" & ") for row in text[begin:end].splitlines() if " & " in row]
    assert [len(row) for row in rows] == [7] * 5  # headings, dense, three cells: one failed
    bold = [row for row in rows if r"\textbf{" in " ".join(row)]
    runs = load_results(tmp_path).runs
    means = runs[~runs["dense"]].groupby(["temporal", "gradient"])["metric"].mean()
    n, p = means.idxmax()
    assert [row[1:3] for row in bold] == [[str(n), f"{p:g}"]]
    score = f"{means.max():.4f}"
    assert bold[0][3].startswith(rf"\textbf{{{score} $\pm$ ") and bold[0][3].endswith("(2)}")
    first = ("% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering")
    assert text.splitlines()[:3] == [*first] and text.endswith("\\end{table}\n")
    assert r"\label{tab:digits-sbc}" in text and "Bold: the best compressed cell." in text
    assert "200 local iterations of 4 clients, mean" in text
    report(tmp_path, columns=["label", "metric", "seconds"])
    chosen = (tmp_path / "summary.tex").read_text(encoding="utf-8")
    assert r"method & accuracy & seconds \\" in chosen


def test_a_table_leaves_out_what_all_rows_share(tmp_path: Path) -> None:
    make_sweep(tmp_path / "a", (10,), (0.1,), seeds=(0, 1), baseline=False, failed=[(1, 1)])
    head = table(load_results(tmp_path / "a").runs).splitlines()[0].split(" | ")
    assert not {"seed", "task", "status", "vs dense (points)"} & {*head}
    make_sweep(tmp_path / "b", (10,), (0.1, 0.01), failed=[(10, 0.1)])
    head = table(load_results(tmp_path / "b").runs).splitlines()[0]
    assert "status" in head and "seed" not in head
    make_run(tmp_path / "c", failed=True)
    assert "| failed |" in table(load_results(tmp_path / "c").runs)


def test_markdown(tmp_path: Path) -> None:
    runs = runs_of([make_run(tmp_path / "a", 10, 0.01)])
    lines = table(runs, columns=["method", "temporal", "total_sparsity", "metric"]).splitlines()
    assert lines[0] == "| method | n | p/n | accuracy |"
    assert lines[1] == "| --- | ---: | ---: | ---: |"
    method = r"ef(per_tensor(one_sided(0.01) \| mean \| golomb), mask=true)"
    assert lines[2] == f"| {method} | 10 | 0.001 | {runs['metric'][0]:.4f} |"


def test_latex_escapes_what_would_be_a_command() -> None:
    runs = runs_of([cell(1, 1, 0.5, task=r"50% of_a & b\c {$#}")])
    text = table(runs, "latex", ["task", "metric", "difference"])
    assert r"50\% of\_a \& b\textbackslash{}c \{\$\#\} & 0.5000 & dense \\" in text
    assert r"\begin{tabular}{lrr}" in text and text.count(r"\\") == 2


def test_a_run_that_a_folder_holds_twice_is_no_seed(tmp_path: Path) -> None:
    """It counts once, under the name that comes first."""
    make_sweep(tmp_path, (10,), (0.1,), seeds=(0, 1))
    make_run(tmp_path / "cells" / "again", 10, 0.1)
    runs = load_results(tmp_path).runs
    assert [*zip(runs["temporal"], runs["seed"], strict=True)] == [(1, 0), (1, 1), (10, 0), (10, 1)]


def test_without_a_reference_nothing_is_set_against_it(tmp_path: Path) -> None:
    cells = make_sweep(tmp_path, (10,), (0.1,), baseline=False)
    for width in (80, 200):
        text = printed(cells, width)
        assert "accuracy" in text and "vs dense" not in text


def test_a_long_method_is_broken_between_its_parts() -> None:
    full = {f"{way}_{kind}_bits": 8e8 for way in ("up", "down") for kind in ("wire", "content")}
    forms = ("per_tensor(sign(0.003))", TOPK.replace("{p}", "0.1"))
    cells = [cell(10, 0.1, 0.9, method=form, **full) for form in forms]
    lines = printed([cell(1, 1, 0.95), *cells], 64).splitlines()
    assert max(map(len, lines)) <= 64
    words = {line.split("  ")[0].split(" 10 ")[0].strip() for line in lines}
    assert {"per_tensor(", "sign(0.003))", "gradient_dropping"} <= words
    assert folded(TOPK, 22).splitlines() == ["ef(per_tensor(", "topk({p}) | float32 |", "golomb))"]
    assert folded(TOPK, 80) == TOPK and folded("a.0125", 2) == "a.\n0125"
    assert folded("sbc (lr = 0.1)", 8).splitlines() == ["sbc (lr", "= 0.1)"]


def test_csv_has_all_digits(tmp_path: Path) -> None:
    runs = runs_of([make_run(tmp_path / "a"), make_run(tmp_path / "b", failed=True)])
    (tmp_path / "t.csv").write_text(table(runs, "csv"))
    read = pd.read_csv(tmp_path / "t.csv")
    assert list(read.columns) == list(runs.columns)
    assert read["metric"][0] == runs["metric"][0] and pd.isna(read["metric"][1])


def test_bad_styles_and_columns_are_refused() -> None:
    runs = runs_of([cell(1, 1, 0.5)])
    with pytest.raises(UsageError, match="'docx'.*markdown, latex, html, csv"):
        table(runs, "docx")
    with pytest.raises(UsageError, match="columns has speed"):
        table(runs, columns=["metric", "speed"])


def test_ratios_are_told_in_three_digits() -> None:
    """20,000 bits dense over 8,000 and over 6,400 bits: 2.5 and 3.125."""
    done = cell(10, 0.1, 0.8, ratio_wire=2.5, ratio_content=3.125)
    shown = table(runs_of([done]), columns=["ratio_wire", "ratio_content"]).splitlines()
    assert shown[2] == "| 2.50 | 3.12 |"
    averaged = [done, done | {"seed": 1, "ratio_wire": 3.5}]
    assert table(runs_of(averaged), columns=["ratio_wire"]).splitlines()[2] == "| 3.00 |"
