"""Names as people type them: both spellings, near misses, and what is not said."""

import tomllib
from pathlib import Path

import pytest

from fedsim import RunConfig, SweepConfig, UsageError
from fedsim.ground.version import VERSION
from fedsim.runs.app import config_of
from fedsim.settings import cellfile, config, grids
from tests.support.commands import Typed
from tests.support.markdown import ROOT
from tests.support.runs import small


@pytest.mark.parametrize("key", ["batch-size", "batch_size"])
def test_both_spellings_everywhere(key: str, tmp_path: Path, typed: Typed, no_page: None) -> None:
    file = tmp_path / "run.toml"
    file.write_text(f"[training]\n{key} = 8\n")
    assert config.from_toml(file).training.batch_size == 8
    assert grids.sweep_from_toml(file).base.training.batch_size == 8
    assert SweepConfig.of(**{key: 8}).base.training.batch_size == 8
    context = type("Context", (), {"run_config": {key: 8, "out": ""}, "node_config": {}})()
    assert config_of(context).training.batch_size == 8
    file.write_text(
        f"[training]\n{key} = 8\n[cells.one]\nmethod = 'raw'\nevaluation.test-samples = 2\n"
    )
    assert cellfile.cells_from_toml(file)[0].config == RunConfig.of(
        batch_size=8, method="raw", test_samples=2
    )
    said = typed("run", f"--{key}", "8", f"--{key}=4", "--iterations", "2", "--out", "one")
    assert said.code == 0 and config.from_toml(Path("one/config.toml")).training.batch_size == 4


def test_a_setting_in_both_spellings_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^x: \[training\]: batch_size is given twice"):
        config.flat_settings({"training": {"batch-size": 8, "batch_size": 4}}, "x")


def test_a_run_takes_a_fraction_as_a_sweep_does(typed: Typed, no_page: None) -> None:
    said = typed("run", "--gradient", "0.1", "--iterations", "2", "--out", "one")
    assert said.code == 0, said
    plan = config.from_toml(Path("one/config.toml")).plan
    assert plan.method == RunConfig(method="sbc(0.1)").plan.method


def test_a_run_has_one_name_however_it_is_told() -> None:
    assert RunConfig().digest == RunConfig(method="sbc(0.01)").digest == "b6662c24"
    assert RunConfig().plan.method.gradient == 0.01
    assert small(method="topk({p}) | float32").plan.method.gradient == 0.01
    assert [cell.name for cell in SweepConfig(small(method="sbc"), (5,)).cells()] == [
        "n1-p1-s0",
        "n5-p0.01-s0",
    ]


@pytest.mark.parametrize(
    "typo, meant",
    [
        ("swep", "unknown command 'swep' (did you mean sweep?)"),
        ("list taks", "unknown kind 'taks' (did you mean tasks?)"),
    ],
)
def test_a_near_word_is_named(typo: str, meant: str, typed: Typed) -> None:
    said = typed(*typo.split())
    assert said.code == 2 and meant in said.err


def test_version(typed: Typed) -> None:
    """It is the code's, whatever version of it was installed; all files agree."""
    said = typed("--version")
    assert (said.code, said.out) == (0, f"fedsim {VERSION}\n")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    assert f"version: {VERSION}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"version = {{{VERSION}}}" in (ROOT / "README.md").read_text()
