"""The coverage page lists every numbered item of the papers once, and its paths exist."""

import re
from collections import Counter
from typing import NamedTuple

import pytest

from tests.support.looping import looped
from tests.support.markdown import ROOT

PAGE = ROOT / "docs" / "coverage.md"
NUMBERED = {
    "Sparse Binary Compression": {
        "Algorithm": range(1, 5), "Theorem": ["II.1"], "Table": ["I", "II", "III"],
        "Fig.": range(1, 10), "Equation": range(1, 8),
    },
    "Gradient dropping": {"Algorithm": [1], "Table": range(1, 3), "Fig.": range(1, 9)},
    "Huffman-based encoders": {
        "Algorithm": [1], "Lemma": range(1, 4), "Assumption": [1], "Table": range(1, 5),
        "Fig.": range(1, 4), "Equation": [1],
    },
    "Natural compression": {
        "Algorithm": [1], "Definition": [1, 2, 6], "Theorem": [3, 4, 5, 7, 8, 9],
        "Table": range(1, 4), "Fig.": range(1, 23), "Equation": range(1, 6),
    },
    "DeepReduce": {
        "Algorithm": [1], "Lemma": range(1, 12), "Remark": range(1, 6), "Table": range(1, 4),
        "Fig.": range(1, 16), "Equation": range(1, 18),
    },
    "Federated averaging": {"Algorithm": [1], "Table": range(1, 4), "Fig.": range(1, 6)},
}  # fmt: skip
"""What the papers number, by their own numbers."""

STATES = {"done", "partly", "left out"}
AS_PUBLISHED = {
    "Sparse Binary Compression": ("Table I",),
    "Gradient dropping": ("Fig. 1",),
    "Natural compression": ("Fig. 1", "Fig. 16 to 18"),
}
"""Items that an experiment runs as the paper has them: theory, and vectors of normal entries."""

LACKS = re.compile(
    r"\bleft out\b|\bnot (run|trained|there|here)\b|\bshort(ened|er)\b|\bsmaller\b"
    r"|\bin place of\b|\b\d+ iterations\b"
)
"""What a cell says of an item that is not all here, or not as in the paper."""
FOLDERS = ("compressors/", "strategies/", "fedsim/", "experiments/", "docs/", "tests/")


class Item(NamedTuple):
    """A row of the page: ``names`` are its single items."""

    paper: str
    names: list[str]
    what: str
    state: str
    where: str


def expanded(cell: str) -> list[str]:
    """``Fig. 5 to 7, 9`` as its items."""
    kind, numbers = cell.split(" ", 1)
    names = []
    for part in numbers.split(", "):
        first, _, last = part.partition(" to ")
        span = range(int(first), int(last) + 1) if last else [first]
        names += [f"{kind} {number}" for number in span]
    return names


def sections() -> dict[str, list[Item]]:
    """The page's rows by paper."""
    found = {}
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title = section.split(" (")[0]
        lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
        cells = [re.split(r"(?<!\\) ?\| ?", line)[1:-1] for line in lines]
        assert all(len(row) == 4 for row in cells), title
        found[title] = [Item(title, expanded(row[0]), *row[1:]) for row in cells]
    return found


SECTIONS = sections()
ITEMS = [
    pytest.param(item, id=f"{title}: {', '.join(item.names)}")
    for title, items in SECTIONS.items()
    for item in items
]


def test_the_papers() -> None:
    assert set(SECTIONS) == set(NUMBERED)


@pytest.mark.parametrize("title", NUMBERED)
def test_every_numbered_item_is_listed_once(title: str) -> None:
    wanted = {f"{kind} {n}" for kind, numbers in NUMBERED[title].items() for n in numbers}
    listed = Counter(name for item in SECTIONS[title] for name in item.names)
    assert sorted(wanted - set(listed)) == [], "missing on the page"
    assert sorted(set(listed) - wanted) == [], "not in the paper"
    assert [name for name, count in listed.items() if count > 1] == []


@looped("item", [item.values[0] for item in ITEMS])
def test_an_item_says_how_it_stands(item: Item) -> None:
    assert item.what and item.where
    assert item.state in STATES
    if item.state == "done":
        assert paths(item.where) or "as " in item.where or "`fedsim`" in item.where
    run = any(path.startswith("experiments/") for path in paths(item.where))
    if item.state == "partly":
        assert run, "what was run in its place?"
    if item.state == "done":
        assert not LACKS.search(item.where), "what is not all here is `partly`"
    if item.state == "done" and run:
        names = {name for text in AS_PUBLISHED.get(item.paper, ()) for name in expanded(text)}
        assert set(item.names) <= names, "another model, other data or length is `partly`"


def paths(text: str) -> list[str]:
    """Files and folders of the project that a text names."""
    return [name for name in re.findall(r"`([^`\s]+)`", text) if name.startswith(FOLDERS)]


def test_every_path_exists() -> None:
    named = paths(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 50
    missing = sorted({name for name in named if not (ROOT / name).exists()})
    assert not missing, f"docs/coverage.md names what is not there: {', '.join(missing)}"
