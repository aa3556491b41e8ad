"""The docstring of every algorithm, controller and sampler has its formula and its source."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    module = ast.parse((ROOT / folder / f"{file.replace('.', '/')}.py").read_text(encoding="utf-8"))
    classes = {node.name: node for node in module.body if isinstance(node, ast.ClassDef)}
    return ast.get_docstring(classes[name]) or ""


@pytest.mark.parametrize("folder", TABLES)
def test_every_row_of_a_table_has_its_formula_and_its_source(folder: str) -> None:
    rows = {place: docstring(folder, place) for place in places(folder)}
    assert len(rows) >= 5
    assert [place for place, text in rows.items() if not FORMULA.search(text)] == []
    assert [place for place, text in rows.items() if not SOURCE.search(text)] == []
