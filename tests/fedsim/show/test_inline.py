"""Figures in a page: what they say lies on what they draw; equal ones are equal; names are text."""

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedsim.show.chart import Axis, Chart, Marks, Strip, stacked
from fedsim.show.heat import cell_texts, heat
from fedsim.show.plot.inline import chart_svg, plane_svg
from fedsim.show.style import Look
from tests.support.page import Page
from tests.support.sweepmaker import make_cell, runs_of

_TIP = re.compile(
    r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"><title>(.*?)</title>', re.S
)
BLUE = Look("#0072b2", 0, 0)


def tips(element: str) -> dict[str, tuple[float, ...]]:
    """Left, top, width and height of the rectangle that says each text."""
    return {text: tuple(map(float, box)) for *box, text in _TIP.findall(element)}


def chart(**changes: Any) -> Chart:
    marks = Marks(x=[1.0, 3.0], y=[0.25, 0.5], look=BLUE, name="a", texts=["one", "two"])
    return Chart(title="never shown", x=Axis("x"), y=Axis("y"), marks=[replace(marks, **changes)])


def test_a_text_lies_on_its_mark() -> None:
    element = chart_svg(chart(), "a")
    use = re.compile(r'<use xlink:href="#\w+" x="([\d.]+)" y="([\d.]+)" style="fill: #0072b2')
    drawn = [(float(x), float(y)) for x, y in use.findall(element)]
    boxes = [*tips(element).values()][:2]
    assert [*tips(element)] == ["one", "two"] and len(drawn) >= 2
    for (x, y), (left, top, wide, high) in zip(drawn, boxes, strict=False):
        assert (left + wide / 2, top + high / 2) == pytest.approx((x, y), abs=0.2)
    assert "never shown" not in element


def test_crowded_marks_of_a_line_share_a_text_and_its_last_has_one() -> None:
    count = 5000
    line = np.linspace(0, 1, count)
    shown = chart(x=line, y=line, texts=[f"at {k}" for k in range(count)])
    said = [*tips(chart_svg(shown, "a"))]
    assert 20 < len(said) < 250 and said[0] == "at 0" and said[-1] == f"at {count - 1}"


def test_bars_follow_each_other_and_say_their_parts() -> None:
    parts = {
        "a": ("#0072b2", np.array([1.0, 0.0]), ["a first", "a second"]),
        "b": ("#d55e00", np.array([3.0, 4.0]), ["b first", "b second"]),
    }
    found = tips(chart_svg(stacked(parts, ["first", "second"], Axis("x")), "a"))
    assert [*found] == ["a first", "b first", "b second"]  # none has no place
    (left, top, wide, high), (after, _, wider, _), (start, below, widest, _) = found.values()
    assert after == pytest.approx(left + wide, abs=0.2) and start == left and below > top + high
    assert (wider / wide, widest / wide) == pytest.approx((3, 4), rel=0.01)


def test_a_strip_says_what_leads() -> None:
    shown = replace(chart(), x=Axis("x", "bits"), strip=Strip("best", [(1, 2, "a")], {"a": BLUE}))
    assert "a is best\nfrom 1 bit to 2 bit" in tips(chart_svg(shown, "a"))


def test_cells_say_their_numbers() -> None:
    runs = runs_of([make_cell(n, p, 0.5 + p + n / 100) for n in (1, 10) for p in (0.1, 0.01)])
    runs = runs.assign(down_wire_bits=8.0, down_content_bits=8.0, seconds=1.0)
    shown = heat(runs)
    ((name, grid),) = shown.panels.items()
    texts = cell_texts(runs, grid)
    found = tips(plane_svg(shown, name, texts, "a"))
    assert [*found] == [*texts.flat] and "accuracy 0.6100" in texts[0, 0]
    first, right, below, _ = found.values()
    assert right[0] == pytest.approx(first[0] + first[2], abs=0.2) and right[1] == first[1]
    assert below[1] == pytest.approx(first[1] + first[3], abs=0.2) and below[0] == first[0]


def test_equal_figures_are_equal_and_share_no_id_with_others() -> None:
    first, other = chart_svg(chart(), "first"), chart_svg(chart(), "other")
    assert first == chart_svg(chart(), "first")
    ids = [{*re.findall(r' id="(.*?)"', element)} for element in (first, other)]
    assert ids[0] and not ids[0] & ids[1]


def test_names_are_text_as_users_wrote_them() -> None:
    evil = '</svg><script>$x_1$ 0.123456 id="a" 漢'
    element = chart_svg(chart(name=evil, texts=[evil, evil]), "a")
    page = Page(element)
    assert "script" not in {tag for tag, _ in page.tags}
    assert page.text.count(evil) == 3  # in the legend, and on both marks
