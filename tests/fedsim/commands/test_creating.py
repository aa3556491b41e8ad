"""``fedsim new`` writes what runs as it is, and nothing over what is there."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedsim.commands.new import NEXT
from tests.support.commands import Typed, refused

ROOT = Path(__file__).parents[3]
ONE_FILE = tuple(kind for kind in NEXT if kind != "app")


@pytest.mark.parametrize("kind", NEXT)
def test_it_is_written_once(
    kind: str, typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = typed("new", kind, "mine")
    assert (said.code, said.err) == (0, "")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    told = said.out.split("\nnext")[0].split()
    assert sorted(str(path.relative_to(tmp_path)) for path in files) == sorted(told)
    for path in files:
        assert "NAME" not in path.read_text()
        if path.suffix == ".py":
            compile(path.read_text(), path.name, "exec")
    refused(typed("new", kind, "mine"), "'mine'", "is there")


@pytest.mark.parametrize("name", ["two words", "1st", "class", "a-b", "../up"])
def test_a_name_of_python(name: str, typed: Typed, tmp_path: Path) -> None:
    refused(typed("new", "task", name), repr(name), "letters, digits")


def test_the_app_is_that_of_the_examples(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    typed("new", "app", "quickstart")
    example = ROOT / "examples" / "quickstart-sbc"
    for path in (tmp_path / "quickstart").rglob("*.*"):
        assert path.read_text() == (example / path.relative_to(tmp_path / "quickstart")).read_text()


@pytest.mark.slow
@pytest.mark.processes
def test_their_own_tests_pass(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in ONE_FILE:
        typed("new", kind, f"my_{kind}")
    files = [f"test_my_{kind}.py" for kind in ONE_FILE]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
