"""What is seen while runs go on."""

import io
import math
from typing import Any

import pytest
from rich.console import Console

from fedsim.progress import Bars


def row(number: int, metric: float = math.nan, up_bits: float = 0.0) -> dict[str, Any]:
    return {"round": number, "metric": metric, "up_bits": up_bits}


def test_a_log_gets_a_line_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars({"n1": 2, "n2": 1}, "accuracy") as bars:
        bars("n1", row(1, 0.5, 1000))
        assert capsys.readouterr().err == ""
        bars("n1", row(2, 0.98765, 13_800_000))
        assert capsys.readouterr().err == "n1: accuracy 0.9877, 13.8 Mbit up\n"
        bars("n2", row(1, 0.1, 812))
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "n2: accuracy 0.1, 812 bit up\n")


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with Bars({"n1": 1}, "accuracy", quiet=True) as bars:
        bars("n1", row(1, 0.5, 1000))
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal is sent."""
    text = io.StringIO()

    def console(stderr: bool, quiet: bool) -> Console:
        return Console(file=text, force_terminal=True, width=100, quiet=quiet, color_system=None)

    monkeypatch.setattr("fedsim.progress.Console", console)
    return text


def test_a_terminal_sees_rounds_metric_and_bits(screen: io.StringIO) -> None:
    with Bars({"n10-p0.01-s0": 20}, "accuracy") as bars:
        bars("n10-p0.01-s0", row(7, 0.25, 1500))
        bars("n10-p0.01-s0", row(8, math.nan, 3000))  # not evaluated: the last score stays
    last = screen.getvalue()
    for word in ("n10-p0.01-s0", "8/20", "rounds", "accuracy 0.25", "3.00 kbit up"):
        assert word in last


def test_before_the_first_round_it_says_that_it_starts(screen: io.StringIO) -> None:
    with Bars({"n1": 20}, "accuracy") as bars:
        bars._bars.refresh()
        assert "starting" in screen.getvalue()
        bars("n1", row(1))
        screen.truncate(0)
        bars._bars.refresh()
        assert "starting" not in screen.getvalue() and "1/20 rounds" in screen.getvalue()


def test_before_the_first_score(screen: io.StringIO) -> None:
    with Bars({"n1": 20}, "accuracy") as bars:
        bars("n1", row(1))
    assert "accuracy –" in screen.getvalue()


def test_a_run_has_one_bar(screen: io.StringIO) -> None:
    with Bars({"n1": 3, "n2": 3}, "accuracy") as bars:
        for number in (1, 2, 3):
            bars("n1", row(number, 0.5))
            bars("n2", row(number, 0.6))
        screen.truncate(0)
        bars._bars.refresh()
        assert screen.getvalue().count("3/3") == 2
