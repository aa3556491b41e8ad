"""The catalogue is whole: whatever implements a contract is in it, and every row is complete."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
import typing
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import compressors
from compressors import CATALOGUE, ROWS, Compressor, Pipeline, VectorCodec, catalogue, parse
from compressors.parsing import as_compressor
from compressors.parts import PositionCode, Quantizer, Sparsifier, SymbolCode
from compressors.row import Composition
from compressors.whole.tied import Tied
from tests.support.looping import looped
from tests.support.traits import parts

CONTRACTS = {
    Compressor: "compressor",
    VectorCodec: "codec",
    Sparsifier: "sparsifier",
    Quantizer: "quantizer",
    PositionCode: "positions",
    SymbolCode: "symbols",
}
WRITTEN_WITH_BARS = {Pipeline}  # the text form of a pipeline is its parts, not a name
WRAPPERS = {Tied}  # strategies put it around a method; no setting names it
NO_METHODS = {parse, as_compressor}  # they return any compressor

every_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(compressors.__path__, "compressors."):
        yield importlib.import_module(info.name)


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def implements(thing: type, contract: type) -> bool:
    """Whether a class has all the contract's methods, with the same parameters."""
    methods = [
        name
        for name, value in vars(contract).items()
        if inspect.isfunction(value) and not name.startswith("_")
    ]
    return all(
        inspect.isfunction(getattr(thing, name, None))
        and parameters(getattr(thing, name)) == parameters(getattr(contract, name))
        for name in methods
    )


def public(kind: Any) -> set[Any]:
    """Public classes or functions that a module of the package defines itself."""
    return {
        thing
        for module in modules()
        for name, thing in vars(module).items()
        if kind(thing) and thing.__module__ == module.__name__ and not name.startswith("_")
    }


def implementations() -> dict[type, str]:
    """Every class of the package that implements a contract, and the contract's kind."""
    found: dict[type, str] = {}
    for thing in public(inspect.isclass):
        kinds = [kind for contract, kind in CONTRACTS.items() if implements(thing, contract)]
        if kinds and not (getattr(thing, "_is_protocol", False) or inspect.isabstract(thing)):
            found[thing] = "coder" if kinds == ["positions", "symbols"] else kinds[-1]
    return found


def test_every_implementation_has_a_row() -> None:
    found = implementations()
    assert len(found) > 8
    kinds = {row.make: row.kind for row in ROWS}
    for thing in set(found) - WRITTEN_WITH_BARS - WRAPPERS:
        assert thing in kinds, f"{thing.__name__} implements a contract: add a row to the catalogue"
        assert kinds[thing] in (found[thing], "compressor")


def test_contrib_is_marked() -> None:
    """By its place, or by hand: a method that is a sum of parts has no place."""
    marked = {row.name for row in ROWS if row.contrib}
    placed = {row.name for row in ROWS if row.make.__module__.startswith("compressors.contrib.")}
    sums = {row.name for row in ROWS if isinstance(row.make, Composition)}
    assert len(placed) > 10 and placed <= marked <= placed | sums


def test_every_row_of_a_class_implements_its_contract() -> None:
    found = implementations()
    for row in ROWS:
        if inspect.isclass(row.make):
            assert row.kind == found[row.make], row.name


def test_every_published_method_has_a_row() -> None:
    functions = {
        thing
        for thing in public(inspect.isfunction)
        if typing.get_type_hints(thing).get("return") is Compressor
    } - NO_METHODS
    methods = {row.make for row in ROWS if row.kind == "method"}
    assert functions == {make for make in methods if inspect.isfunction(make)}
    assert len(methods - functions) > 12  # and the others are equations


@pytest.mark.parametrize(
    "row", [r for r in ROWS if isinstance(r.make, Composition)], ids=lambda row: row.name
)
def test_an_equation_is_headed_by_its_rows_name(row: compressors.Row) -> None:
    settings = list(inspect.signature(row.make).parameters)
    head, _, body = row.make.equation.partition(") = ")
    assert head.partition("(")[0] == row.name
    assert all(re.search(rf"\b{name}\b", body) for name in settings)  # none says nothing


@every_row
def test_other_functions_make_a_part_of_a_class_in_the_table(row: compressors.Row) -> None:
    """A setting of a class under a name of its own: its example prints as that class."""
    if inspect.isclass(row.make) or row.kind == "method":
        return
    made = typing.get_type_hints(row.make)["return"]
    assert next(r.kind for r in ROWS if r.make is made) == row.kind


def test_names_are_unique() -> None:
    assert len(CATALOGUE) == len(ROWS)
    assert all(CATALOGUE[row.name] is row for row in ROWS)
    assert len({row.make for row in ROWS}) == len(ROWS)


@every_row
def test_a_row_is_complete(row: compressors.Row) -> None:
    assert row.name.isidentifier()
    assert row.name == row.name.lower()
    assert row.title.strip()
    assert row.source.strip()
    assert row.kind in typing.get_args(catalogue.Kind)
    assert inspect.getdoc(row.make)


@every_row
def test_an_example_is_a_compressor_in_which_the_row_takes_part(row: compressors.Row) -> None:
    compressor = parse(row.example)
    assert compressor.init({}) is not None
    assert row.name in row.example
    if inspect.isclass(row.make):
        assert any(isinstance(part, row.make) for part in parts(compressor)), row.example
    else:
        assert f"{row.name}(" in row.example


@looped("thing", sorted(implementations(), key=lambda thing: thing.__name__))
def test_settings_are_frozen_values(thing: type) -> None:
    assert dataclasses.is_dataclass(thing)
    assert thing.__dataclass_params__.frozen
    assert thing.__dataclass_params__.eq


def test_all_that_is_exported_exists() -> None:
    assert sorted(set(compressors.__all__)) == sorted(compressors.__all__)
    assert all(hasattr(compressors, name) for name in compressors.__all__)
    for row in ROWS:
        name = getattr(row.make, "__name__", "")
        assert name not in compressors.__all__ or getattr(compressors, name) is row.make


def test_a_class_carries_the_name_of_its_row() -> None:
    """Printing knows no table: the name is the class's own."""
    for row in ROWS:
        if inspect.isclass(row.make):
            assert vars(row.make)["codec_id"] == row.name, f"{row.make.__name__}.codec_id"
