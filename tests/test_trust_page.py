"""The tables of lying clients and of noise are those of their files, and named tests are there."""

import re
import runpy

from tests.support.markdown import ROOT

TEXT = (ROOT / "docs" / "trust.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_files() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_trust.py"))
    assert made["page"]() == TEXT, "run: PYTHONPATH=. python docs/make_trust.py --page"
    rows = made["read"](made["ROBUST"])
    assert len(rows) == len(made["METHODS"]) * len(made["RULES"]) * len(made["ATTACKS"])
    assert all(len(row["accuracy"].split()) == made["SEEDS"] for row in rows)


def test_every_test_that_keeps_a_promise_is_there() -> None:
    names = set(re.findall(r"`([\w/]*test_\w+\.py)(?:::\w+)?`", TEXT))
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    assert len(names) > 12
    for name in names:
        assert (ROOT / name).exists() if "/" in name else name in files, name
    for file, test in re.findall(r"`([\w/]*test_\w+\.py)::(\w+)`", TEXT):
        (path,) = (ROOT / "tests").rglob(file.rpartition("/")[2])
        assert f"def {test}(" in path.read_text(encoding="utf-8"), test


def test_the_faults_are_those_that_tests_and_drivers_wrote_down() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_faults.py"))
    for page, text in made["pages"]().items():
        assert page.read_text(encoding="utf-8") == text, "run: python docs/make_faults.py"
    kills, files = made["read"]("kills.csv"), made["read"]("crashes.csv")
    assert f"| {len(kills)} | nothing |" in TEXT
    assert len({tuple(row.values()) for row in kills}) == len(kills) > 8
    assert all(int(row["tried"]) <= int(row["points"]) for row in files)


def test_as_many_federations_are_drawn_as_the_page_says() -> None:
    drawn = (ROOT / "tests/fedsim/runs/test_whole_federations.py").read_text(encoding="utf-8")
    (few,) = re.findall(r"max_examples=(\d+)", drawn)
    (many,) = re.findall(r'"FEDSIM_FEDERATIONS", "(\d+)"', drawn)
    page = " ".join(TEXT.split())
    assert f"{few} drawn federations are, in the gate, and {many} in `make test-all`" in page


def test_every_promise_names_a_test() -> None:
    table = TEXT.partition("## Promises and their tests")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")]
    promises = [row for row in rows if row[0] not in ("promise", "---")]
    assert len(promises) > 20
    assert [row[0] for row in promises if not re.search(r"`[\w/]*test_\w+\.py", row[-1])] == []
