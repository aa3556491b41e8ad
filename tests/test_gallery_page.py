"""The gallery: its commands can be typed, it has every figure, and its pictures are small."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedsim import plot
from fedsim.commands.cli import parser
from fedsim.commands.show import FIGURES
from tests.support.markdown import ROOT, blocks, links

PAGE = ROOT / "docs" / "gallery.md"
COMMANDS = [line for block in blocks(PAGE) for line in block.lines if line.startswith("fedsim ")]
NO_FIGURES = {"without_rc", "save", "plain_ticks"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_can_be_typed(command: str) -> None:
    flags = parser().parse_args(shlex.split(command)[1:])
    assert callable(flags.command)


def test_every_figure_has_its_command_and_its_function() -> None:
    shown = {words[2] for words in map(str.split, COMMANDS) if words[1] == "show"}
    assert shown == set(FIGURES)
    named = set(re.findall(r"`fedsim\.plot\.(\w+)", PAGE.read_text(encoding="utf-8")))
    assert named == {*plot.__all__} - NO_FIGURES


def test_every_picture_is_shown_and_all_of_them_are_small() -> None:
    shown = {link for link in links(PAGE) if link.endswith(".png")}
    there = {f"gallery/{file.name}" for file in (PAGE.parent / "gallery").iterdir()}
    assert there == {link for link in shown if link.startswith("gallery/")}
    assert sum((PAGE.parent / link).stat().st_size for link in shown) < 1e6


@pytest.mark.slow
def test_the_search_picture_is_what_the_code_draws_of_its_trials(tmp_path: Path) -> None:
    committed = PAGE.parent / "search-digits.png"
    code = (
        "import sys, pathlib; sys.path.insert(0, 'docs'); out = pathlib.Path(sys.argv[1])\n"
        "import make_gallery, make_search; make_search.picture(out); make_gallery.small(out, out)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "new.png"], check=True, cwd=ROOT)
    one, new = (
        np.asarray(Image.open(file).convert("RGB")).astype(int)
        for file in (committed, tmp_path / "new.png")
    )
    assert one.shape == new.shape and np.abs(one - new).mean() < 0.5
