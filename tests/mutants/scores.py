"""The table of ``sample.csv``: how many mutants of each room are killed, and which are not."""

import csv
import re
from collections.abc import Sequence
from pathlib import Path

SAMPLE = Path(__file__).with_name("sample.csv")
PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
COLUMNS = ("room", "file", "function", "mistake", "ended", "explanation")


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
    """The scores, room by room."""
    lines = ["| room | mutants | killed | by time | equivalent or explained |", "| --- " * 5 + "|"]
    rooms = [*dict.fromkeys(row["room"] for row in found)]
    for name, inside in [*((f"`{room}`", {room}) for room in rooms), ("all", {*rooms})]:
        own = [row["ended"] for row in found if row["room"] in inside]
        killed, late, alive = map(own.count, ("killed", "timeout", "survived"))
        lines.append(f"| {name} | {len(own)} | {killed} | {late} | {alive} |")
    return "\n".join(lines)


def page(found: list[dict[str, str]]) -> str:
    """CONTRIBUTING.md with the table of these rows."""
    marks = re.compile("(?<=<!-- mutants -->\n).*?(?=\n<!-- end of mutants -->)", re.S)
    return marks.sub(table(found), PAGE.read_text(encoding="utf-8"))


def finish(found: list[dict[str, str]]) -> None:
    """Writes the committed file and the table, with the explanations that there are."""
    why = {key(row): row["explanation"] for row in rows(SAMPLE)}
    for row in found:
        row["explanation"] = why.get(key(row), "") if row["ended"] == "survived" else ""
    order = [*dict.fromkeys(row["room"] for row in found)]
    found.sort(key=lambda row: (order.index(row["room"]), *key(row)))
    write(SAMPLE, found)
    PAGE.write_text(page(found), encoding="utf-8")
    for row in found:
        if row["ended"] == "survived" and not row["explanation"]:
            print("not seen:", *key(row))
