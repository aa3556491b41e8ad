"""The house: rooms on floors, imports that run down, and a map that agrees with them."""

import ast
import importlib.util
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


def test_a_method_says_what_it_does_or_overrides_one_that_does() -> None:
    """A contract's words hold for all that implement it, and so do a base class's."""
    files = [p for package in ("compressors", "strategies", "fedsim")
             for p in (ROOT / package).rglob("*.py")]  # fmt: skip
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in files]
    classes = [c for tree in trees for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    methods: dict[str, dict[str, ast.FunctionDef]] = {}
    bases: dict[str, set[str]] = {}
    for c in classes:  # two files may have a class of one name
        own = {f.name: f for f in c.body[::-1] if isinstance(f, ast.FunctionDef)}  # getters last
        methods[c.name] = own | methods.get(c.name, {})
        bases[c.name] = bases.get(c.name, set()) | {ast.unparse(base) for base in c.bases}
    said = {name for c in bases if "Protocol" in bases[c] for name in methods[c]}
    assert {"write", "select", "quantize", "write_symbols", "commit"} <= said
    for name, own in methods.items():
        above, line = set(said), list(bases[name])
        while line:  # what a base says holds for all below it
            above |= methods.get(line[0], {}).keys()
            line += bases.get(line.pop(0), ())
        of_flower = bases[name] & {"Grid", "Strategy", "ChannelStrategy"}
        silent = {f for f, body in own.items() if f[0] != "_" and not ast.get_docstring(body)}
        assert name.startswith("_") or of_flower or not silent - above, f"{name}: {silent - above}"


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
