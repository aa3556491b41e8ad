"""A file of code that only settings name is not executed, whatever file has them."""

from pathlib import Path

import pytest

from fedsim import UsageError
from fedsim.commands.cli import main
from fedsim.settings import cellfile, config, grids
from fedsim.settings.trust_check import check_trust, origins
from tests.support.commands import Typed

CODE = "from pathlib import Path\nPath('executed').touch()\n"
RUN, GRID = 'task = "mine.py:TASK"\n', 'task = "mine.py:TASK"\ntemporal = [1, 2]\n'
CELLS = f'method = "raw"\n[cells.one]\n{RUN}'
RULE = 'strategy = "mine.py:Rule(0.5)"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of a stranger's, with a file that says when it is executed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


def executed() -> bool:
    return Path("executed").exists()


@pytest.mark.parametrize(
    ("file", "text", "command", "place"),
    [
        ("config.toml", RUN, "run", "mine.py:TASK"),
        ("best.toml", RULE, "run", "mine.py:Rule(0.5)"),
        ("runs.toml", CELLS, "sweep", "mine.py:TASK"),
        ("sweep.toml", GRID, "sweep", "mine.py:TASK"),
        ("config.toml", RUN, "deploy", "mine.py:TASK"),
    ],
)
def test_a_command_does_not_execute_what_its_config_names(
    file: str,
    text: str,
    command: str,
    place: str,
    folder: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    Path(file).write_text(text)
    said = typed(command, "--config", file, "--out", "out")
    assert said.code == 2 and not executed()
    assert file in said.err and f"--own {place}" in said.err


@pytest.mark.parametrize("flag", ["--own", "--task", "--strategy", "--rows"])
def test_it_is_executed_where_the_command_line_names_the_same_file(
    flag: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There is no TASK in it, which is said after it has been executed."""
    Path("config.toml").write_text(RUN)
    place = {"--rows": "mine.py", "--strategy": "./mine.py:Rule"}.get(flag, "./mine.py:TASK")
    before = [flag, place] if flag == "--rows" else []
    after = [] if before else [flag, place]
    assert main([*before, "run", "--config", "config.toml", *after, "--out", "out"]) == 2
    assert executed() and "--own" not in capsys.readouterr().err


def test_a_flag_that_takes_its_place_executes_nothing(folder: Path) -> None:
    Path("config.toml").write_text(RUN + "iterations = 1\ntemporal = 1\n")
    assert main(["run", "--config", "config.toml", "--task", "other.py:TASK"]) == 2
    assert not executed()


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (config.from_toml, RUN),
        (config.from_toml, RULE),
        (grids.sweep_from_toml, GRID),
        (grids.sweep_from_toml, '[vary]\nstrategy = ["dsgd", "mine.py:Rule"]\n'),
        (cellfile.cells_from_toml, CELLS),
    ],
)
def test_python_executes_it_with_trust_code_alone(read: object, text: str, folder: Path) -> None:
    assert callable(read)
    Path("a.toml").write_text(text)
    with pytest.raises(UsageError, match=r"a\.toml.*mine\.py.*--own.*trust_code=True"):
        read(Path("a.toml"))
    assert not executed()
    with pytest.raises(UsageError, match="mine.py"):  # there is no TASK in it
        made = read(Path("a.toml"), trust_code=True)
        made.cells()  # of a grid, which reads what is varied here
    assert executed()


def test_a_module_is_code_too(folder: Path) -> None:
    with pytest.raises(UsageError, match="--own this:s"):
        check_trust({"task": "this:s"}, "config.toml", ["mine.py:TASK"])
    check_trust({"task": "this:s"}, "config.toml", ["this:other"])


def test_a_folder_of_rows_is_its_files(folder: Path) -> None:
    Path("rows").mkdir()
    Path("rows", "one.py").touch()
    assert origins(["rows"]) == {str(folder / "rows" / "one.py")}
