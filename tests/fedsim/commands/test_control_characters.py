"""What a stranger's folder, label or client says reaches the terminal as text."""

import shutil
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from fedsim.commands.cli import main
from fedsim.show.layout import Column, terminal_table

CLEAR, SHOWN = "\x1b[2J", "\\x1b[2J"


def test_a_strangers_results_are_shown_as_text(
    finished: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / f"results{CLEAR}[/red]"
    shutil.copytree(finished, folder)
    file = folder / "config.toml"
    file.write_text('label = "mine\\u001b[2J"\n' + file.read_text(encoding="utf-8"))
    assert main(["report", str(folder)]) == 0
    told = "".join(capfd.readouterr())
    assert "\x1b" not in told and f"results{SHOWN}[/red]" in told and "mine" in told


def test_an_error_names_a_folder_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", f"no{CLEAR}where"]) == 2
    told = "".join(capfd.readouterr())
    assert "\x1b" not in told and f"no{SHOWN}where" in told


def test_an_unknown_word_is_told_as_text(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", f"--task={CLEAR}", f"--{CLEAR}"])
    assert "\x1b" not in "".join(capfd.readouterr())


def test_a_cell_of_a_table_is_text() -> None:
    console = Console(width=60, record=True, file=StringIO())
    console.print(
        terminal_table([Column("a", "name")], [([f"x{CLEAR}"], "")], 60, title=f"t{CLEAR}")
    )
    told = console.export_text(styles=True)
    assert SHOWN in told and CLEAR not in told
