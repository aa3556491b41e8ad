"""What a terminal, a program that starts fedsim, and the machine's settings hand on."""

import io
import logging
import signal
import threading
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import matplotlib
import pytest

from fedsim.commands.cli import main
from fedsim.engines.cluster import _folders
from fedsim.engines.flowerlog import flower_quiet
from fedsim.ground.children import forks_train
from fedsim.ground.sigchld import children_waited
from fedsim.show.report import report
from tests.support.sweepmaker import make_sweep


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_terminal_that_lacks_letters_is_sent_others(encoding: str) -> None:
    """An error there would make a run that is done exit code 1."""
    terminal = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    with redirect_stdout(terminal):
        assert main(["list", "networks"]) == 0
    terminal.flush()
    shown = terminal.buffer.getvalue().decode(encoding)  # type: ignore[attr-defined]
    assert "3G" in shown and terminal.errors == "strict"


def test_an_error_ends_lines_between_words_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file gets one line; a word that is longer than the terminal stays whole."""
    monkeypatch.setenv("COLUMNS", "40")
    shown = {}
    for is_terminal in (True, False):
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda answer=is_terminal: answer)
        with redirect_stderr(stream):
            assert main(["run", "--method", "sbcc", "--out", "x" * 60]) == 2
            assert main(["report", "x" * 60]) == 2
        shown[is_terminal] = stream.getvalue()
    assert shown[True].split() == shown[False].split()
    lines = shown[True].splitlines()
    assert len(lines) > len(shown[False].splitlines()) == 2
    assert all(len(line) <= 40 or " " not in line for line in lines)


@pytest.mark.slow
def test_figures_of_a_report_are_as_without_a_matplotlibrc(tmp_path: Path) -> None:
    """LaTeX, which the user's own file may ask for, may not be on this machine."""
    make_sweep(tmp_path)
    report(tmp_path)
    plain = (tmp_path / "matrix-metric.png").read_bytes()
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30, "savefig.bbox": "tight"}):
        report(tmp_path)
        assert matplotlib.rcParams["text.usetex"] and matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "matrix-metric.png").read_bytes() == plain


@pytest.fixture
def ignored() -> Any:
    """SIGCHLD ignored, as a program that starts fedsim may hand on."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGCHLD, before)


@pytest.mark.usefixtures("ignored")
def test_children_are_waited_for_where_sigchld_is_ignored() -> None:
    assert not forks_train()  # else the wait for one would be an error
    with children_waited():
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN


@pytest.mark.usefixtures("ignored")
def test_another_thread_leaves_signals_alone() -> None:
    seen = []

    def work() -> None:
        with children_waited():
            seen.append(signal.getsignal(signal.SIGCHLD))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_IGN]


@pytest.mark.parametrize("name", ["TMPDIR", "RAY_TMPDIR"])
def test_ray_s_sockets_have_short_paths(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Of 107 bytes that a socket's path may have; what is large stays in the folder of the job."""
    for other in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.delenv(other, raising=False)
    assert _folders() == {}
    monkeypatch.setenv(name, "/scratch")
    assert _folders() == {}
    long = "/scratch/jobs/" + "0" * 60
    monkeypatch.setenv(name, long)
    folders = _folders()
    session = "session_2026-11-28_07-45-30_123456_4194304/sockets/plasma_store"
    assert len(f"{folders['_temp_dir']}/{session}") <= 107
    assert folders["object_spilling_directory"] == long


def test_flower_s_logger_keeps_its_level() -> None:
    log = logging.getLogger("flwr")
    before = log.level, [*log.filters]
    with flower_quiet(), flower_quiet(logging.CRITICAL):
        assert log.level == before[0]
        assert not log.filter(log.makeRecord("flwr", logging.ERROR, "", 0, "told", (), None))
    assert (log.level, [*log.filters]) == before
