"""Imports run one way, and the compressors need numpy, torch and numba alone."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("compressors", "strategies", "fedsim", "experiments")
FORBIDDEN = {
    "compressors": {"strategies", "fedsim", "experiments", "flwr", "ray"},
    "strategies": {"fedsim", "experiments"},
    "fedsim": {"experiments"},
    "experiments": set(),
}
NEEDED = {"numpy", "torch", "numba", "triton", "compressors"}
OPTIONAL = {"zstd"}  # rows that say what else they need


def imported(path: Path) -> set[str]:
    """The top-level names of every import in a file, those inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0] if node.level == 0 else "")
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_imports_run_one_way(folder: str) -> None:
    for path in sorted((ROOT / folder).rglob("*.py")):
        assert not imported(path) & FORBIDDEN[folder], path.relative_to(ROOT)


def test_compressors_import_nothing_else() -> None:
    paths = sorted((ROOT / "compressors").rglob("*.py"))
    assert len(paths) > 20
    for path in paths:
        assert imported(path) <= NEEDED | sys.stdlib_module_names, path.relative_to(ROOT)


def other_dependencies() -> set[str]:
    """Import names of the project's dependencies, but for the three the compressors may see."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + sum(project["optional-dependencies"].values(), [])
    names = {re.split(r"[\[<>=!~ ;]", line)[0].replace("-", "_") for line in wanted}
    assert {"numpy", "torch", "numba", "flwr", "ray"} <= names
    return (names - NEEDED) | {"sklearn", "strategies", "fedsim", "experiments"}


_CHILD = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in sys.argv[1].split(","):
            raise ImportError(f"{name} is not on this machine")

sys.meta_path.insert(0, Blocked())
for name in sys.argv[1].split(","):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} was not blocked")
import torch
from compressors import CATALOGUE, ROWS, compress, decompress, explain, parse
update = {"w": torch.arange(-20.0, 21.0), "v": torch.ones(3, 4)}
for row in ROWS:
    method = parse(row.example)
    packet, _ = compress(method, update)
    got = decompress(method, packet.payload, update)
    assert all(torch.equal(got[n], one.decoded) for n, one in packet.sent.items())
    assert explain(method, packet.payload, update) == packet.spans
assert {name for name, row in CATALOGUE.items() if row not in ROWS} == set(sys.argv[2].split(","))
for name in sys.argv[2].split(","):
    try:
        parse(CATALOGUE[name].example)
    except ValueError as error:
        assert CATALOGUE[name].needs in str(error), error
        continue
    raise SystemExit(f"{name} was made")
print(len(ROWS))
"""


@pytest.mark.slow
def test_compressors_work_on_a_machine_with_numpy_torch_and_numba() -> None:
    blocked = ",".join(sorted(other_dependencies()))
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, blocked, ",".join(OPTIONAL)],
        cwd=ROOT,
        text=True,
        capture_output=True,
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout) > 0
