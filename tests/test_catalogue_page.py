"""The catalogue page is what the table of compressors says."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_up_to_date() -> None:
    page = runpy.run_path(str(DOCS / "make_catalogue.py"))["page"]()
    written = (DOCS / "catalogue.md").read_text(encoding="utf-8")
    assert written == page, "run: python docs/make_catalogue.py"
