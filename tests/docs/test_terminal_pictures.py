"""Pictures of the terminal in docs/terminal: small, shown, and of what commands print today."""

import io
import re
import runpy
import shlex
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from fedsim.commands.cli import main
from tests.support.markdown import ROOT, links

MADE: dict[str, Any] = runpy.run_path(str(ROOT / "docs" / "make_terminal.py"))
FILES: Path = MADE["PICTURES"]
_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_NUMBERS = re.compile(r"[×+-]?\d[\d.:]*|\b(ms|s|min|h|kbit|Mbit)\b|[━─]+")


def printed(command: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of a command in a terminal that are not empty, the command itself first."""
    monkeypatch.setenv("COLUMNS", str(columns))
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    with redirect_stdout(screen), redirect_stderr(screen), suppress(SystemExit):
        main(shlex.split(command)[1:])
    lines = [f"$ {command}", *screen.getvalue().splitlines(), "$"]
    return [line.rstrip() for line in lines if line.strip()]


def test_every_picture_is_shown_and_small_and_loads_nothing() -> None:
    shown = {link for link in links(ROOT / "docs" / "gallery.md") if link.startswith("terminal/")}
    assert shown == {f"terminal/{name}.svg" for name in MADE["PICTURES_OF"]}
    assert shown == {f"terminal/{file.name}" for file in FILES.iterdir()}
    for file in FILES.iterdir():
        text = file.read_text(encoding="utf-8")
        assert len(text) < 50_000 and "url(http" not in text and "@font-face" not in text


@pytest.mark.parametrize("name", ["help", "error"])
def test_a_picture_has_the_lines_that_the_command_prints(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = MADE["PICTURES_OF"][name]
    lines = MADE["text_of"](FILES / f"{name}.svg")
    assert lines == printed(picture.command, picture.columns, monkeypatch)[-len(lines) :]


def words(lines: list[str]) -> list[str]:
    """The words below the progress, without numbers, units and colours."""
    first = next((k for k, line in enumerate(lines) if line.startswith("digits: sbc")), 0)
    return _NUMBERS.sub("", " ".join(lines[first:])).split()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dry-run", "sweep"])
def test_a_picture_has_today_s_words(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Times differ, and on other processors last digits."""
    monkeypatch.chdir(tmp_path)
    picture = MADE["PICTURES_OF"][name]
    now = [_CODE.sub("", line) for line in printed(picture.command, picture.columns, monkeypatch)]
    assert words(MADE["text_of"](FILES / f"{name}.svg")) == words(now)
