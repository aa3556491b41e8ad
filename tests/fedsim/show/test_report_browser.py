"""The report in a browser: no errors, no requests, at the pointer, by keyboard, on a phone."""

import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fedsim.show.report import write
from tests.support.sweepmaker import TOPK, make_sweep

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is in the dev extra")
CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed (apt-get install it)"),
]
DESKTOP, PHONE = (1280, 900), (390, 844)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of a report of two methods and of one of one, whose metric is perplexity."""
    root = tmp_path_factory.mktemp("reports")
    make_sweep(root / "a", failed=[(100, 0.001)], missing=[(10, 0.1)])
    make_sweep(root / "b", form=TOPK)
    make_sweep(root / "one", perplexity=True, seeds=(0, 1))
    two = write(root / "a", root / "b", out=root / "two")
    return {"two": two.as_uri(), "one": write(root / "one").as_uri()}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


class Opened:
    """A page, and what it asked for and complained of while it loaded and was used."""

    def __init__(self, browser: Any, address: str, size: tuple[int, int]) -> None:
        width, height = size
        self.page = browser.new_page(viewport={"width": width, "height": height})
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.page.wait_for_selector("#chart-split .main-svg")
        self.page.wait_for_timeout(500)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("name", ["two", "one"])
def test_it_loads_without_errors_requests_and_sideways_scrolling(
    browser: Any, pages: dict[str, str], name: str, size: tuple[int, int]
) -> None:
    opened = Opened(browser, pages[name], size)
    assert opened.errors == []
    assert opened.requests == [pages[name]]
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    for chart in page.query_selector_all(".plotly-graph-div"):
        box, drawn = chart.bounding_box(), chart.query_selector(".main-svg").bounding_box()
        frame = chart.evaluate("chart => chart.closest('figure').getBoundingClientRect().height")
        assert drawn["height"] <= frame + 1  # else it lies over what follows
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0]
        plot = chart.query_selector(".xy, .cartesianlayer .bg, .plot").bounding_box()
        assert plot is not None and plot["height"] > 90, chart.get_attribute("id")
    page.close()


def test_the_pointer_on_a_cell_shows_its_numbers(browser: Any, pages: dict[str, str]) -> None:
    opened = Opened(browser, pages["two"], DESKTOP)
    page = opened.page
    image = page.query_selector("#chart-metric .heatmaplayer image")
    image.scroll_into_view_if_needed()
    box = image.bounding_box()
    # Row n = 10 of 3, column p = 0.01 of 4: cells (10, 0.01) of gradient dropping.
    page.mouse.move(box["x"] + box["width"] * 5 / 8, box["y"] + box["height"] / 2)
    page.wait_for_selector("#chart-metric .hoverlayer .hovertext")
    said = page.text_content("#chart-metric .hoverlayer .hovertext")
    assert "n = 10, p = 0.01" in said and "total sparsity p/n = 0.001" in said
    assert "accuracy 0.9" in said and "kbit (wire)" in said and "ratio ×" in said
    assert opened.errors == []
    page.close()


def test_the_keyboard_reaches_sections_charts_and_cells(
    browser: Any, pages: dict[str, str]
) -> None:
    opened = Opened(browser, pages["two"], PHONE)
    page = opened.page
    links = page.eval_on_selector_all("nav a", "found => found.map(a => a.hash.slice(1))")
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(a => a.tagName === 'A' ? a.hash.slice(1) : a.tagName === 'FIGURE' ? "
            "a.querySelector('.plotly-graph-div').id : a.className)(document.activeElement)"
        )
        reached.append(here)
        if here == "chart-layers":
            break
    assert reached[: len(links)] == links and "wide" in reached
    assert {"chart-metric", "chart-metric-2", "chart-bits", "chart-split"} <= set(reached)
    page.focus("figure:has(#chart-metric)")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    assert "n = 10, p = 0.1," in page.text_content("#said")
    page.wait_for_selector("#chart-metric .hoverlayer .hovertext:has-text('n = 10, p = 0.1')")
    page.focus("figure:has(#chart-budget)")
    lines = []
    for _ in range(3):
        page.keyboard.press("ArrowDown")
        lines.append(page.text_content("#said").split(", n = ")[0])
    assert lines == ["dense", "raw", "gradient_dropping"]
    page.focus(f"nav a[href='#{links[-1]}']")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == links[-1]
    assert opened.errors == []
    page.close()


def test_home_end_and_escape_stay_in_the_chart(browser: Any, pages: dict[str, str]) -> None:
    opened = Opened(browser, pages["two"], DESKTOP)
    page = opened.page

    def said(*keys: str) -> str:
        for key in keys:
            page.keyboard.press(key)
        return page.text_content("#said")

    page.focus("figure:has(#chart-metric)")
    here = page.evaluate("scrollY")
    assert "n = 1, p = 0.001," in said("End") and "n = 1, p = 1 (dense)," in said("Home")
    assert "n = 10, p = 0.001," in said("ArrowDown", "End")
    page.focus("figure:has(#chart-bits)")
    here = page.evaluate("scrollY")
    assert "dense, n = 1, " in said("End") and "32.0 Mbit" in said()
    assert "dense, n = 1, " in said("Home") and "320 kbit" in said()
    page.wait_for_selector("#chart-bits .hoverlayer .hovertext")
    assert said("Escape") == "" and page.evaluate("scrollY") == here
    assert page.query_selector("#chart-bits .hoverlayer .hovertext") is None
    assert page.evaluate("document.activeElement.querySelector('#chart-bits') !== null")
    page.focus("figure:has(#chart-budget)")
    assert " is best, from " in said("ArrowDown", "ArrowUp")  # round to the last: the strip
    page.wait_for_selector("#chart-budget .hoverlayer .hovertext:has-text('is best')")
    assert opened.errors == []
    page.close()


def test_a_wide_table_says_that_it_scrolls(browser: Any, pages: dict[str, str]) -> None:
    table, hint = "[aria-label='Summary table']", "p:has(+ [aria-label='Summary table'])"
    desk = Opened(browser, pages["two"], DESKTOP).page
    assert desk.evaluate(
        f'(t => t.scrollWidth <= t.clientWidth)(document.querySelector("{table}"))'
    )
    assert not desk.is_visible(hint)
    desk.close()
    phone = Opened(browser, pages["two"], PHONE).page
    assert phone.is_visible(hint) and "scroll" in phone.text_content(hint)
    seen = phone.query_selector(f"{table} th:nth-child(5)").bounding_box()
    assert seen["x"] + seen["width"] < PHONE[0]  # with the method, n, p and p/n: the metric
    phone.eval_on_selector(table, "table => table.scrollLeft = 300")
    first = phone.query_selector(f"{table} tbody tr:last-child td")
    assert first.text_content() == "sbc" and 0 <= first.bounding_box()["x"] <= 20
    phone.close()


def ticks(page: Any, chart: str) -> list[str]:
    return page.eval_on_selector_all(
        f"{chart} .xaxislayer-above .xtick text", "found => found.map(t => t.textContent)"
    )


def wait_until(page: Any, done: Callable[[], bool]) -> None:
    """Until the page has drawn what is wanted, at most 30 seconds."""
    until = time.monotonic() + 30
    while not done() and time.monotonic() < until:
        page.wait_for_timeout(100)


def test_a_part_of_a_chart_is_zoomed_into_and_out_of(browser: Any, pages: dict[str, str]) -> None:
    opened = Opened(browser, pages["two"], DESKTOP)
    page = opened.page
    page.evaluate("document.querySelector('#chart-bits').scrollIntoView({block: 'center'})")
    span = "(c => c.layout.xaxis.range.slice())(document.querySelector('#chart-bits'))"
    before, first = page.evaluate(span), ticks(page, "#chart-bits")
    assert {"100 kbit", "1 Mbit"} <= {*first}
    box = page.query_selector("#chart-bits .draglayer .nsewdrag").bounding_box()
    x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.2 * box["height"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 0.05 * box["width"], y + 0.5 * box["height"], steps=5)
    page.mouse.up()
    wait_until(page, lambda: ticks(page, "#chart-bits") != first)
    page.wait_for_timeout(500)
    after = page.evaluate(span)
    assert after[1] - after[0] == pytest.approx(0.05 * (before[1] - before[0]), rel=0.1)
    near = ticks(page, "#chart-bits")
    assert len(near) > 1 and near != first and all(" " in text for text in near)
    page.mouse.dblclick(x, y)
    wait_until(page, lambda: ticks(page, "#chart-bits") == first)
    assert page.evaluate(span) == pytest.approx(before) and ticks(page, "#chart-bits") == first
    assert opened.errors == []
    page.close()
