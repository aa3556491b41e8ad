"""Draws the map of the house: rooms on floors, from the imports of the code as it is.

A room is a file or a sub-package directly inside a package. A room stands one floor above the
highest room that it imports. A row of the catalogue, which names the place of a class as a text
(``"whole.raw:Raw"``), counts as an import of that place. ``python docs/make_map.py`` writes
the pictures of ``PICTURES``, and in ``docs/design.md`` the tables of rooms and the code of a round;
a test compares them with the code. ``PYTHONPATH=. python docs/make_map.py --profile`` counts the
functions and files that one round of one client enters, and writes nothing.
"""

import ast
import re
import sys
import textwrap
import threading
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PACKAGES = ("fedsim", "strategies", "compressors")
PICTURES = {"house.svg": PACKAGES[:2], "house-compressors.svg": PACKAGES[2:]}
OUTSIDE = "__init__", "__main__"  # a package's front doors import every room and are not rooms
_WIDTH, _HEIGHT, _BOX, _LIFT, _MARGIN = 980, 30, 108, 64, 18

_PLACE = re.compile(r"(\w+(?:\.\w+)*):\w+")  # of a class in the catalogue of compressors

_CODE = re.compile(r"(<!-- code of (\S+) (\S+) -->)\n.*?(<!-- end of code -->)", re.DOTALL)

Arrows = Mapping[str, set[str]]


def rooms(package: str) -> dict[str, list[Path]]:
    """The files of each room of a package, by the room's name."""
    files: dict[str, list[Path]] = defaultdict(list)
    base = ROOT / package
    for path in sorted(base.rglob("*.py")):
        name = path.relative_to(base).parts[0].removesuffix(".py")
        if name not in OUTSIDE:
            files[name].append(path)
    return dict(files)


def arrows(package: str) -> dict[str, set[str]]:
    """Which rooms of its package each room imports, imports inside functions too."""
    rooms_of = rooms(package)
    below_of: dict[str, set[str]] = {room: set() for room in rooms_of}
    for room, paths in rooms_of.items():
        for path in paths:
            below = {name.split(".")[0] for name in _imported(path, package)}
            below_of[room] |= below & {*rooms_of} - {room}
    return below_of


def file_arrows(package: str) -> dict[str, set[str]]:
    """Which files of its package each file imports, as dotted names below the package."""
    base = ROOT / package
    files = {
        ".".join(path.relative_to(base).with_suffix("").parts): path
        for paths in rooms(package).values()
        for path in paths
    }
    below_of = {}
    for name, path in files.items():
        below = _imported(path, package)
        starts = {at for full in below for at in accumulate(full.split("."), "{}.{}".format)}
        below_of[name] = starts & {*files} - {name}
    return below_of


