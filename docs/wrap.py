"""Wraps the prose of Markdown pages at 120 characters: ``python docs/wrap.py [PAGE ...]``.

Only paragraphs and list items with a longer line change. Tables, headings, code and HTML keep their
lines, and so do links and inline code, which are never broken.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 120
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

_FENCE = re.compile(r"\s*(```|~~~)")
_MARK = re.compile(r"( *)([-*+]|\d+[.)]) +")
_RAW = re.compile(r"\s*(#|\||<|>|!!!|---+$|===+$|\[[^]]+\]:)")
_WHOLE = re.compile(r"(`+)[^`].*?\1|!?\[(?:[^][]|`[^`]*`)*\]\([^)]*\)", re.DOTALL)
_SYNTAX = re.compile(r"[-*+]|\d+[.)]|#+|[>|=].*|-{2,}|```.*|:.*")
"""Words that would begin a block if they began a line."""


def paragraphs(text: str) -> Iterator[tuple[int, list[str]]]:
    """The number of the first line and the lines of each paragraph or list item of a page."""
    block: list[str] = []
    start, fence, in_list = 0, "", False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        opened = _FENCE.match(line)
        if fence or opened:
            mark_of_fence = opened[1] if opened else ""
            fence = "" if fence and mark_of_fence == fence else fence or mark_of_fence
            kept = False
        else:
            mark = _MARK.match(line)
            in_list = bool(mark) or in_list and (not line or line.startswith(" ") or bool(block))
            code = line.startswith("    ") and not block and not (in_list and mark)
            kept = bool(line.strip()) and not code and not _RAW.match(line)
        if block and (not kept or _MARK.match(line)):
            yield start, block
            block = []
        if kept:
            start = start if block else number
            block.append(line)
    if block:
        yield start, block


def wrapped(block: list[str]) -> list[str]:
    """The lines of a paragraph or list item, none above ``WIDTH`` unless a word is."""
    mark = _MARK.match(block[0])
    first = mark[0] if mark else " " * (len(block[0]) - len(block[0].lstrip(" ")))
    indent = len(block[1]) - len(block[1].lstrip(" ")) if len(block) > 1 else len(first)
    follows = " " * indent
    text = " ".join([block[0][len(first) :], *(line.strip() for line in block[1:])])
    words = _WHOLE.sub(lambda m: m[0].replace(" ", "\0"), text).split(" ")
    lines = [first]
    for word in words:
        line = lines[-1]
        begun = line != (first if len(lines) == 1 else follows)
        if begun and len(line) + 1 + len(word) > WIDTH and not _SYNTAX.fullmatch(word):
            lines.append(follows + word)
        else:
            lines[-1] = line + " " * begun + word
    return [line.replace("\0", " ").rstrip() for line in lines]


def long_lines(text: str) -> list[int]:
    """The numbers of the lines of prose above ``WIDTH`` that can be broken."""
    return [
        start + i
        for start, block in paragraphs(text)
        if any(len(line) > WIDTH for line in block) and wrapped(block) != block
        for i, line in enumerate(block)
        if len(line) > WIDTH
    ]


def rewrapped(text: str) -> str:
    """The page, with the paragraphs and list items that have such a line wrapped again."""
    lines = text.splitlines()
    for start, block in reversed(list(paragraphs(text))):
        if any(len(line) > WIDTH for line in block):
            lines[start - 1 : start - 1 + len(block)] = wrapped(block)
    return "\n".join(lines) + "\n" * text.endswith("\n")


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or PAGES:
        before = page.read_text(encoding="utf-8")
        after = rewrapped(before)
        if after != before:
            page.write_text(after, encoding="utf-8")
            print(f"{page}: wrapped")
