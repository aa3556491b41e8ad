"""Pages, help texts and public docstrings are plain sentences, and their lines wrap.

``tests/prose.csv`` counts the sentences of each file that are still refused, and its long lines.
Its counts may only shrink: ``PYTHONPATH=. python tests/test_prose.py`` prints what is refused in
the files that are named, and without a file it lowers the counts. ``docs/wrap.py`` wraps lines.
"""

import ast
import csv
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from runpy import run_path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "tests" / "prose.csv"
WRAP = run_path(str(ROOT / "docs" / "wrap.py"))
PACKAGES = ("fedsim", "strategies", "compressors")
WRAPPED = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
    ROOT.glob("docs/*.md")
)
PAGES = [*WRAPPED, *sorted(ROOT.glob("experiments/**/README.md"))]
MODULES = sorted(m for package in PACKAGES for m in ROOT.glob(f"{package}/**/*.py"))

_SUBJECT = "the|a|an|it|they|this|that|these|those|no|every|each|its|there|he|she|we|you"
_VERB = "is|are|was|were|has|have|had|do|does|did|can|cannot|could|may|might|must|will|would|should"
_SPEAKER = (
    r"(?:`x`|\.md|\b(?:pages?|files?|commands?|tables?|columns?|lines?|tests?|messages?|summary|report"
    r"|README|docstrings?|help|section|catalogue|list|titles?|captions?|figures?|rows?))"
)
REFUSED = {
    "begins with Of": r"(?:^|[.!?:;] )Of (?:an?|the|every|each|what)\b",
    ", for (because)": rf", for (?:{_SUBJECT})\b[^,.;:]* (?:{_VERB})\b",
    "what became of": r"\bwhat (?:became|becomes|has become|had become) of\b",
    "likewise": r"\b[Ll]ikewise\b",
    "alike": r"\balike\b",
    "whatever": r"\b[Ww]hatever\b",
    "of use": r"\bof use\b",
    "the like": r"\bthe like\b(?!l)",
    "as ever": r"\bas ever\b",
    "but for": r"\bbut for\b",
    "is told": r"\b(?:is|are|was|were) told\b",
    "beside": r"\b[Bb]eside\b",
    "stands": r"\bstands?\b(?!-| (?:for|in for|alone)\b)",
    "is no": r"(?<![Tt]here )\b(?:is|are) no (?!longer|more|less|fewer|larger|smaller)\w",
    "whether or not": r"\bwhether\b[^.:;?!]*\bor not\b",
    "What ... is": r"^What\b[^.!?:;|]*\b(?:is|are)\b[^?]*$",
    "says, tells": rf"{_SPEAKER} (?:also |then |alone )?(?:says?|tells?)\b",
}
PATTERNS = {name: re.compile(pattern) for name, pattern in REFUSED.items()}

_CODE = re.compile(r"(`+)[^`].*?\1", re.DOTALL)
_LINK = re.compile(r"!?\[([^][]*)\]\([^)]*\)")
_END = re.compile(r"(?<=[.!?])[*)\"']* +(?=[^a-z])")
_DOCSTRING = re.compile(r'^ +r?"""(.+?)"""', re.MULTILINE | re.DOTALL)
_HEADER = re.compile(r"\s*(?:async def|def|class) (\w+)")


def plain(text: str) -> str:
    """The text on one line, with ``x`` for inline code, and links by their texts."""
    return _LINK.sub(r"\1", " ".join(_CODE.sub("`x`", text).split())).replace("**", "")


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph, without marks of a list in front."""
    return [s.strip(" *_(") for s in _END.split(re.sub(r"^(?:[-*+]|\d+\.) +", "", plain(text)))]


def refused(text: str) -> list[tuple[str, str]]:
    """The name of each pattern and the sentence of a text in which it is found."""
    return [(name, s) for s in sentences(text) for name, p in PATTERNS.items() if p.search(s)]


def of_page(text: str) -> Iterator[str]:
    """The paragraphs, list items and cells of a page in Markdown."""
    for _, block in WRAP["paragraphs"](text):
        yield "\n".join(block)
    for line in re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL).splitlines():
        if line.startswith("|"):
            yield from re.split(r"(?<!\\)\|", line.strip("| "))
        elif re.match("#+ ", line) and " What " not in line:  # a heading may be such a clause
            yield line.strip("# ")


def docstrings(text: str) -> Iterator[str]:
    """The docstrings of a module's public functions, methods and classes."""
    for found in _DOCSTRING.finditer(text):
        above = text[: found.start()].rstrip("\n").rsplit("\n", 12)[1:]
        if not above or not above[-1].rstrip().endswith(":"):
            continue
        header = next((m for line in reversed(above) if (m := _HEADER.match(line))), None)
        if header and not header[1].startswith("_"):
            lines = found[1].splitlines()
            code = ("...", ">>>")
            kept = "\n".join(x for x in lines if not x.strip().startswith(code))
            yield from re.split(r"\n\s*\n", kept)