@cache
def _imported(path: Path, package: str) -> frozenset[str]:
    """What a file imports of its package: dotted names without the package's."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names += [f"{node.module}.{alias.name}" for alias in node.names]
        elif package == "compressors" and isinstance(node, ast.Constant):
            place = _PLACE.fullmatch(str(node.value))
            names += [f"compressors.{place[1]}"] if place else []
    start = f"{package}."
    return frozenset(name.removeprefix(start) for name in names if name.startswith(start))


def functions(package: str, room: str = "") -> tuple[int, list[str], list[str]]:
    """How many functions there are, and which of them are private and have one use.

    A private function's name begins with one underscore. One that its file calls once is a helper,
    which could go back to its caller. One that its file hands on (a row of a table, the target of a
    thread, a property) could not.

    Args:
        package: the package.
        room: a room of it; empty: all of them.

    Returns:
        The number of functions and methods; those called once and those handed on once, as
        ``path:name``.
    """
    count = 0
    called: list[str] = []
    handed: list[str] = []
    for path in sorted((ROOT / package / room).rglob("*.py")):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        names = [x.name for x in nodes if isinstance(x, ast.FunctionDef | ast.AsyncFunctionDef)]
        used = Counter(filter(None, map(_used, nodes)))
        calls = Counter(_used(node.func) for node in nodes if isinstance(node, ast.Call))
        count += len(names)
        private = {name for name in names if name.startswith("_") and not name.startswith("__")}
        for name in sorted(name for name in private if used[name] == 1):
            (called if calls[name] else handed).append(f"{path.relative_to(ROOT)}:{name}")
    return count, called, handed


def _used(node: ast.AST) -> str | None:
    """The name that a node of a program uses; None where it uses none."""
    return node.id if isinstance(node, ast.Name) else getattr(node, "attr", None)


def circle(imports: Arrows) -> list[str]:
    """The rooms of one circle of imports, in order; none where there is none."""
    left = {room: set(below) for room, below in imports.items()}
    while free := [room for room, below in left.items() if not below & {*left}]:
        for room in free:
            del left[room]
    if not left:
        return []
    path = [min(left)]
    while path.count(path[-1]) == 1:
        path.append(min(left[path[-1]] & {*left}))
    return path[path.index(path[-1]) :]


def floors(imports: Arrows) -> list[list[str]]:
    """The rooms of each floor, the lowest first.

    Raises ``ValueError`` where imports run in a circle.
    """
    if around := circle(imports):
        raise ValueError(f"imports run in a circle: {' -> '.join(around)}")
    level: dict[str, int] = {}
    while len(level) < len(imports):
        for room, below in imports.items():
            if room not in level and below <= {*level}:
                level[room] = 1 + max((level[other] for other in below), default=-1)
    return [
        sorted(room for room in level if level[room] == floor)
        for floor in range(1 + max(level.values()))
    ]


def drawn(imports: Arrows) -> list[tuple[str, str]]:
    """The arrows that a picture needs: those that no longer way of arrows says already."""

    def reached(room: str) -> set[str]:
        return imports[room].union(*(reached(below) for below in imports[room]))

    return [
        (room, below)
        for room in sorted(imports)
        for below in sorted(imports[room])
        if not any(below in reached(other) for other in imports[room] - {below})
    ]


def sentence(package: str, room: str) -> str:
    """What a room holds: the first sentence of its docstring."""
    path = ROOT / package / room
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    words = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(words.split("\n\n")[0].split())


def table(package: str) -> str:
    """The rooms of a package as a Markdown table, the highest floor first."""
    rooms_of, levels = rooms(package), floors(arrows(package))
    lines = ["| floor | room | holds | files |", "| --- | --- | --- | --- |"]
    for floor, names in reversed(list(enumerate(levels, 1))):
        for room in names:
            cells = (floor, f"`{package}/{room}`", sentence(package, room), len(rooms_of[room]))
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def picture(packages: Sequence[str]) -> str:
    """The packages as SVG, one above the other, each with its rooms on their floors."""
    shapes: list[str] = []
    top = _MARGIN
    for package in packages:
        height, drawing = _package(package, top)
        shapes += drawing
        top += height + _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" '
        'font-family="sans-serif" font-size="13">\n'
        f'<rect width="{_WIDTH}" height="{top}" fill="#ffffff"/>\n'
        '<marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto"><path d="M0 0L6 3L0 6z" fill="#8892a0"/></marker>\n'
    )
    return head + "\n".join(shapes) + "\n</svg>\n"


def _package(package: str, top: int) -> tuple[int, list[str]]:
    """The height of a package's drawing that starts at ``top``, and its shapes."""
    arrows_of = arrows(package)
    levels = floors(arrows_of)
    height = 36 + _LIFT * len(levels)
    places: dict[str, tuple[float, float]] = {}
    for floor, names in enumerate(levels):
        y = top + height - _LIFT * (floor + 1)
        step = (_WIDTH - 2 * _MARGIN) / len(names)
        shift = 0.18 * step * (-1) ** floor if len(names) > 1 else 0.0
        for place, room in enumerate(names):
            places[room] = (_MARGIN + step * (place + 0.5) + shift, y)
    shapes = [
        f'<rect x="6" y="{top}" width="{_WIDTH - 12}" height="{height}" rx="8" fill="#f4f6f9"/>',
        f'<text x="{_MARGIN}" y="{top + 22}" font-weight="bold">{package}</text>',
    ]
    for (x1, y1), (x2, y2) in ((places[a], places[b]) for a, b in drawn(arrows_of)):
        ends = f'x1="{x1:.0f}" y1="{y1 + _HEIGHT:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"'
        shapes.append(f'<line {ends} stroke="#8892a0" marker-end="url(#tip)"/>')
    for room, (x, y) in places.items():
        shapes.append(
            f'<rect x="{x - _BOX / 2:.0f}" y="{y:.0f}" width="{_BOX}" height="{_HEIGHT}" rx="5" '
            f'fill="#ffffff" stroke="#3b5b92"/><text x="{x:.0f}" y="{y + 20:.0f}" '
            f'text-anchor="middle">{escape(room)}</text>'
        )
    return height, shapes


