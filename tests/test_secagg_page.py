"""The tables of secure aggregation are those of their file, and its bits those of the protocol."""

import runpy

from tests.support.markdown import ROOT

MADE = runpy.run_path(str(ROOT / "docs" / "make_secagg.py"))


def test_the_tables_are_those_of_the_file() -> None:
    rows = MADE["read"]()
    assert len(rows) == len(MADE["ROWS"]) * MADE["SEEDS"]
    assert MADE["sizes"](3) == (336, 385)  # tests/strategies/test_secagg.py
    up, down = (8 * 8 * size for size in MADE["sizes"](10))  # in 8 rounds
    for row in rows:
        secure = row["strategy"] == "secagg"
        assert int(row["up_keys"]) == up * secure
        if not row["dropout"]:
            assert int(row["down_keys"]) == down * secure
