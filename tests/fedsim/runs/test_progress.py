"""What is seen while runs go on."""

import io
import math
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from numba import njit
from rich.console import Console

from fedsim import Callback, RunConfig, SweepConfig, UsageError, run, sweep
from fedsim.ground.compiling import COMPILING
from fedsim.ground.units import bits
from fedsim.runs import app
from fedsim.runs.progress import Bars, Lines, Tally, reporter_of, short_rounds
from tests.support.commands import SMALL, Typed, document, no_page
from tests.support.runs import small

pytestmark = pytest.mark.usefixtures(no_page.__name__)


def row(number: int, metric: float = math.nan, up_bits: float = 0.0) -> dict[str, Any]:
    return {"round": number, "metric": metric, "up_bits": up_bits}


def test_a_log_gets_a_line_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars({"n1": 2, "n2": 1}, "accuracy") as bars:
        bars("n1", row(1, 0.5, 1000))
        assert capsys.readouterr().err == ""
        bars("n1", row(2, 0.98765, 13_800_000))
        assert capsys.readouterr().err == "n1: accuracy 0.9877, 13.8 Mbit up\n"
        bars.say("a folder [red]")
        assert capsys.readouterr().err == "a folder [red]\n"
        bars("n2", row(1, 0.1, 812))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "n2: accuracy 0.1, 812 bit up\n")


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars({"n1": 1}, "accuracy", quiet=True) as bars:
        bars("n1", row(1, 0.5, 1000))
    assert capsys.readouterr() == ("", "")


def test_kernels_that_are_compiled_are_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (njit(lambda x, by=by: x + by) for by in (1, 2))
    with Bars({"n1": 1}, "accuracy"):
        assert capsys.readouterr().err == ""
        first(3)
        assert capsys.readouterr().err == f"{COMPILING}\n"
        second(3)
    first(3.0)  # compiled again, behind the bars
    with Bars({"n1": 1}, "accuracy", quiet=True):
        second(3.0)
    with Bars({"n1": 1}, "accuracy"):
        first(3)  # which is there
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_a_last_round_with_fewer_iterations_is_told(typed: Typed) -> None:
    run = ("run", "--method", "raw", "--temporal", "7", "--iterations", "20")
    told = "the last round has 6 of 7 iterations: --iterations 21 makes it whole\n"
    said = typed(*run, "--out", "one")
    assert said.code == 0 and said.err.startswith(told) and "last round" not in said.out
    said = typed(*run, "--out", "two", "--json")
    assert said.code == 0 and said.err == "" and document(said.out)["iterations"] == 20
    grid = ("sweep", *SMALL, "--method", "raw", "--temporal", "6,7", "--no-baseline")
    said = typed(*grid)
    told = "the last round has 2 of 6, 6 of 7 iterations: --iterations 42 makes it whole\n"
    assert said.code == 0 and said.err.startswith(told) and said.err.count("last round") == 1
    assert "last round" not in typed(*grid).err  # nothing is run again


def test_a_last_round_is_short_where_nothing_else_ends_the_run() -> None:
    sevens = {"temporal": 7, "iterations": 20}
    assert short_rounds([RunConfig(temporal=5, iterations=20)]) == ""
    assert short_rounds([RunConfig(**sevens, stop_at_bits=1e6)]) == ""
    assert short_rounds([RunConfig(**sevens, controller="delay_first")]) == ""
    told = "the last round has 6 of 7 iterations: --iterations 21 makes it whole"
    assert short_rounds([RunConfig(**sevens, method="sbc", controller="warmup(2)")]) == told
    longer = RunConfig(temporal=10, iterations=30)
    assert short_rounds([longer, RunConfig(**sevens)]) == told.replace("21", "70")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal is sent."""
    text = io.StringIO()

    def console(stderr: bool, quiet: bool) -> Console:
        return Console(file=text, force_terminal=True, width=100, quiet=quiet, color_system=None)

    monkeypatch.setattr("fedsim.runs.progress.Console", console)
    return text


def test_a_terminal_sees_rounds_metric_and_bits(screen: io.StringIO) -> None:
    with Bars({"n10-p0.01-s0": 20}, "accuracy") as bars:
        bars("n10-p0.01-s0", row(7, 0.25, 1500))
        bars("n10-p0.01-s0", row(8, math.nan, 3000))  # not evaluated: the last score stays
    last = screen.getvalue()
    for word in ("n10-p0.01-s0", "8/20", "rounds", "accuracy 0.25", "3.00 kbit up"):
        assert word in last


def test_runs_that_are_over_are_lines_above_the_bars(screen: io.StringIO) -> None:
    """Thirty runs, two at once: three bars at most, the first of them for all."""
    names = [f"n{number}" for number in range(30)]
    with Bars(dict.fromkeys(names, 3), "accuracy") as bars:
        for first, second in zip(names[::2], names[1::2], strict=True):
            for number in (1, 2, 3):
                bars(first, row(number, 0.5))
                bars(second, row(number, 0.6))
            assert len(bars._bars.tasks) <= 3
        screen.truncate(0)
        bars._bars.refresh()
        assert "30 of 30 runs" in screen.getvalue() and "rounds" not in screen.getvalue()


def test_a_log_hears_once_a_minute(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round of 40 s: lines after 80, 160 and 240 s, and one for a run that is over."""
    clock = [0.0]
    monkeypatch.setattr("fedsim.runs.progress.time.monotonic", lambda: clock[0])
    with Bars({"n1": 7, "n2": 7}, "accuracy") as bars:
        for number in range(1, 8):
            clock[0] = 40.0 * number
            bars("n1", row(number, 0.5, 1000))
        bars("n2", row(3, 0.5, 1000) | {"last": True})
    assert capsys.readouterr().err.splitlines() == [
        "0 of 2 runs, 2 of 14 rounds, about 8.00 min left",
        "0 of 2 runs, 4 of 14 rounds, about 6.67 min left",
        "0 of 2 runs, 6 of 14 rounds, about 5.33 min left",
        "n1: accuracy 0.5, 1.00 kbit up",
        "n2: accuracy 0.5, 1.00 kbit up, 3 of 7 rounds",
    ]


