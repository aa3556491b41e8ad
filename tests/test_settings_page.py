"""The page of settings is what their declarations say."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "make_settings.py"))["page"]()
    written = (DOCS / "settings.md").read_text(encoding="utf-8")
    assert written == page, "run: python docs/make_settings.py"
