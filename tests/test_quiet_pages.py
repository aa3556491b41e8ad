"""Flower's programs report usage unless a variable forbids it: the pages set it before them."""

import pytest

from tests.support.markdown import ROOT, blocks

PAGES = ("docs/deploy.md", "docs/flower-engine.md")
STARTS = ("flwr ", "flower-superlink ", "flower-supernode ")


@pytest.mark.parametrize("page", PAGES)
def test_nothing_of_flowers_is_started_before_it_is_told_to_be_quiet(page: str) -> None:
    lines = [line for block in blocks(ROOT / page) if not block.language for line in block.lines]
    starts = [i for i, line in enumerate(lines) if line.startswith(STARTS)]
    assert starts
    for setting in ("FLWR_TELEMETRY_ENABLED=0", "FLWR_DISABLE_UPDATE_CHECK=1"):
        told = [i for i, line in enumerate(lines) if line.startswith("export ") and setting in line]
        assert told and told[0] < starts[0], f"{page} starts {lines[starts[0]]!r} before {setting}"
