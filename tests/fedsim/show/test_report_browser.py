"""The report in a browser: no errors, no requests, at the pointer, by keyboard, on a phone."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from fedsim.show.report import report
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
    two = report(root / "a", root / "b", out=root / "two")
    return {"two": two.as_uri(), "one": report(root / "one").as_uri()}


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
        self.page.wait_for_selector("#chart-split svg")

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
    figures = page.query_selector_all("figure")
    assert len(figures) >= 7
    for figure in figures:
        box, drawn = figure.bounding_box(), figure.query_selector("svg").bounding_box()
        assert drawn["height"] <= box["height"] + 1  # else it lies over what follows
        assert box["x"] >= 0 and box["x"] + box["width"] <= size[0]
        assert drawn["height"] > 90 and drawn["width"] > 250, figure.get_attribute("id")
    page.close()


def test_the_pointer_on_a_cell_finds_its_numbers(browser: Any, pages: dict[str, str]) -> None:
    opened = Opened(browser, pages["two"], DESKTOP)
    page = opened.page
    cell = "#chart-metric .tips rect:nth-of-type(7)"  # of 3 rows of 4: n = 10, p = 0.01
    page.query_selector(cell).scroll_into_view_if_needed()
    box = page.query_selector(cell).bounding_box()
    said = page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).querySelector('title').textContent",
        [box["x"] + box["width"] / 2, box["y"] + box["height"] / 2],
    )
    assert "n = 10, p = 0.01" in said and "total sparsity p/n = 0.001" in said
    assert "accuracy 0.9" in said and "kbit (wire)" in said and "ratio ×" in said
    assert opened.errors == []
    page.close()


def test_the_keyboard_reaches_sections_figures_and_tables(
    browser: Any, pages: dict[str, str]
) -> None:
    opened = Opened(browser, pages["two"], PHONE)
    page = opened.page
    links = page.eval_on_selector_all("nav a", "found => found.map(a => a.hash.slice(1))")
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        here = page.evaluate(
            "(a => a.tagName === 'A' ? a.hash.slice(1) : a.tagName === 'FIGURE' ? a.id : "
            "a.className)(document.activeElement)"
        )
        reached.append(here)
        if here == "chart-layers":
            break
    assert reached[: len(links)] == links and "wide" in reached
    assert {"chart-metric", "chart-metric-2", "chart-bits", "chart-split"} <= set(reached)
    page.focus(f"nav a[href='#{links[-1]}']")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == links[-1]
    assert opened.errors == []
    page.close()


def test_a_wide_table_scrolls_within_the_page(browser: Any, pages: dict[str, str]) -> None:
    table = "[aria-label='Summary table']"
    desk = Opened(browser, pages["two"], DESKTOP).page
    assert desk.evaluate(
        f'(t => t.scrollWidth <= t.clientWidth)(document.querySelector("{table}"))'
    )
    desk.close()
    phone = Opened(browser, pages["two"], PHONE).page
    seen = phone.query_selector(f"{table} th:nth-child(5)").bounding_box()
    assert seen["x"] + seen["width"] < PHONE[0]  # with the method, n, p and p/n: the metric
    phone.eval_on_selector(table, "table => table.scrollLeft = 300")
    first = phone.query_selector(f"{table} tbody tr:last-child td")
    assert first.text_content() == "sbc" and 0 <= first.bounding_box()["x"] <= 20
    phone.close()
