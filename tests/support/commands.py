"""Commands as a user types them, in this process."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fedsim.commands.cli import main
from fedsim.show import report

SMALL = ("--iterations", "20", "--evaluate-every", "2", "--jobs", "1")
"""A sweep of cells that take a fifth of a second."""


@dataclass(frozen=True)
class Said:
    """How a command ended and what it printed."""

    code: int | str | None
    out: str
    err: str


class Typed:
    """``typed("sweep", "--temporal", "10")`` runs a command and returns what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *arguments: str | Path) -> Said:
        self.capsys.readouterr()
        code: int | str | None
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as end:  # argparse
            code = end.code
        said = self.capsys.readouterr()
        return Said(code, said.out, said.err)


def lacking(page: str) -> list[str]:
    """What a page of help has no sentence on: its command (the page's head), flags."""
    head, paragraph, *groups = page.split("\n\n")
    flags = re.findall(r"^  \S.*(?:\n {4,}.*)*", "\n".join(groups), flags=re.MULTILINE)
    lacks = [flag for flag in flags if not re.search(r"\S( {2,}|\n {4,})\S", flag)]
    return lacks if paragraph[0].isupper() else [head, *lacks]


@pytest.fixture
def typed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Typed:
    """Commands typed in an empty folder, without a data folder of the user's."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    return Typed(capsys)


@pytest.fixture
def no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures and page take seconds: without them, where they are not looked at."""
    monkeypatch.setattr(
        report, "written_page", lambda _, folder, *more: Path(folder) / "report.html"
    )


def files(folder: Path) -> dict[str, int]:
    """Every file below a folder, with the instant at which it was written."""
    return {
        str(f.relative_to(folder)): f.stat().st_mtime_ns for f in folder.rglob("*") if f.is_file()
    }


def document(text: str) -> Any:
    """The JSON document that a command printed, in one line; the standard has no NaN."""
    assert text.endswith("\n") and text.count("\n") == 1
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def refused(said: Said, *parts: str) -> None:
    """The command ended with code 2 and one or two lines on stderr that hold ``parts``."""
    assert said.code == 2, said
    assert said.out == ""
    lines = said.err.splitlines()
    assert 1 <= len(lines) <= 2, said.err
    assert "Traceback" not in said.err
    for part in parts:
        assert part in said.err, said.err
