"""Pages that scripts of ``docs`` make are what the scripts make today."""

import runpy

import pytest

from tests.support.markdown import ROOT

PAGES = {
    "catalogue": "catalogue.md",
    "columns": "columns.md",
    "compositions": "compositions.md",
    "first_minutes": "first-steps.md",
    "framing": "flower-engine.md",
    "networks": "networks.md",
    "privacy": "privacy.md",
    "quickstart": "flower.md",
    "secagg": "secagg.md",
    "settings": "settings.md",
    "trust": "trust.md",
}


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_up_to_date(name: str) -> None:
    page = runpy.run_path(str(ROOT / "docs" / f"make_{name}.py"))["page"]()
    written = (ROOT / "docs" / PAGES[name]).read_text(encoding="utf-8")
    assert written == page, f"run: PYTHONPATH=. python docs/make_{name}.py (--page, if it has that)"
