"""Folders that are damaged or belong to other settings: refused, and left as they are."""

from pathlib import Path

import pytest

from tests.support.commands import SMALL, Typed, files, no_page, refused

pytestmark = pytest.mark.usefixtures(no_page.__name__)


SPOILT = {
    "sweep, bad TOML": ("sweep.toml", "temporal = ["),
    "sweep, unknown key": ("sweep.toml", "tusk = 1"),
    "sweep, wrong type": ("sweep.toml", "seeds = 'three'"),
    "sweep, value": ("sweep.toml", "lr = -1.0"),
    "cell, bad TOML": ("cells/n5-p0.1-s0/config.toml", "task = digits"),
    "cell, unknown key": ("cells/n5-p0.1-s0/config.toml", "tusk = 1"),
    "cell, wrong type": ("cells/n5-p0.1-s0/config.toml", "temporal = '5'"),
    "cell, other settings": ("cells/n5-p0.1-s0/config.toml", "clients = 2"),
    "summary": ("cells/n5-p0.1-s0/summary.json", "{"),
}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep of one cell, to be copied."""
    from fedsim import SweepConfig, sweep
    from tests.support.runs import small

    base = small(method="sbc", gradient=0.1, evaluate_every=2)
    out = tmp_path_factory.mktemp("swept")
    sweep(SweepConfig(base, (5,), (0.1,), baseline=False), out)
    return out


@pytest.mark.parametrize(("file", "text"), SPOILT.values(), ids=SPOILT)
def test_a_damaged_folder(file: str, text: str, swept: Path, typed: Typed, tmp_path: Path) -> None:
    out = tmp_path / "copy"
    for path in [f for f in swept.rglob("*") if f.is_file()]:
        (out / path.relative_to(swept)).parent.mkdir(parents=True, exist_ok=True)
        (out / path.relative_to(swept)).write_bytes(path.read_bytes())
    (out / file).write_text(text)
    before = files(out / "cells")
    arguments = ("sweep", "--temporal", "5", "--gradient", "0.1", "--no-baseline", *SMALL)
    said = typed(*arguments, "--out", out)
    refused(said, str(out), "other settings" if "= 2" in text else Path(file).name)
    assert files(out / "cells") == before


def test_a_folder_of_other_settings(swept: Path, typed: Typed) -> None:
    before = files(swept)
    arguments = ("sweep", "--temporal", "5", "--gradient", "0.1", "--out", swept)
    refused(typed(*arguments, "--iterations", "30"), "--out", str(swept), "iterations 20 there")
    refused(typed(*arguments, *SMALL, "--method", "gradient_dropping"), "'sbc' there")
    assert files(swept) == before


def test_a_run_in_a_folder_of_another(typed: Typed) -> None:
    arguments = ("run", "--iterations", "20", "--evaluate-every", "2", "--out", "out")
    assert typed(*arguments).code == 0
    before = files(Path("out"))
    refused(typed(*arguments, "--temporal", "5"), "--out", "temporal 10 there, 5 here")
    Path("out/config.toml").write_text("temporal = ")
    refused(typed(*arguments), "out/config.toml", "TOML")
    after = files(Path("out"))
    assert {n: t for n, t in after.items() if n != "config.toml"} == {
        n: t for n, t in before.items() if n != "config.toml"
    }
