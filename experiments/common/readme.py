"""READMEs' tables, written from the CSV files beside them.

    python -m experiments.common.readme            # writes every README's tables again
    python -m experiments.common.readme --check    # says which differ, and writes nothing

A table stands between `<!-- table: NAME -->` and `<!-- end -->`; the experiment's ``run.py`` has
a function ``readme_tables`` that gives the tables by name. In docs/experiments.md a name begins
with the experiment's: `sbc-table2/mnist_lenet5`. The same tables in ``results/**/*.md``,
which the experiment wrote with all digits at hand, are written from the CSV files too.
"""

import argparse
import re
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

EXPERIMENTS = Path(__file__).resolve().parents[1]
ROOT = EXPERIMENTS.parent
OVERVIEW = ROOT / "docs" / "experiments.md"
_MARKED = re.compile(r"<!-- table: (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)


@cache
def tables(name: str) -> dict[str, str]:
    """The tables of an experiment in Markdown, by name, from the results in the checkout."""
    made: dict[str, str] = import_module(f"experiments.{name}.run").readme_tables(
        EXPERIMENTS / name / "results"
    )
    return made


def pages() -> list[Path]:
    """The page of all experiments, and the README of each."""
    return [OVERVIEW, *sorted(EXPERIMENTS.glob("*/README.md"))]


def marked(text: str) -> list[str]:
    """The names of the tables that a page asks for."""
    return [name for name, _ in _MARKED.findall(text)]


def written(page: Path) -> str:
    """The text of ``page`` with every marked table made again; nothing is written.

    Raises ``ValueError`` where a page asks for a table that no experiment has, or where one marker
    lacks the other.
    """
    text = page.read_text(encoding="utf-8")
    if not text.count("<!-- table:") == text.count("<!-- end -->") == len(marked(text)):
        raise ValueError(f"{page}: a marker of a table lacks its end, or its beginning")

    def made(match: re.Match[str]) -> str:
        experiment, name = page.parent.name, match[1]
        if page == OVERVIEW:
            experiment, _, name = name.partition("/")
        known = tables(experiment)
        if name not in known:
            raise ValueError(f"{page}: {name} is not a table of {experiment}: {', '.join(known)}")
        return f"<!-- table: {match[1]} -->\n{known[name].strip()}\n<!-- end -->"

    return _MARKED.sub(made, text)


def reprinted(page: Path) -> str:
    """The text of ``results/**/*.md`` with those of its tables made again that the README has too.

    A table is one of the README's if its heading is, and if the first part of its name, where a
    folder has that name, is the folder of the page.
    """
    folder = page.relative_to(EXPERIMENTS).parts[0]
    text, task = page.read_text(encoding="utf-8"), page.parent.name
    for name, made in tables(folder).items():
        if task == "results" or name.partition("/")[0] == task:
            for table in _blocks(made):  # in the place of that of this heading and first column
                same = (old for old in _blocks(text) if _outline(old) == _outline(table))
                if (old := next(same, None)) is not None:
                    text = text.replace(old, f"{table.rstrip()}\n")
    return text


def _blocks(text: str) -> list[str]:
    return re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE)


def _outline(table: str) -> tuple[str, ...]:
    heading, *rows = table.strip().splitlines()
    return (heading, *(row.split(" | ")[0] for row in rows))


def main() -> int:
    """Writes the pages, or compares them; 1 if one differs with ``--check``."""
    parser = argparse.ArgumentParser(description="READMEs' tables, from the CSV files beside them")
    parser.add_argument("--check", action="store_true", help="compare alone, and write nothing")
    check = parser.parse_args().check
    differ = []
    made = [(page, written(page)) for page in pages()]
    made += [(page, reprinted(page)) for page in sorted(EXPERIMENTS.glob("*/results/**/*.md"))]
    for page, text in made:
        if text != page.read_text(encoding="utf-8"):
            differ.append(page)
            if not check:
                page.write_text(text, encoding="utf-8")
    for page in differ:
        print(f"{page.relative_to(ROOT)}: {'differs' if check else 'written'}")
    return int(check and bool(differ))


if __name__ == "__main__":
    sys.exit(main())
