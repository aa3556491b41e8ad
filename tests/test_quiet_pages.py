"""Flower's programs report usage unless a variable forbids it: the pages set it before them."""

import pytest

from fedsim.commands.new import NEXT
from tests.support.markdown import PAGES, ROOT, blocks

STARTS = ("flwr ", "flower-superlink ", "flower-supernode ")
SETTINGS = ("FLWR_TELEMETRY_ENABLED=0", "FLWR_DISABLE_UPDATE_CHECK=1")
STARTING = [
    str(page.relative_to(ROOT))
    for page in PAGES
    if any(line.startswith(STARTS) for block in blocks(page) for line in block.lines)
]
"""Pages that start a program of Flower's."""
INSTALLING = ("docs/deploy.md", "docs/first-steps.md", "docs/flower.md", "docs/flower-engine.md")
"""Pages that say how to install, or where Flower is imported before fedsim."""


@pytest.mark.parametrize("page", STARTING)
def test_nothing_of_flowers_is_started_before_it_is_told_to_be_quiet(page: str) -> None:
    lines = [line for block in blocks(ROOT / page) if not block.language for line in block.lines]
    starts = [i for i, line in enumerate(lines) if line.startswith(STARTS)]
    for setting in SETTINGS:
        told = [i for i, line in enumerate(lines) if line.startswith("export ") and setting in line]
        assert told and told[0] < starts[0], f"{page} starts {lines[starts[0]]!r} before {setting}"


def test_two_pages_start_flowers_programs() -> None:
    assert {"docs/deploy.md", "docs/flower-engine.md"} <= set(STARTING)


@pytest.mark.parametrize("page", INSTALLING)
def test_a_recipe_sets_the_environment(page: str) -> None:
    lines = [line for block in blocks(ROOT / page) if not block.language for line in block.lines]
    for setting in SETTINGS:
        assert any(line.startswith("export ") and setting in line for line in lines), setting


def test_a_new_app_is_started_quietly() -> None:
    quiet, start = NEXT["app"]
    assert start.startswith(STARTS)
    assert all(quiet.startswith("export ") and setting in quiet for setting in SETTINGS)
