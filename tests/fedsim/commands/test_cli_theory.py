"""``fedsim theory``: tables for people, documents for programs, refusals in a line."""

import json

import pytest

from compressors import ROWS
from fedsim.measure.theory import tables
from tests.support.commands import Typed

NAMES = ("table1", "tableI", "bounds", "position-bits", "dithering", "deepreduce")


def test_the_list(typed: Typed) -> None:
    said = typed("theory")
    assert (said.code, said.err) == (0, "")
    assert all(name in said.out for name in NAMES)
    found = json.loads(typed("theory", "--json").out)
    assert tuple(row["name"] for row in found) == NAMES == tuple(tables.THEORY_TABLES)
    assert all(row["title"] and row["source"] for row in found)


@pytest.mark.parametrize("name", NAMES)
def test_a_table(name: str, typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = typed("theory", name)
    assert (shown.code, shown.err) == (0, "")
    assert max(map(len, shown.out.splitlines())) <= 100
    said = typed("theory", name, "--json")
    assert (said.code, said.err, said.out.count("\n")) == (0, "", 1)
    document = json.loads(said.out)
    assert set(document) == {"table", "title", "source", "entries", "notes", "rows"}
    assert document["table"] == name and document["rows"]
    assert all(set(row) == set(document["rows"][0]) for row in document["rows"])
    assert " ".join(document["title"].split()[:3]) in shown.out


def rows(typed: Typed, *arguments: str) -> list[dict]:
    return json.loads(typed("theory", *arguments, "--json").out)["rows"]


def test_position_bits_flag_what_is_printed(typed: Typed) -> None:
    found = {row["p"]: row for row in rows(typed, "position-bits")}
    assert found[0.01]["printed"] == 8.38
    assert found[0.01]["eq5"] == pytest.approx(8.10791, abs=5e-6)
    assert found[0.01]["b"] == 6
    assert all(row["entropy"] <= row["golomb_bits"] <= row["eq5"] for row in found.values())


def test_bounds_cover_the_catalogue(typed: Typed) -> None:
    small, large = (rows(typed, "bounds", "--entries", d) for d in ("100", "10000"))
    assert [row["name"] for row in small] == [row.name for row in ROWS]
    for row in small:
        numbers = (row["omega"] is not None, row["delta"] is not None)
        assert numbers == (row["class"] == "unbiased", row["class"] == "contraction")
        assert row["note"]
    one = {row["name"]: row for row in large}
    assert one["cnat"]["omega"] == 0.125 and one["cnat"]["expected_bits"] == 9
    assert one["l1_sign"]["delta"] == 1e-4


def test_variances_of_normal_entries_need_many(typed: Typed) -> None:
    """What is told for large d is off by 0.3 % at 100, and by more below."""
    few, many = (rows(typed, "dithering", "--entries", d)[3] for d in ("99", "100"))
    names = ("natural_gaussian", "same_gaussian", "many_gaussian")
    assert {few[name] for name in names} == {None} and few["natural_equal"] > 0
    assert all(many[name] > 0 for name in names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("table2",), "unknown table 'table2' (did you mean tableI?); known are table1, tableI"),
        (("tableI", "--entries", "5"), "tableI does not depend on D"),
        (("bounds", "--entries", "0"), "--entries is 0: give a whole number from 1"),
        (("bounds", "--entries", "x"), "--entries is 'x': give a whole number"),
        (("--entries", "5"), "--entries goes with a table"),
    ],
)
def test_refusals(arguments: tuple[str, ...], said: str, typed: Typed) -> None:
    ended = typed("theory", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err and len(ended.err.splitlines()) <= 2
