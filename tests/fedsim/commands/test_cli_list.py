"""`fedsim list`: what it lists, as JSON and as tables."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from compressors import ROWS
from fedsim.commands import listing
from fedsim.commands.listing import CODER_KINDS
from fedsim.settings.strategies import kind
from strategies.algorithms import ALGORITHMS
from tests.support.commands import Typed, document

LISTED = {
    "tasks": ("task", {"digits", "mnist_lenet5", "fashion_lenet5"}),
    "methods": (None, {"sbc", "gradient_dropping", "raw", "topk", "one_sided", "mean", "ef"}),
    "coders": (None, {"golomb", "fixed"}),
    "strategies": ("strategy", {*ALGORITHMS}),
    "experiments": ("experiment", {"sbc-table2"}),
    "controllers": ("controller", {"fixed", "warmup", "plateau", "link", "noise", "adacomm"}),
    "samplers": ("sampler", {"uniform", "weighted", "link", "oort", "power_of_choice"}),
    "devices": ("device", {"phones", "boards", "servers"}),
    "columns": (None, {"up_wire_bits", "sim_end_seconds", "tensor", "ratio_both"}),
}


@pytest.mark.parametrize(("what", "wanted"), LISTED.items(), ids=LISTED)
def test_list(
    what: str, wanted: tuple[str, set[str]], typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = typed("list", what, "--json")
    rows = document(said.out)
    assert (said.code, said.err) == (0, "")
    kind, names = wanted
    assert {row["name"] for row in rows} >= names
    last = "unit" if what == "columns" else "source"
    assert all(row[key] for row in rows for key in ("name", "kind", "title", last))
    assert kind is None or {row["kind"] for row in rows} == {kind}
    for columns in (80, 100):
        monkeypatch.setenv("COLUMNS", str(columns))
        said = typed("list", what)
        assert (said.code, said.err) == (0, "")
        assert "…" not in said.out and max(map(len, said.out.splitlines())) <= columns
        assert all(name in said.out for name in names)


def test_strategies_are_listed_with_what_a_text_can_set(typed: Typed) -> None:
    for row in document(typed("list", "strategies", "--json").out):
        names = {f.name for f in fields(kind(row["name"]))} - {"optimizer", "factor", "unused"}
        assert {text.split("=")[0] for text in row["settings"]} == names
    assert "server_lr=0.7, momentum=0.9" in " ".join(typed("list", "strategies").out.split())


def test_methods_are_listed_by_kind(typed: Typed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name once, beneath the heading of its kind, and nothing cut at 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    names = {row["name"] for row in document(typed("list", "methods", "--json").out)}
    assert names == {row.name for row in ROWS if row.kind not in CODER_KINDS}
    said = typed("list", "methods")
    lines = said.out.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in said.out
    first = [line.split(" ")[0] for line in lines]
    headings = [word for word in first if word[:1].isupper()]
    assert headings == list(dict.fromkeys(headings)) and {"Methods", "Quantizers"} <= set(headings)
    assert sorted(word for word in first if word in names) == sorted(names)
    assert first.index("Methods") < first.index("sbc") < first.index("Sparsifiers")
    assert first.index("Sparsifiers") < first.index("topk") < first.index("Quantizers")


def test_every_method_has_the_bibtex_of_its_source(typed: Typed) -> None:
    """Sources that are no papers have none; names and years are those of the catalogue."""
    rows = document(typed("list", "methods", "--json").out)
    for row in rows:
        if row["source"] in ("reference", "fedsim", "IEEE 754"):
            assert row["bibtex"] is None
            continue
        entries = row["bibtex"].split("\n\n")
        for source, entry in zip(row["source"].split("; "), entries, strict=True):
            name, year = re.match(r"(\w+).* (\d{4})", source).groups()
            assert re.match(rf"@\w+\{{[a-z]+{year},\n", entry)
            assert f"  author = {{{name}, " in entry and f"  year = {{{year}}}," in entry
            assert entry.count("{") == entry.count("}") and "  title = {{" in entry
    text = (Path(listing.__file__).parent / "papers.bib").read_text(encoding="utf-8")
    titles = re.findall("^  title = .*", text, re.M)
    assert len({*titles}) == len(titles) == text.count("\n}")
