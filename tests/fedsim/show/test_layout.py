"""Tables of every command on narrow terminals: a digit is never cut, a number never broken."""

import re

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from fedsim.commands import measuretables
from fedsim.commands.theory import _cell
from fedsim.measure.coders import choose_coders, measure_coders
from fedsim.measure.methods import measure
from fedsim.measure.theory.tables import THEORY_TABLES
from fedsim.show.layout import Column, folded, print_whole, terminal_table
from tests.support.commands import Typed
from tests.support.sweepmaker import TOPK

WIDTHS = (40, 60, 80, 120)


def lines_of(said: str, width: int) -> list[str]:
    """The lines of what was printed, which fit the terminal."""
    lines = said.splitlines()
    assert max(map(len, lines)) <= width, max(lines, key=len)
    return lines


def has(number: str, text: str) -> bool:
    """Whether a number stands there whole, with no digit of another beside it."""
    return re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.])", text) is not None


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", THEORY_TABLES)
def test_theory(name: str, width: int, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = lines_of(typed("theory", name).out, width)
    table = THEORY_TABLES[name]
    for row in table.rows(table.entries or 0):
        for value in row.values():
            ends = value if isinstance(value, list) else [value]
            for end in (end for end in ends if isinstance(end, int | float)):
                assert any(has(_cell(end), line) for line in lines), (row, end)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("what", ["tasks", "methods", "coders", "experiments"])
def test_lists(what: str, width: int, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    numbers = set(re.findall(r"\d[\d.]*\d|\d", typed("list", what).out))
    monkeypatch.setenv("COLUMNS", str(width))
    lines = lines_of(typed("list", what).out, width)
    assert all(any(number in line for line in lines) for number in numbers)


@pytest.mark.parametrize("width", WIDTHS)
def test_measured(width: int) -> None:
    update = {"w": torch.randn(30, 40, generator=torch.Generator().manual_seed(0))}
    frame = measure(update, f"sbc(0.01); {TOPK.replace('{p}', '0.0125')}; qsgd(1)", repeat=1)
    shown = measuretables.measured_table(frame, width)
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        print_whole(console, shown)
    lines = lines_of(capture.get(), width)
    for _, row in frame.iterrows():
        for value in (row["bits_per_entry"], row["compress_ms"], row["decompress_ns_per_entry"]):
            assert any(has(measuretables.three(value), line) for line in lines)
    assert any("0.0125" in line for line in lines)  # the number within a name that folds
    plan = choose_coders("golomb; ans")
    coders = measure_coders(update, "golomb; ans", repeat=1)
    with console.capture() as capture:
        print_whole(console, *measuretables.coders_tables(coders, plan, width))
    lines = lines_of(capture.get(), width)
    for value in coders["ratio_to_entropy"].dropna():
        assert any(has(measuretables.three(value, 4), line) for line in lines)


def test_measured_values_have_their_digits() -> None:
    assert [measuretables.three(x) for x in (0.44, 12.34, 4120.4)] == ["0.440", "12.3", "4120"]
    scores = [measuretables._score(x) for x in (0.25, 12345.6, 1e-6, 0.0, float("nan"))]
    assert scores == ["0.2500", "1.235e+04", "1.0e-06", "0", ""]


def test_a_name_folds_anywhere_but_within_a_number() -> None:
    assert folded("gradient_dropping(0.01)", 8).splitlines() == ["gradient", "_droppin", "g(0.01)"]
    assert folded("structured(1e-05)", 13).splitlines() == ["structured(", "1e-05)"]
    assert folded("abcdef0.0125", 8).splitlines() == ["abcdef", "0.0125"]


def test_a_wide_letter_takes_two_columns() -> None:
    rows = [(["稀疏二值压缩的方法", "12345678"], "")]
    for width in (40, 20):
        console = Console(width=width, color_system=None)
        with console.capture() as capture:
            print_whole(console, terminal_table([Column("方法", "name"), Column("n")], rows, width))
        lines = capture.get().splitlines()
        assert {cell_len(line) for line in lines} == {27 if width == 40 else 20}
        assert lines[2].endswith(" 12345678")


def test_columns_that_do_not_fit_go_below_and_too_wide_a_table_is_not_cropped() -> None:
    columns = [Column("method", "name"), *(Column(f"number {k}") for k in range(4))]
    rows = [(["sbc", *(f"{k}2345678" for k in range(4))], "")]
    for width, tables in ((60, 1), (24, 2), (10, 4)):
        layout = terminal_table(columns, rows, width)
        assert sum(isinstance(part, Table) for part in layout.renderables) == tables
        console = Console(width=width, color_system=None)
        with console.capture() as capture:
            print_whole(console, layout)
        assert all(f"{k}2345678" in capture.get() for k in range(4))
        assert capture.get().count("sbc") == tables
