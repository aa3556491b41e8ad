"""Variance-based compression trains the digits with a small part of the entries."""

from pathlib import Path

import pytest

from fedsim import run
from tests.support.runs import clients, small


@pytest.mark.slow
def test_it_learns(tmp_path: Path) -> None:
    config = small(method="variance_based(1.5)", temporal=2, iterations=80)
    summary = run(config, tmp_path).summary
    assert summary["metric"] > 0.3  # ten classes, a tenth by chance
    assert clients(tmp_path)["up_wire_bits"].mean() < 0.2 * 32 * 21386
