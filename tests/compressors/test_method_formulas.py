"""Docstrings of the catalogue's parts have a formula and name their source; read without torch."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "compressors"
KINDS = {"quantizer", "sparsifier", "codec", "compressor", "method"}
WITHOUT_A_PAPER = {"identity", "nonzero", "raw", "by_name"}

_FORMULA = re.compile(r"^ {4,}\S.* (?:=|<-|~)(?: |$)", re.MULTILINE)
_YEAR = re.compile(r"\([^()]*\b(?:19|20)\d\d\b[^()]*\)")


def rows() -> Iterator[tuple[str, str, str]]:
    """Name, kind and docstring of each row that a class or a function of this package makes."""
    for node in ast.walk(ast.parse((PACKAGE / "catalogue.py").read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Row":
            continue
        cells = [str(c.value) if isinstance(c, ast.Constant) else "" for c in node.args[:3]]
        equation = cells[2].startswith(f"{cells[0]}(")  # of a method: its formula
        if cells[1] in KINDS and not equation:
            yield cells[0], cells[1], docstring(*cells[2].split(":"))


def docstring(module: str, name: str) -> str:
    path = PACKAGE / f"{module.replace('.', '/')}.py"
    body = ast.parse(path.read_text(encoding="utf-8")).body
    parts = [n for n in body if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name == name]
    return ast.get_docstring(parts[0]) or ""


def missing(name: str, text: str) -> list[str]:
    """What the docstring of a row lacks: a formula above its settings, or a year."""
    rule = re.split(r"^(?:Args|Settings|Example)\b", text, flags=re.MULTILINE)[0]
    lacks = ["formula"] * (not _FORMULA.search(rule))
    return lacks + ["year"] * (name not in WITHOUT_A_PAPER and not _YEAR.search(text))


def test_docstrings_have_a_formula_and_a_source() -> None:
    read_rows = list(rows())
    assert {kind for _, kind, _ in read_rows} == KINDS
    assert {name: lacks for name, _, text in read_rows if (lacks := missing(name, text))} == {}


def test_a_docstring_without_them_is_found() -> None:
    text = "The sign.\n\n    x_hat_i = sign(x_i)\n\nOf signSGD (Bernstein et al. 2018).\n\nArgs:\n"
    assert missing("sign", text) == []
    assert missing("sign", text.replace("    x", "x").replace("2018", "")) == ["formula", "year"]
    assert missing("sign", "Args:\n    a: one\n\n    x = 1\n") == ["formula", "year"]
