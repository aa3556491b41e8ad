"""The table of ``sample.csv``: how many mutants of each room are killed, and which are not."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

SAMPLE = Path(__file__).with_name("sample.csv")
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
COLUMNS = ("room", "file", "function", "mistake", "first", "ended", "explanation")
HEADINGS = ("room", "mutants", "killed at first", "killed", "by time", "equivalent or explained")


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, none where there is no file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [*csv.DictReader(lines)]


def key(row: dict[str, str]) -> tuple[str, str, str]:
    """What a mutant is called."""
    return row["file"], row["function"], row["mistake"]


def write(file: Path, found: list[dict[str, str]], columns: Sequence[str] = COLUMNS) -> None:
    """Writes a CSV file of mutants."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, columns, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(found)


def table(found: list[dict[str, str]]) -> str:
    """The scores, room by room; of rooms whose first run was not kept, no first score."""
    lines = [f"| {' | '.join(HEADINGS)} |", "| --- " * len(HEADINGS) + "|"]
    rooms = [*dict.fromkeys(row["room"] for row in found)]
    for name, inside in [*((f"`{room}`", {room}) for room in rooms), ("all", {*rooms})]:
        rows_inside = [row for row in found if row["room"] in inside]
        ended = [row["ended"] for row in rows_inside]
        first = [row.get("first") for row in rows_inside]
        killed, late, alive = map(ended.count, ("killed", "timeout", "survived"))
        before = len(first) - first.count("survived") if all(first) else "–"
        lines.append(f"| {name} | {len(ended)} | {before} | {killed} | {late} | {alive} |")
    return "\n".join(lines)


def page(found: list[dict[str, str]]) -> str:
    """CONTRIBUTING.md with the table of these rows."""
    marks = re.compile("(?<=<!-- mutants -->\n).*?(?=\n<!-- end of mutants -->)", re.S)
    return marks.sub(table(found), PAGE.read_text(encoding="utf-8"))


def finish(found: list[dict[str, str]]) -> None:
    """Writes the committed file and the table, with the explanations that there are.

    Rows of other rooms stay, and so does how a mutant ended when it was run first.
    """
    before, rooms = rows(SAMPLE), {row["room"] for row in found}
    former = {key(row): row for row in before}
    order = [*dict.fromkeys(row["room"] for row in before + found)]
    for row in found:
        former_row = former.get(key(row), {"first": row["ended"], "explanation": ""})
        row["first"] = former_row.get("first", "")
        row["explanation"] = former_row["explanation"] if row["ended"] == "survived" else ""
    merged = found + [row for row in before if row["room"] not in rooms]
    merged.sort(key=lambda row: (order.index(row["room"]), *key(row)))
    write(SAMPLE, merged)
    PAGE.write_text(page(merged), encoding="utf-8")
    for row in merged:
        if row["ended"] == "survived" and not row["explanation"]:
            print("not seen:", *key(row))
