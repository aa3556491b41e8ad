"""The page of networks has every preset, as the table says."""

import runpy

from tests.support.markdown import ROOT


def test_the_table_of_presets_is_up_to_date() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "make_networks.py"))["page"]()
    written = (ROOT / "docs" / "networks.md").read_text(encoding="utf-8")
    assert written == page, "run: python docs/make_networks.py"
