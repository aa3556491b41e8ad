"""Docstrings of algorithms, controllers, samplers and methods have a formula and a source."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from compressors import ROWS
from compressors.row import Composition

ROOT = Path(__file__).resolve().parents[1]
TABLES = {
    "strategies": ("algorithms/__init__.py", "ALGORITHMS"),
    "fedsim/settings/controllers": ("registry.py", "CONTROLLERS"),
    "fedsim/settings/samplers": ("registry.py", "SAMPLERS"),
}
FORMULA = re.compile(r"^ {4,}\S.* = ", re.MULTILINE)  # a line of an indented block
SOURCE = re.compile(r"^Source: (?:this project|[^(]*? (?:19|20)\d\d \()", re.MULTILINE)


def places(folder: str) -> Iterator[str]:
    """``file:Class`` of each row of a table, read without an import."""
    file, table = TABLES[folder]
    for node in ast.parse((ROOT / folder / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == table:
            assert isinstance(node.value, ast.Dict)
            for row in node.value.values:
                place = row.args[0] if isinstance(row, ast.Call) else row
                assert isinstance(place, ast.Constant)
                yield str(place.value)


def docstring(folder: str, place: str) -> str:
    """The cleaned docstring of the class at ``file:Class``; empty: it has none."""
    file, name = place.split(":")
    folder = folder if folder == "strategies" else "fedsim/settings"  # names of modules begin there
    module = ast.parse((ROOT / folder / f"{file.replace('.', '/')}.py").read_text(encoding="utf-8"))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    return ast.get_docstring(classes[name]) or ""


@pytest.mark.parametrize("folder", TABLES)
def test_every_row_of_a_table_has_its_formula_and_its_source(folder: str) -> None:
    rows = {place: docstring(folder, place) for place in places(folder)}
    assert len(rows) >= 5
    assert [place for place, text in rows.items() if not FORMULA.search(text)] == []
    assert [place for place, text in rows.items() if not SOURCE.search(text)] == []


KINDS = {"quantizer", "sparsifier", "codec", "compressor", "method"}
WITHOUT_A_PAPER = {"identity", "nonzero", "raw", "by_name"}
RULE = re.compile(r"^ {4,}\S.* (?:=|<-|~)(?: |$)", re.MULTILINE)
YEAR = re.compile(r"\([^()]*\b(?:19|20)\d\d\b[^()]*\)")


def test_methods_have_a_formula_above_their_settings_and_a_year() -> None:
    """An equation of the catalogue is its own formula."""
    parts = [r for r in ROWS if r.kind in KINDS and not isinstance(r.make, Composition)]
    texts = {row.name: inspect.getdoc(row.make) or "" for row in parts}
    above = {
        n: re.split(r"^(?:Args|Settings|Example)\b", t, flags=re.M)[0] for n, t in texts.items()
    }
    assert [name for name, text in above.items() if not RULE.search(text)] == []
    assert {name for name, text in texts.items() if not YEAR.search(text)} <= WITHOUT_A_PAPER
