"""CONTRIBUTING's recipe for a strategy, followed to the letter in a copy of the tree."""

from pathlib import Path

import pytest

from tests.support.recipes import codes, copied, started, typed

TABLE = "ALGORITHMS: dict[str, str] = {\n"
RUN = (
    "run",
    "--strategy",
    "norm_bound",
    "--method",
    "raw",
    "--temporal",
    "2",
    "--evaluate-every",
    "1",
)

SCRIPT = f"""
from fedsim import RunConfig, run
from fedsim.commands.cli import main
for iterations in ("4", "8"):
    assert main([*{RUN}, "--iterations", iterations, "--out", "parts"]) == 0
for name in ("norm_bound", "dsgd"):
    run(RunConfig.of(strategy=name, method="raw", temporal=2, evaluate_every=1, iterations=8), name)
assert main([*{RUN}, "--iterations", "8", "--out", "no", "--server-lr", "0.1"]) == 2
"""


def followed(folder: Path, class_too: bool = True, row_too: bool = True) -> Path:
    """A copy of the tree after the recipe, or after one of its two steps."""
    tree = copied(folder)
    source, row = codes("A new strategy")
    if class_too:
        (tree / "strategies" / "algorithms" / "norm_bound.py").write_text(source, encoding="utf-8")
    if row_too:
        path = tree / "strategies" / "algorithms" / "__init__.py"
        text = path.read_text(encoding="utf-8")
        assert text.count(TABLE) == 1
        path.write_text(text.replace(TABLE, TABLE + row), encoding="utf-8")
    return tree


def test_the_recipe_is_short_and_its_names_exist() -> None:
    source, row = codes("A new strategy")
    assert len([line for line in (source + row).splitlines() if line]) <= 18
    names: dict[str, object] = {}
    exec(compile(source, "norm_bound.py", "exec"), names)
    assert "norm_bound:NormBound" in row and "NormBound" in names


@pytest.mark.slow
@pytest.mark.processes
def test_it_runs_goes_on_and_refuses_what_it_does_not_take(tmp_path: Path) -> None:
    tree = followed(tmp_path)
    done = started(tree, "-c", SCRIPT)
    assert done.returncode == 0, done.stderr
    parts, whole, mean = (
        (tree / out / "model.safetensors").read_bytes() for out in ("parts", "norm_bound", "dsgd")
    )
    assert parts == whole != mean
    assert "--server-lr is 0.1: it belongs to" in done.stderr
    assert not (tree / "no").exists()


@pytest.mark.proof
@pytest.mark.processes
def test_without_its_row_it_is_not_known(tmp_path: Path) -> None:
    refused = typed(followed(tmp_path, row_too=False), *RUN, "--iterations", "4", "--out", "no")
    assert refused.returncode == 2 and "unknown strategy 'norm_bound'" in refused.stderr


@pytest.mark.proof
@pytest.mark.processes
def test_without_its_class_it_does_not_run(tmp_path: Path) -> None:
    failed = typed(followed(tmp_path, class_too=False), *RUN, "--iterations", "4", "--out", "no")
    assert failed.returncode != 0 and "strategies.algorithms.norm_bound" in failed.stderr
