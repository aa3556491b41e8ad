"""The example of `--config` in docs/run.md is a file that `fedsim run` takes."""

import tomllib
from pathlib import Path

import pytest

from tests.support.commands import Typed, typed
from tests.support.markdown import ROOT, blocks

__all__ = ["typed"]


@pytest.mark.slow
def test_the_file_runs(typed: Typed) -> None:
    (block,) = [b for b in blocks(ROOT / "docs" / "run.md") if b.language == "toml"]
    Path("run.toml").write_text(block.text, encoding="utf-8")
    said = typed("run", "--config", "run.toml", "--iterations", "20", "--evaluate-every", "2")
    assert said.code == 0, said.err
    (written,) = Path("fedsim-results").glob("*/config.toml")
    kept = tomllib.loads(written.read_text(encoding="utf-8"))
    asked = tomllib.loads(block.text)
    for name in ("method", "downlink", "strategy", "clients", "training"):
        there, wanted = kept[name], asked[name]
        assert there.items() >= wanted.items() if isinstance(wanted, dict) else there == wanted
