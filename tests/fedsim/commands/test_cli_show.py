"""``fedsim show``: a figure as a file."""

from pathlib import Path

import pytest

from fedsim.commands.show import FIGURES
from tests.support.commands import Typed, lacking
from tests.support.sweepmaker import make_sweep


@pytest.mark.parametrize("figure", FIGURES)
def test_each_flag_has_a_sentence_of_help(figure: str, typed: Typed) -> None:
    assert lacking(typed("show", figure, "--help").out) == []


def test_a_figure_is_drawn_into_a_file(tmp_path: Path, typed: Typed) -> None:
    make_sweep(tmp_path / "made", (10,), (0.1,))
    made, more = tmp_path / "made", ("--style", "paper", "--figsize", "3,2")
    assert typed("show", "curves", made, "--x", "up_bits", *more, "--out", "a.png").code == 0
    width = int.from_bytes(Path("a.png").read_bytes()[16:20], "big")
    assert width == 900  # 3 inch at 300 dpi
    said = typed("show", "partition", "--partition", "dirichlet(0.5)", "--out", "b.svg")
    assert said.out == "Written: b.svg\n" and "<svg" in Path("b.svg").read_text()
    assert typed("show", "budget", made).out == "Written: budget.png\n"
    refused = typed("show", "pareto", made, "--figsize", "3")
    assert refused.code == 2 and "--figsize is '3': it takes two numbers" in refused.err