def source(file: str, name: str) -> str:
    """A function's source as a block of Markdown, without its words.

    Args:
        file: from the root.
        name: of a function, or ``Class.function``.
    """
    text = (ROOT / file).read_text(encoding="utf-8")
    node: ast.AST = ast.parse(text)
    for part in name.split("."):
        node = next(n for n in ast.iter_child_nodes(node) if getattr(n, "name", "") == part)
    assert isinstance(node, ast.FunctionDef)
    lines = text.splitlines()[node.lineno - 1 : node.end_lineno]
    if ast.get_docstring(node):
        words, start = node.body[0], node.lineno
        assert words.end_lineno is not None
        del lines[words.lineno - start : words.end_lineno - start + 1]
    code = textwrap.dedent("\n".join(lines))
    return f"`{file}`:\n\n```py\n{code}\n```"


def page(text: str) -> str:
    """The design page with its code and tables of rooms written anew between their marks."""
    text = _CODE.sub(lambda m: f"{m[1]}\n{source(m[2], m[3])}\n{m[4]}", text)
    for package in PACKAGES:
        start, end = f"<!-- rooms of {package} -->\n", f"<!-- end of {package} -->"
        before, _, rest = text.partition(start)
        _, _, after = rest.partition(end)
        text = before + start + table(package) + "\n" + end + after
    return text


_INLINE = ("<module>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
CLIENT = "make_client_app.<locals>.train"
"""The function in which a client's half of a round begins and ends."""


class Entered:
    """The functions of the packages that are entered while ``counts`` is true, in any thread.

    Attributes:
        counts: whether calls are counted now.
        all: the code of every function.
        client: the code of those that ran within ``CLIENT``.
    """

    def __init__(self) -> None:
        self.counts, self.all, self.client = False, set[CodeType](), set[CodeType]()
        self._within = threading.local()
        self._places = tuple(f"{ROOT / package}/" for package in PACKAGES)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """What ``sys.setprofile`` takes."""
        code = frame.f_code
        if not self.counts or event not in ("call", "return"):
            return
        if not code.co_filename.startswith(self._places):
            return
        depth: int = vars(self._within).get("depth", 0)
        if code.co_qualname == CLIENT:
            depth = self._within.depth = depth + (1 if event == "call" else -1)
        if code.co_name not in _INLINE:
            self.all.add(code)
            if depth:
                self.client.add(code)


def profile() -> str:
    """How many functions, in how many files, round 3 of a run of one client enters."""
    from tempfile import TemporaryDirectory

    from fedsim import RunConfig, run
    from fedsim.runs.callbacks import Callback

    entered = Entered()

    class Third(Callback):
        """Counts from the end of the second round to the end of the third."""

        def round(self, row: Any) -> None:
            entered.counts = row["round"] == 2

    config = RunConfig.of(method="sbc(0.01)", clients=1, temporal=10, iterations=40)
    threading.setprofile(entered)
    sys.setprofile(entered)
    with TemporaryDirectory() as folder:
        run(config, folder, callbacks=[Third()], progress=False)
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    lines = [
        f"{title}: {len(codes)} functions in {len({code.co_filename for code in codes})} files"
        for title, codes in (("round 3", entered.all), ("its client", entered.client))
    ]
    return "\n".join(lines)


def main() -> None:
    """Writes the pictures and the tables, and prints what the house counts."""
    if "--profile" in sys.argv[1:]:
        print(profile())
        return
    for name, packages in PICTURES.items():
        (ROOT / "docs" / name).write_text(picture(packages), encoding="utf-8")
    design = ROOT / "docs" / "design.md"
    design.write_text(page(design.read_text(encoding="utf-8")), encoding="utf-8")
    for package in PACKAGES:
        imports, (count, called, handed) = arrows(package), functions(package)
        print(
            f"{package}: {len(imports)} rooms, {len(floors(imports))} floors, "
            f"{sum(map(len, imports.values()))} arrows; "
            f"{len(called)} of {count} functions are private helpers that are called once "
            f"({100 * len(called) / count:.1f} %), {len(handed)} are handed on once"
        )


if __name__ == "__main__":
    main()
