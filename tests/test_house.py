"""The house: rooms on floors, imports that run down, and a map that agrees with them."""

import importlib.util
import pkgutil
from inspect import isfunction
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_map", ROOT / "docs" / "make_map.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


house = loaded()


@pytest.mark.parametrize("package", house.PACKAGES)
def test_no_import_runs_up(package: str) -> None:
    arrows = house.arrows(package)
    assert house.circle(arrows) == []
    levels = house.floors(arrows)
    floor = {room: number for number, names in enumerate(levels) for room in names}
    assert all(floor[below] < floor[room] for room in arrows for below in arrows[room])


@pytest.mark.parametrize("package", ["compressors", "strategies", "fedsim"])
def test_no_files_import_in_a_circle(package: str) -> None:
    assert house.circle(house.file_arrows(package)) == []


def test_what_a_file_imports_is_seen() -> None:
    assert house.file_arrows("compressors")["whole.feedback"] >= {"whole.growth", "errors"}


def test_a_row_of_the_catalogue_counts_as_an_import() -> None:
    assert "whole" in house.arrows("compressors")["catalogue"]


def test_fedsim_is_small_enough_to_know() -> None:
    arrows = house.arrows("fedsim")
    assert len(arrows) <= 12 and len(house.floors(arrows)) <= 9
    assert sum(map(len, arrows.values())) <= 45


def test_a_circle_is_named() -> None:
    around = {"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": set()}
    assert house.circle(around) == ["a", "b", "c", "a"]
    with pytest.raises(ValueError, match="a -> b -> c -> a"):
        house.floors(around)
    straight = {"a": {"b", "c"}, "b": {"c"}, "c": set()}
    assert house.circle(straight) == []
    assert house.floors(straight) == [["c"], ["b"], ["a"]]
    assert house.drawn(straight) == [("a", "b"), ("b", "c")]  # a -> c follows


def test_imports_inside_functions_count() -> None:
    """A command imports what it needs when it runs."""
    assert "runs" in house.arrows("fedsim")["commands"]


def classes_of(package: str) -> list[type]:
    folder = importlib.import_module(package)
    modules = [i.name for i in pkgutil.walk_packages(folder.__path__, f"{package}.")]
    own = [importlib.import_module(name) for name in modules if not name.endswith("__main__")]
    classes = dict.fromkeys(c for m in own for c in vars(m).values() if isinstance(c, type))
    return [c for c in classes if c.__module__.startswith(f"{package}.")]


@pytest.mark.parametrize("package", house.PACKAGES)
def test_a_method_says_what_it_does_or_overrides_one_that_does(package: str) -> None:
    """A contract's words hold for all that implement it, and so do a base class's."""
    classes = {name: classes_of(name) for name in house.PACKAGES}
    every = [c for own in classes.values() for c in own]
    said = {name for c in every if vars(c).get("_is_protocol") for name in vars(c)}
    assert said >= {"write", "select", "commit", "make_orders"}
    for c in classes[package]:
        above = said.union(*map(vars, c.__mro__[1:]))
        parts = {name: getattr(x, "fget", x) for name, x in vars(c).items() if name[0] != "_"}
        defined = {n: x for n, x in parts.items() if isfunction(x) and x.__name__ == n}
        silent = {name for name, x in defined.items() if not x.__doc__}
        assert c.__name__.startswith("_") or not silent - above, f"{c}: {silent - above}"


def test_the_map_agrees_with_the_imports() -> None:
    told = "python docs/make_map.py draws it again"
    for name, packages in house.PICTURES.items():
        drawn = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert drawn == house.picture(packages), told
    design = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    assert design == house.page(design), told


@pytest.mark.parametrize("package", house.PACKAGES)
def test_every_room_says_what_it_holds(package: str) -> None:
    for room in house.rooms(package):
        assert house.sentence(package, room).endswith("."), room


def test_only_tables_keep_their_own_format() -> None:
    count = {
        str(file.relative_to(ROOT)): file.read_text(encoding="utf-8").count("# fmt" + ": skip")
        for top in (*house.PACKAGES, "tests", "experiments", "benchmarks", "docs", "examples")
        for file in (ROOT / top).rglob("*.py")
    }
    packages = sum(n for file, n in count.items() if file.split("/")[0] in house.PACKAGES)
    assert packages <= 40 and sum(count.values()) <= 100