def help_texts(text: str) -> Iterator[str]:
    """The texts of a module that help shows: of flags, and of settings."""
    if not re.search(r"\b(?:help|description|epilog)=|\bsetting\(", text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            given = [k.value for k in node.keywords if k.arg in ("help", "description", "epilog")]
            if isinstance(node.func, ast.Name) and node.func.id == "setting":
                given += node.args[1:2]
            for value in given:
                parts = [c.value for c in ast.walk(value) if isinstance(c, ast.Constant)]
                yield "".join(part for part in parts if isinstance(part, str))


def texts(path: Path) -> Iterator[str]:
    """The paragraphs of a page, or the docstrings and help texts of a module."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from of_page(text)
    else:
        yield from docstrings(text)
        yield from help_texts(text)


def faults(path: Path) -> list[tuple[str, str]]:
    return [fault for text in texts(path) for fault in refused(text)]


def long_lines(path: Path) -> list[int]:
    return WRAP["long_lines"](path.read_text(encoding="utf-8")) if path in WRAPPED else []


@cache
def listed() -> dict[str, tuple[int, int]]:
    """The sentences and the long lines of each file that the list still allows."""
    with COUNTS.open(encoding="utf-8", newline="") as file:
        return {r["file"]: (int(r["sentences"]), int(r["lines"])) for r in csv.DictReader(file)}


def counted() -> dict[str, tuple[int, int]]:
    """What :func:`listed` becomes."""
    counts = {
        str(p.relative_to(ROOT)): (len(faults(p)), len(long_lines(p))) for p in [*PAGES, *MODULES]
    }
    return {name: count for name, count in counts.items() if any(count)}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sentences_of_a_page_are_plain(page: Path) -> None:
    compare(page, [f"{name}: {sentence}" for name, sentence in faults(page)], 0)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_help_texts_are_plain(package: str) -> None:
    for module in MODULES:
        if module.is_relative_to(ROOT / package):
            compare(module, [f"{name}: {sentence}" for name, sentence in faults(module)], 0)


@pytest.mark.parametrize("page", WRAPPED, ids=lambda p: str(p.relative_to(ROOT)))
def test_lines_of_a_page_wrap(page: Path) -> None:
    compare(page, [f"line {number}: above 120 characters" for number in long_lines(page)], 1)


def compare(path: Path, found: list[str], column: int) -> None:
    """Fails where a file has more than the list allows."""
    name = str(path.relative_to(ROOT))
    allowed = listed().get(name, (0, 0))[column]
    assert len(found) <= allowed, f"{name}: {allowed} allowed:\n" + "\n".join(found)


BAD = {
    "begins with Of": "Of a refused upload `price` knows the payload alone.",
    ", for (because)": "It waits, for the server is busy.",
    "what became of": "The column has what became of an update.",
    "likewise": "It is ignored likewise.",
    "alike": "for every client alike.",
    "whatever": "whatever was on its way is lost.",
    "of use": "An answer without a name of use.",
    "the like": "norms and the like",
    "as ever": "the others count as ever.",
    "but for": "All but for one are equal.",
    "is told": "Its mean is told.",
    "beside": "A table beside the figure.",
    "stands": "The row stands there.",
    "is no": "That is no second failure.",
    "whether or not": "whether it is late or not.",
    "What ... is": "What a reply says is checked.",
    "says, tells": "`fedsim doctor` says why.",
}
GOOD = [
    "What is counted?",
    "It is no longer there.",
    "There is no rule.",
    "`is told` is refused.",
    "p stands for density.",
    "e.g. a run, for example `sbc`.",
    "The round is over. It counts.",
]


@pytest.mark.parametrize("name", PATTERNS)
def test_each_pattern_refuses_its_sentence(name: str) -> None:
    assert [n for n, _ in refused(f"First. {BAD[name]}")] == [name]


def test_plain_sentences_pass() -> None:
    assert refused(" ".join(GOOD)) == []


def test_code_is_not_read_and_cells_are() -> None:
    page = "```\nOf a\n```\n\n    Of a\n\n* One.\n* Of the\n  two.\n\n| a | Of an x |\n"
    assert [n for text in of_page(page) for n, _ in refused(text)] == ["begins with Of"] * 2


def test_docstrings_of_public_names_and_help_are_read() -> None:
    text = 'def _f():\n    """alike"""\n\nclass A:\n    """alike"""\n    x = 1\n    """alike"""\n'
    assert [*docstrings(text)] == ["alike"]
    assert [*help_texts('f(help=f"a {x} alike")\nsetting(0, "b" "c")\n')] == ["a  alike", "bc"]


def test_wrapping_keeps_words_links_and_marks() -> None:
    link = f"[{'a link ' * 3}](page.md)"
    item = "* " + "word " * 22 + link + " `code of words` - 1. end"
    text = f"# {'h' * 130}\n\n{item}\n\n| {'c' * 130} |\n"
    assert WRAP["long_lines"](text) == [3]
    after = WRAP["rewrapped"](text)
    assert after.split() == text.split() and WRAP["long_lines"](after) == []
    assert link in after and "`code of words`" in after
    assert all(len(line) <= 120 for line in after.splitlines()[2:4])
    assert all(not line.startswith(("  - ", "  1. ")) for line in after.splitlines())


if __name__ == "__main__":
    for path in [Path(name).resolve() for name in sys.argv[1:]]:
        print(*(f"{path.name}: {name}: {s}" for name, s in faults(path)), sep="\n")
        print(*(f"{path.name}:{number}: long" for number in long_lines(path)), sep="\n")
    if not sys.argv[1:]:
        counts = {n: tuple(map(min, c, listed().get(n, (0, 0)))) for n, c in counted().items()}
        with COUNTS.open("w", encoding="utf-8", newline="") as file:
            rows = [(name, *count) for name, count in sorted(counts.items()) if any(count)]
            csv.writer(file, lineterminator="\n").writerows([("file", "sentences", "lines"), *rows])
