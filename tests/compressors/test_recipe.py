"""CONTRIBUTING's recipe for a new method, followed to the letter in a copy of the tree."""

import re
import shutil
from pathlib import Path
from textwrap import indent

import pytest

from tests.support.markdown import ROOT
from tests.support.recipes import copied, started

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.split("## A new method")[1].split("\n## ")[0]
STEPS = SECTION[SECTION.index("1. ") : SECTION.index("The parser, ")].strip()
CLASS, ROW = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
COMMANDS = re.findall(r"^ {7}(.+)$", STEPS, re.MULTILINE)
TESTS = [
    "tests/test_house.py",
    "tests/test_pages.py::test_the_page_is_up_to_date[catalogue]",
    "tests/compressors/test_catalogue.py",
    "tests/compressors/test_golden.py",
]
USED = """
import torch
from compressors import compress, decompress, parse, text
from fedsim.measure.theory.tables import THEORY_TABLES

def test_outliers_are_used():
    update = {"w": torch.tensor([[0.1, -0.7, 0.5], [0.0, 2.0, 0.2]])}
    method = parse("outliers(0.75) | float32 | golomb")
    packet, _ = compress(method, update)
    wanted = torch.tensor([[0.0, -0.7, 0.0], [0.0, 2.0, 0.0]])  # above 0.75 * 0.893
    assert torch.equal(decompress(method, packet.payload, template=update)["w"], wanted)
    assert text(method) == "per_tensor(outliers(0.75) | float32 | golomb)"
    row = next(row for row in THEORY_TABLES["bounds"].rows(1000) if row["name"] == "outliers")
    assert row["class"] == "unknown" and row["note"] == "no rule known of outliers(3)"
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the project with compiled kernels, without data, results and environment."""
    copied(tmp_path, "tests", "docs")
    for path in (*ROOT.glob("*.toml"), *ROOT.glob("*.md")):
        shutil.copy2(path, tmp_path)
    return tmp_path


def follow(tree: Path, without: str = "") -> None:
    """Takes the steps of the recipe, all but one."""
    place = re.search(r"here `(.+?)`", STEPS)
    assert place is not None
    (tree / place[1]).write_text(f'"""Entries far above the others."""\n\n{CLASS}')
    if without != "row":
        table = tree / "compressors" / "catalogue.py"
        end = "\n)  # fmt: skip\n"
        assert table.read_text().count(end) == 1
        table.write_text(table.read_text().replace(end, f"\n{indent(ROW.rstrip(), '    ')},{end}"))
    for command in COMMANDS:
        script = command.removeprefix("PYTHONPATH=. ").removeprefix("python ").split()
        if without not in ("row", "golden") or "golden" not in command:
            done = started(tree, *script)
            assert done.returncode == 0, done.stderr


def test_the_recipe_is_short() -> None:
    assert len([line for line in STEPS.splitlines() if line.strip()]) <= 15
    assert "write_golden.py outliers" in COMMANDS[0]


@pytest.mark.slow
@pytest.mark.processes
def test_the_recipe_makes_a_method_that_passes_the_suite(tree: Path) -> None:
    follow(tree)
    assert "`python -m pytest -k outliers tests/compressors`" in STEPS
    (tree / "tests" / "compressors" / "test_used.py").write_text(USED)
    chosen = "outliers or catalogue or test_house and compressors"
    files = ["tests/compressors", *TESTS[:2]]
    done = started(tree, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", "-k", chosen, *files)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout


@pytest.mark.proof
@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("row", "Outliers implements a contract: add a row to the catalogue"),
        ("golden", "no golden bytes of 'outliers': look at them, then store them with"),
    ],
)
def test_a_step_that_is_left_out_is_told(step: str, words: str, tree: Path) -> None:
    follow(tree, without=step)
    done = started(tree, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *TESTS)
    assert done.returncode == 1, done.stdout
    assert words in done.stdout
