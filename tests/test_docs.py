"""What the pages say is true: their commands run, their Python runs, their links lead somewhere."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from fedsim.commands.cli import parser
from tests.support.commands import Typed, no_page
from tests.support.forked import Forks
from tests.support.looping import looped
from tests.support.markdown import PAGES, ROOT, Block, blocks, links
from tests.support.realdata import folder_with

__all__ = ["no_page"]  # the fixture

README = ROOT / "README.md"
COMMAND = re.compile(r"^(?:\S*/)?(?:python -m )?fedsim (.+)$")
GIVEN = {"docs/flower.md": "import torch\n"}
"""What the text above a page's Python takes for granted."""


def commands(page: Path) -> list[list[str]]:
    """The arguments of every fedsim command of a page, in order."""
    shell = [b for b in blocks(page) if b.language in ("sh", "")]
    found = (COMMAND.match(line) for block in shell for line in block.lines)
    return [shlex.split(match[1], comments=True) for match in found if match]


def shortened(arguments: list[str]) -> list[str]:
    """The same command for fewer iterations, over at most two n and two p, with three seeds."""
    if arguments[0] in ("run", "sweep"):
        few = [*arguments]
        for flag in {"--temporal", "--gradient"} & {*few}:
            place = few.index(flag) + 1
            few[place] = ",".join(few[place].split(",")[:2])
        if "--seeds" in few:
            place = few.index("--seeds") + 1
            few[place] = str(min(3, int(few[place])))
        if {"--local-epochs", "--local-seconds"} & {*few}:
            few[few.index("--rounds") + 1] = "2"
            return [*few, "--evaluate-every", "50"]
        counts = few[few.index("--temporal") + 1] if "--temporal" in few else "10"
        longest = max(20, *(int(n) for n in counts.split(",")))
        return [*few, "--iterations", str(longest), "--evaluate-every", "50"]
    if arguments[0] == "search":
        goal = [
            word
            for flag in ("--budget", "--target")
            if flag in arguments
            for word in (flag, arguments[arguments.index(flag) + 1])
        ]
        few = ["--trials", "2", "--seeds", "1", "--methods", "sbc, stc", "--iterations", "20"]
        return ["search", "--task", "digits", *goal, *few]
    if arguments[0] == "experiment":
        return [*arguments, "--scale", "smoke"]
    return arguments


def named(text: str, folder: Path) -> str:
    """With the folder of results that was made last for NAME."""
    if "NAME" not in text:
        return text
    made = sorted((folder / "fedsim-results").iterdir(), key=lambda f: f.stat().st_mtime)
    return text.replace("NAME", made[-1].name)


def environment() -> dict[str, str]:
    """The variables of a user without a data folder."""
    variables = os.environ | {"PYTHONPATH": str(ROOT)}
    variables.pop("FEDSIM_DATA", None)
    return variables


def start(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=900,
    )


@pytest.fixture
def here(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Typed:
    """Commands typed in that folder, run in this process."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FEDSIM_DATA", raising=False)
    return Typed(capsys)


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Processes that need not import torch and fedsim again."""
    with Forks(tmp_path_factory.mktemp("forks"), environment()) as process:
        yield process


def alone(given: list[str]) -> list[str]:
    """A sweep without Ray: another test runs with it."""
    return ["--jobs", "1"] if given[0] == "sweep" and "--jobs" not in given else []


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a user works through the pages."""
    return prepared(tmp_path_factory.mktemp("user"))


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a user does so who waits: results of shortened commands would be in the way."""
    return prepared(tmp_path_factory.mktemp("patient"))


def prepared(made: Path) -> Path:
    """A folder with the files that the pages take for given."""
    values = np.random.default_rng(0).normal(size=500).astype("float32")
    np.save(made / "update.npy", values)
    save_file({"w": values.reshape(20, 25), "b": values[:20]}, made / "update.safetensors")
    own = next(b for b in blocks(ROOT / "docs" / "own-task.md") if b.language == "python")
    (made / "spirals.py").write_text(own.text.split("result = ")[0])
    films = next(b for b in blocks(ROOT / "docs" / "batches.md") if b.language == "python")
    (made / "films.py").write_text(films.text)
    sampler = next(b for b in blocks(ROOT / "docs" / "samplers.md") if b.language == "python")
    (made / "rested.py").write_text(sampler.text)
    page = blocks(ROOT / "docs" / "own-strategy.md")
    (made / "mine.py").write_text("".join(b.text for b in page if b.language == "python"))
    return made


# The recipes of CONTRIBUTING have a NAME to be filled in; tests/test_recipes.py follows them.
# A command that several pages show, or that differs in its length alone, is run for the first;
# README's are run in order.
_TYPED = [(p.name, c) for p in PAGES if p.name != "CONTRIBUTING.md" for c in commands(p)]
COMMANDS = [
    (page, " ".join(c), c)
    for i, (page, c) in enumerate(_TYPED)
    if shortened(c) not in [shortened(before) for _, before in _TYPED[:i]]
]


def test_there_are_commands_to_be_run() -> None:
    assert len(COMMANDS) >= 10
    known = {c[0] for _, _, c in COMMANDS}
    assert known >= {"search", "sweep", "run", "report", "list", "compress"}


DEEPER = sorted([*ROOT.glob("experiments/*/README.md"), ROOT / "benchmarks" / "README.md"])
"""Pages whose commands take hours: that the program takes them is what is checked."""


@pytest.mark.parametrize("page", DEEPER, ids=lambda p: p.parent.name)
def test_commands_of_experiments_are_taken(page: Path) -> None:
    for given in commands(page):
        parser().parse_args(given)


def is_long(arguments: list[str]) -> bool:
    """Whether a command starts programs that other tests start as well: Ray, a deployment."""
    return arguments[0] == "deploy" or "--engine" in arguments or "--jobs" in arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(
            c, id=f"{p}: {t[:60]}", marks=[pytest.mark.proof] if is_long(shortened(c)) else []
        )
        for p, t, c in COMMANDS
        if p != README.name
    ],
)
def test_command(
    arguments: list[str], folder: Path, here: Typed, request: pytest.FixtureRequest
) -> None:
    """The pages of sweeps are those of the commands ``report``, and of README's."""
    if arguments[0] == "sweep":
        request.getfixturevalue(no_page.__name__)
    given = [named(argument, folder) for argument in shortened(arguments)]
    if "cuda" in given and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    if "DIR" in given:  # Table II, on MNIST
        given[given.index("DIR")] = str(folder_with("MNIST"))
    if is_long(given):
        done = start(folder, "-m", "fedsim", *given)
        code, told = done.returncode, done.stderr
    else:  # imports and Ray's start take longer than what is asked
        code, _, told = astuple(here(*given, *alone(given)))
    assert not code, told
    assert "Traceback" not in told
    for flag in ("-o", "--out"):
        if flag in arguments:
            assert (folder / arguments[arguments.index(flag) + 1]).exists()


