"""The folder of a run: what the same command does there again."""

import json
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from fedsim.settings import contents
from tests.support.runs import small


def test_a_finished_run_is_not_run_again(done: Path) -> None:
    first = json.loads((done / "summary.json").read_text())
    before = {f: f.stat().st_mtime_ns for f in done.iterdir()}
    rows: list[dict[str, Any]] = []
    again = run(small(workers=2, engine="flower"), done, callbacks=[rows.append])
    assert again.summary == first and not rows  # the same numbers
    assert {f: f.stat().st_mtime_ns for f in done.iterdir()} == before


def test_a_run_that_goes_on_began_with_what_its_folder_says(tmp_path: Path) -> None:
    def stop(row: dict[str, Any]) -> None:
        if row["round"] == 2:
            raise KeyboardInterrupt

    config, file = small(checkpoint_every=1), tmp_path / "config.toml"
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path, callbacks=[stop])
    file.write_text(file.read_text().replace('weights = "', 'weights = "0'))  # of another torch
    before = contents.recorded_content(tmp_path, contents.START)
    run(config, tmp_path)
    assert contents.recorded_content(tmp_path, contents.START) == before
    assert before["weights"].startswith("0")


def test_what_begins_is_masked_by_the_rule_of_today(tmp_path: Path) -> None:
    """Folders of 0.1.0 alone mask momentum with every ``ef``."""
    plain = small(method="ef(topk(0.1) | float32 | golomb)")
    assert run(plain, tmp_path).summary["settings"]["momentum_masking"] is False
