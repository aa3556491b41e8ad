"""The table of mutants: how many of each room are killed; ``survivors.csv`` has the others."""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

SURVIVORS, COUNTS = (Path(__file__).with_name(f"{name}.csv") for name in ("survivors", "counts"))
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
COLUMNS = ("room", "file", "function", "mistake", "ended", "explanation")
HEADINGS = ("room", "mutants", "killed", "by time", "equivalent or explained")


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, none where there is no file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [*csv.DictReader(lines)]


def counts() -> dict[str, int]:
    """How many mutants of each room were run."""
    return {row["room"]: int(row["mutants"]) for row in rows(COUNTS)}


def key(row: dict[str, str]) -> tuple[str, str, str]:
    """What a mutant is called."""
    return row["file"], row["function"], row["mistake"]


def write(file: Path, found: list[dict[str, str]], columns: Sequence[str] = COLUMNS) -> None:
    """Writes a CSV file."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(found)


def table(drawn: Mapping[str, int], survivors: list[dict[str, str]]) -> str:
    """The scores, room by room, from how many were run and from those that were not killed."""
    lines = [f"| {' | '.join(HEADINGS)} |", "| --- " * len(HEADINGS) + "|"]
    ended = Counter((row["room"], row["ended"]) for row in survivors)
    for name, inside in [*((f"`{room}`", [room]) for room in drawn), ("all", [*drawn])]:
        total, late, alive = (
            sum(drawn[room] for room in inside),
            *(sum(ended[room, end] for room in inside) for end in ("timeout", "survived")),
        )
        lines.append(f"| {name} | {total} | {total - late - alive} | {late} | {alive} |")
    return "\n".join(lines)


def page(drawn: Mapping[str, int], survivors: list[dict[str, str]]) -> str:
    """CONTRIBUTING.md with the table of these."""
    marks = re.compile("(?<=<!-- mutants -->\n).*?(?=\n<!-- end of mutants -->)", re.S)
    return marks.sub(table(drawn, survivors), PAGE.read_text(encoding="utf-8"))


def finish(found: list[dict[str, str]]) -> None:
    """Writes the committed files and the table; rows of other rooms and explanations stay."""
    before, drawn = rows(SURVIVORS), Counter(row["room"] for row in found)
    explained = {key(row): row["explanation"] for row in before}
    total = counts() | drawn
    survivors = [row for row in before if row["room"] not in drawn]
    for row in found:
        if row["ended"] != "killed":
            survivors.append(row | {"explanation": explained.get(key(row), "")})
    survivors.sort(key=lambda row: ([*total].index(row["room"]), *key(row)))
    write(SURVIVORS, survivors)
    sizes = [{"room": room, "mutants": str(count)} for room, count in total.items()]
    write(COUNTS, sizes, ("room", "mutants"))
    PAGE.write_text(page(total, survivors), encoding="utf-8")
    for row in survivors:
        if row["ended"] == "survived" and not row["explanation"]:
            print("not seen:", *key(row))