def checkout(folder: Path) -> Path:
    """A folder with what `make demo` reads, in which this environment is the installed one."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder / name)
    environment = folder / ".venv"
    environment.mkdir()
    for path in Path(sys.prefix).iterdir():
        (environment / path.name).unlink(missing_ok=True)
        (environment / path.name).symlink_to(path)
    for mark in ("installed", "installed-dev"):
        (environment / mark).unlink(missing_ok=True)
        (environment / mark).touch()
    return folder


def typed_by_a_newcomer(line: str) -> str:
    """A line of the README; a command of fedsim without Ray and over less data."""
    match = COMMAND.match(line)
    if not match:
        return line
    program, given = line.removesuffix(match[1]), shortened(shlex.split(match[1], comments=True))
    return program + shlex.join([*given, *alone(given)])


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.skipif(
    not (Path(sys.prefix) / "bin" / "activate").exists(), reason="no virtual environment"
)
def test_readme_in_order(tmp_path: Path) -> None:
    """In one shell that knows the system's programs alone: what README says puts fedsim there."""
    shell = [b for b in blocks(README) if b.language == "sh"]
    typed = [typed_by_a_newcomer(line) for block in shell for line in block.lines]
    assert typed[:2] == ["make demo", ". .venv/bin/activate"]
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(typed)],
        cwd=checkout(tmp_path),
        capture_output=True,
        text=True,
        env={"PATH": os.defpath, "HOME": str(tmp_path)},
        timeout=900,
    )
    assert not done.returncode, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert (tmp_path / "plane" / "report.html").exists()
    assert list(tmp_path.glob("fedsim-results/*search*/best.toml"))


@looped("page", PAGES)
def test_pages_write_the_command_in_one_form(page: Path) -> None:
    """As the activated environment has it; README and the first steps name the other form once."""
    if page.name == "CHANGELOG.md":
        return
    other = re.findall(r"python -m fedsim(?![.\w])", page.read_text(encoding="utf-8"))
    assert len(other) == (page.name in ("README.md", "first-steps.md"))


@pytest.mark.proof
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(c, id=t[:80])
        for _, t, c in COMMANDS
        if c[0] in ("run", "sweep", "deploy") or "--dry-run" in c  # which writes what others read
    ],
)
def test_command_at_full_length(arguments: list[str], patient: Path) -> None:
    done = start(patient, "-m", "fedsim", *(named(argument, patient) for argument in arguments))
    assert not done.returncode, done.stderr
    assert "Traceback" not in done.stderr


ONE_SCRIPT = {"docs/message.md", "docs/own-compressor.md", "docs/own-strategy.md"}
"""Pages whose Python goes on from block to block."""


def scripts(page: Path) -> list[Block]:
    """The Python of a page: each block by itself, or all of them as one."""
    found = [b for b in blocks(page) if b.language == "python"]
    if found and found[0].page in ONE_SCRIPT:
        return [Block(found[0].page, "python", "\n".join(b.text for b in found))]
    return [] if page.name == "CONTRIBUTING.md" else found


PYTHON = [script for page in PAGES for script in scripts(page)]


SWEEPS_ON_RAY = {"docs/own-compressor.md", "docs/own-task.md"}
"""Pages whose Python starts a sweep of two jobs."""


@pytest.mark.slow
@pytest.mark.processes
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(b, id=b.page, marks=[pytest.mark.proof] if b.page in SWEEPS_ON_RAY else [])
        for b in PYTHON
    ],
)
def test_python(block: Block, folder: Path, forks: Forks) -> None:
    code = GIVEN.get(block.page, "") + named(block.text, folder)
    code = re.sub(r"SweepConfig\.of\((?![^)]*iterations=)", "SweepConfig.of(iterations=50, ", code)
    done = forks.run(code, folder)
    assert done.returncode == 0, done.output


@looped("block", PYTHON)
def test_tables_are_printed_whole(block: Block) -> None:
    """pandas leaves out the middle columns of a frame that is wider than the terminal."""
    assert not re.search(r"print\(\w+\.(runs|rounds|layers)\b", block.text)


def ours() -> list[Path]:
    """The pages below the project's own folders: an environment in ``.venv`` has others."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name[0] != "."]
    return [page for folder in folders for page in folder.glob("**/*.md")]


@looped("page", sorted({*PAGES, *ours()}))
def test_links(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert not missing
