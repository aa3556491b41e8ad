"""Names are the field's words: refused identifiers and public names of two modules only shrink."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.markdown import ROOT

REFUSED = {
    "alone", "apart", "asked", "begins", "beside", "came", "errand", "every", "fate", "fill",
    "found", "give", "given", "gone", "here", "kept", "known", "laid", "lay", "like", "lineup",
    "lot", "made", "mine", "most", "news", "nominal", "outs", "own", "parcel", "play", "rest",
    "said", "seen", "settled", "there", "those", "told", "took", "tops", "tried", "walk",
    "wanted", "way", "whole", "why", "working",
}  # fmt: skip
"""Participles, adverbs and pronouns: nobody can search for them, or knows what they hold."""

REFUSED_USES = {"compressors": 3, "strategies": 0, "fedsim": 29}
"""At most how often they are used in each package: lower a number when uses go."""

PUBLIC_NAMES_OF_TWO_MODULES = {"compressors": 0, "strategies": 0, "fedsim": 0}
"""At most how many names are public in more than one module."""


@cache
def trees(package: str) -> dict[Path, ast.Module]:
    files = sorted((ROOT / package).rglob("*.py"))
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


FIELDS = {
    ast.Name: "id",
    ast.Attribute: "attr",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.keyword: "arg",
}
"""Where a node has the name that it uses or defines."""


def identifiers(tree: ast.AST) -> Iterator[str]:
    """Every use of a name: of variables, attributes, parameters, keywords, functions, classes."""
    for node in ast.walk(tree):
        field = FIELDS.get(type(node))
        if field and (name := getattr(node, field)):
            yield name


def is_refused(name: str) -> bool:
    return name.strip("_") in REFUSED


def defined(tree: ast.Module) -> set[str]:
    """The module's own public names: classes, functions and constants."""
    names = set[str]()
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=targets):
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if not name.startswith("_")}


def signatures(tree: ast.Module) -> Iterator[str]:
    """The public names of a module, of the methods and fields of its classes, and parameters."""
    yield from defined(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(c.body for c in classes if not c.name.startswith("_"))):
        for node in body:
            match node:
                case ast.FunctionDef(name=name) if not name.startswith("_") or name == "__init__":
                    yield name
                    yield from (x.arg for x in ast.walk(node.args) if isinstance(x, ast.arg))
                case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
                    yield name


def only_shrinks(
    what: str, package: str, count: int, limits: dict[str, int], which: object
) -> None:
    limit = limits[package]
    assert count <= limit, f"{package}: {count} {what}, {limit} allowed: {which}"


@pytest.mark.parametrize("package", REFUSED_USES)
def test_refused_identifiers_only_shrink(package: str) -> None:
    uses = {
        str(file.relative_to(ROOT)): names
        for file, tree in trees(package).items()
        if (names := [name for name in identifiers(tree) if is_refused(name)])
    }
    count = sum(map(len, uses.values()))
    only_shrinks("refused identifiers", package, count, REFUSED_USES, sorted(uses))


@pytest.mark.parametrize("package", PUBLIC_NAMES_OF_TWO_MODULES)
def test_public_names_of_two_modules_only_shrink(package: str) -> None:
    modules = defaultdict(list)
    for file, tree in trees(package).items():
        for name in defined(tree):
            modules[name].append(str(file.relative_to(ROOT)))
    twice = {name: files for name, files in sorted(modules.items()) if len(files) > 1}
    only_shrinks("names of two", package, len(twice), PUBLIC_NAMES_OF_TWO_MODULES, twice)


STORED = {
    "fedsim/settings/controllers/feedback.py: every",
    "fedsim/settings/controllers/feedback.py: most",
    "fedsim/settings/controllers/links.py: most",
    "fedsim/settings/groups.py: every",
}
"""Keys of settings, which files of earlier versions have."""


@pytest.mark.parametrize("package", REFUSED_USES)
def test_no_public_signature_has_a_refused_name(package: str) -> None:
    refused = {
        f"{file.relative_to(ROOT)}: {name}"
        for file, tree in trees(package).items()
        for name in signatures(tree)
        if is_refused(name.lower())
    }
    assert refused <= STORED


def test_a_refused_name_is_seen_in_every_place() -> None:
    tree = ast.parse("""\
MOST = 1
class Found(given.Way):
    way: int
    def told(self, own=kept, *, x):
        f(most=x.like_)
""")
    seen = sorted(name for name in identifiers(tree) if is_refused(name))
    assert seen == ["given", "kept", "like_", "most", "own", "told", "way"]
    public = ["Found", "Found", "MOST", "own", "self", "told", "way", "x"]
    assert sorted(signatures(tree)) == sorted({*public})