def test_runs_of_a_folder_are_not_waited_for(tmp_path: Path) -> None:
    """Of a sweep that is done but for one cell, one run is to come."""
    grid = SweepConfig(small(iterations=5), (1, 5), (), baseline=False)
    sweep(grid, tmp_path)
    rmtree(tmp_path / "cells" / "n1-p0.05-s0")
    with Bars({cell.name: 9 for cell in grid.cells()}, "accuracy", quiet=True) as bars:
        sweep(grid, tmp_path, progress=bars)
    assert bars._tally.runs == "1 of 1 runs"


class Output:
    """What a notebook shows of one output, as it was written anew."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def display(self, data: dict[str, str], raw: bool, display_id: bool) -> "Output":
        assert raw and display_id
        return self

    def update(self, data: dict[str, str], raw: bool) -> None:
        self.texts.append(data["text/plain"])


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Output:
    output = Output()
    monkeypatch.setattr("IPython.display.display", output.display)
    jupyter = lambda stderr: Console(force_jupyter=True)  # noqa: E731
    monkeypatch.setattr("fedsim.runs.progress.Console", jupyter)
    return output


def test_a_notebook_sees_a_run(notebook: Output, tmp_path: Path) -> None:
    summary = run(small(), tmp_path).summary
    score = f"accuracy {summary['metric']:.4g} · {bits(summary['up_wire_bits'])} up"
    assert notebook.texts[-1] == f"n5-p0.05-s0: 4/4 rounds · {score}"


def test_an_estimate_leaves_out_the_first_round() -> None:
    tally = Tally({"n1": 3}, "accuracy")
    tally.book("n1", row(1))
    assert tally.left == ""
    tally.book("n1", row(2))
    assert tally.left.startswith("about ") and tally.left.endswith(" left")


def test_a_notebook_sees_a_sweep(notebook: Output, tmp_path: Path) -> None:
    with reporter_of(True, {"n1": 2, "n2": 1}, "accuracy") as told:
        assert isinstance(told, Lines)
        told("n1", row(1, 0.5, 1000))
        head, line = notebook.texts[0].split("\n")
        assert head == "0 of 2 runs done"  # kernels may have been compiled in this round
        assert line == "n1: 1/2 rounds · accuracy 0.5 · 1.00 kbit up"
        told("n1", row(2))
        told("n2", row(1, 0.25, 812))
    assert notebook.texts[-1] == "2 of 2 runs done"


def test_python_shows_a_run_on_a_terminal_alone(
    screen: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminal(stderr: bool, quiet: bool = False) -> Console:
        return Console(file=screen, force_terminal=True, width=100, color_system=None)

    monkeypatch.setattr("fedsim.runs.progress.Console", terminal)
    run(small(), tmp_path / "seen")
    assert "4/4 rounds" in screen.getvalue() and "n5-p0.05-s0" in screen.getvalue()
    screen.truncate(0)
    run(small(seed=1), tmp_path / "unseen", progress=False, callbacks=[lambda row: None])
    assert screen.getvalue().strip("\x00") == ""
    with pytest.raises(UsageError, match=r"progress is .*: give a function as callbacks=\[...\]"):
        run(small(), tmp_path / "never", lambda row: None)
    with pytest.raises(UsageError, match=r"callbacks is .*: give a list, callbacks=\[...\]"):
        run(small(), tmp_path / "never", callbacks=print)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="callbacks: <class .*> is neither a fedsim.Callback nor"):
        run(small(), tmp_path / "never", callbacks=[Callback])


def test_those_who_follow_a_flower_app_see_evaluations(capsys: pytest.CaptureFixture[str]) -> None:
    config = small(evaluate_every=2)
    app._EvaluationLines(config).round(row(1, math.nan, 1000))
    app._EvaluationLines(config).evaluation(row(2, 0.5, 1000))
    assert capsys.readouterr().out == "round 2/4 · accuracy 0.5 · 1.00 kbit up\n"
