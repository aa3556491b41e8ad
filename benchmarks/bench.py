"""Everything that is promised about speed and memory: one CSV file, and the page's tables.

    python benchmarks/bench.py [--parts round peers4 ...] [--again]
    python benchmarks/bench.py --page       # writes the page from the CSV, measures nothing

Each part is a new process and takes at most three minutes. Its rows go into `bench.csv` when it
ends, with the processor, the load of the machine and the commit, and so a pass that was broken off
goes on: a part that this commit has on this processor from the last hour is not measured again,
unless --again says so. The tables of `README.md` are written from the CSV. `before` is what was
found when the target was set (two cores of another processor).
"""

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from measuring import end_family, write_csv
from parts import GOALS, HERE, LONG, PARTS, Values
from peers.environments import ENVIRONMENTS

from fedsim.runs import environment

ROOT = HERE.parent
TABLE, PAGE, FIGURE = HERE / "bench.csv", HERE / "README.md", HERE / "sizes.png"
LIMIT = 180  # seconds of a part
FRESH = 3600  # seconds in which a part is not measured again
FIELDS = (
    "part",
    "work",
    "quantity",
    "value",
    "before",
    "target",
    "bound",
    "processor",
    "load",
    "commit",
    "measured",
)


def measured(part: str, limit: int = LIMIT) -> list[Values]:
    """The rows of a part as the CSV has them; it runs in a process of its own.

    Raises ``RuntimeError`` with the end of what it said where it fails or takes too long.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "rows.json")
        child = subprocess.Popen(
            [sys.executable, __file__, "--alone", part, str(out)],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}"},
        )
        try:
            said, _ = child.communicate(timeout=None if part in LONG else limit)
        except subprocess.TimeoutExpired:
            end_family(child.pid)
            raise RuntimeError(f"it took more than {limit} s") from None
        if child.returncode:
            raise RuntimeError(said[-1500:])
        found = json.loads(out.read_text())
    where = {
        "processor": environment.describe_environment()["processor"],
        "load": f"{load:.1f}",
        "commit": commit(),
        "measured": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
    }
    rows = [{"work": k, "value": v} for k, v in found.items()] if isinstance(found, dict) else found
    return [{"part": part, **told(row), **where} for row in rows if row["value"] not in (None, "")]


def told(row: Values) -> Values:
    """A measured row with what was asked for, numbers as text of four digits."""
    goal = next((goal for goal in GOALS if goal.work == row["work"]), None)
    asked = (
        {}
        if goal is None or "quantity" in row
        else {
            "quantity": goal.quantity,
            "before": goal.before,
            "target": goal.target,
            "bound": goal.bound,
        }
    )
    whole = {"before": None, "target": None, "bound": "", **row, **asked}
    return {
        name: f"{x:.4g}" if isinstance(x, float) else "" if x is None else str(x)
        for name, x in whole.items()
    }


def commit() -> str:
    """Of the checkout, with a plus where files have changed since; empty without git."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout

    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":!benchmarks")
    return git("rev-parse", "--short=8", "HEAD").strip() + ("+" if changed else "")


def read() -> list[Values]:
    """The rows of the CSV; none where there is no file."""
    if not TABLE.exists():
        return []
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fresh(part: str, rows: Iterable[Mapping[str, str]]) -> bool:
    """Whether the part need not be measured again."""
    own = [row for row in rows if row["part"] == part]
    if not own or own[0]["commit"] != commit():
        return False
    when = time.strptime(own[0]["measured"], "%Y-%m-%d %H:%M")
    here = own[0]["processor"] == environment.describe_environment()["processor"]
    return here and time.mktime(time.gmtime()) - time.mktime(when) < FRESH


def write(rows: Sequence[Values]) -> None:
    """The CSV, parts in their order, and the page and the figure that follow from it."""
    order = list(PARTS)
    ranked = sorted(rows, key=lambda row: order.index(row["part"]))
    write_csv(TABLE, ranked, FIELDS)
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), ranked), encoding="utf-8")
    if sizes := [row for row in ranked if row["part"] == "sizes"]:
        from sizes import picture  # matplotlib, which no other part needs

        picture(sizes, FIGURE)


PIVOTS = {
    "round": "a round of LeNet5",
    "digits": "four clients of the digits",
    "million": "clients",
    "sizes": "method, entries",
    "nodes": "engine",
    "soak": "rounds",
}
"""Tables with a row per work, and what their first column is called."""
_MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The page's tables by name, in Markdown."""
    asked = {goal.work for goal in GOALS}
    first = ["| work | | before | target | now | met |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        if row["work"] in asked:
            first.append(
                f"| {escaped(row['work'])} | {row['quantity']} | {row['before']} | "
                f"{row['bound']} {row['target']} | {row['value']} | {met(row)} |"
            )
    others = [row for row in rows if row["work"] not in asked]
    peers = [row for row in others if ": " in row["work"] and row["part"].startswith("peers")]
    return {
        "bench": "\n".join([*where(rows), "", *first]),
        "peers": pivot(peers, "simulator, processes"),
        **{
            part: pivot([row for row in others if row["part"] == part], first)
            for part, first in PIVOTS.items()
        },
    }


def where(rows: Iterable[Mapping[str, str]]) -> list[str]:
    """A line per processor, load, commit and time, with the parts that were measured so."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        at = tuple(row[name] for name in ("processor", "commit", "measured", "load"))
        if row["part"] not in found.setdefault(at, []):
            found[at].append(row["part"])
    return [
        "| part | processor | commit | measured (UTC) | load average before |",
        "| --- | --- | --- | --- | ---: |",
        *(f"| {', '.join(parts)} | {' | '.join(at)} |" for at, parts in found.items()),
    ]


def met(row: Mapping[str, str]) -> str:
    """Whether what is found is what was asked for; empty where nothing was."""
    if not row["target"]:
        return ""
    value, target = float(row["value"]), float(row["target"])
    good = value >= target if row["bound"] == "at least" else value <= target
    return "yes" if good else "no"


def pivot(rows: Sequence[Mapping[str, str]], first: str) -> str:
    """A row per work and a column per quantity; a sentence where nothing is known."""
    if not rows:
        return "Not measured yet."
    quantities = list(dict.fromkeys(row["quantity"] for row in rows))
    found: dict[str, dict[str, str]] = {}
    for row in rows:
        found.setdefault(row["work"], {})[row["quantity"]] = row["value"]
    lines = [f"| {first} | {' | '.join(quantities)} |", "| --- |" + " ---: |" * len(quantities)]
    lines += [
        f"| {escaped(work)} | {' | '.join(own.get(q, '') for q in quantities)} |"
        for work, own in found.items()
    ]
    return "\n".join(lines)


def escaped(work: str) -> str:
    """For a cell of a table."""
    return work.replace("|", "\\|")


def page(text: str, rows: Sequence[Mapping[str, str]]) -> str:
    """The page with its marked tables made again."""
    made = tables(rows)
    return _MARKED.sub(lambda found: f"{found[1]}{made[found[2]]}\n{found[3]}", text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measures what is wanted, part by part, and writes the CSV and the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    usual = [part for part in PARTS if part not in LONG]
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=usual)
    parser.add_argument("--again", action="store_true", help="measure what is fresh, too")
    parser.add_argument("--limit", type=int, default=LIMIT, help="seconds that a part may take")
    parser.add_argument("--page", action="store_true", help="write the page alone")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)  # a part, a file for its rows
    given = parser.parse_args(arguments)
    if given.alone:
        part, out = given.alone
        Path(out).write_text(json.dumps(PARTS[part]()), encoding="utf-8")
        return
    failed, began = [], time.perf_counter()
    for part in [] if given.page else given.parts:
        if not given.again and fresh(part, read()):
            print(f"{part}: measured already (--again measures it again)", flush=True)
            continue
        start = time.perf_counter()
        print(f"{part}: ...", flush=True)
        try:
            rows = measured(part, given.limit)
        except RuntimeError as error:
            failed.append(part)
            print(f"{part}: failed: {error}", flush=True)
            continue
        write([row for row in read() if row["part"] != part] + rows)
        for row in rows:
            if row["target"]:
                print(
                    f"  {row['work']}: {row['value']} {row['quantity']} ({row['bound']} "
                    f"{row['target']}; {row['before']} before)",
                    flush=True,
                )
        now = time.perf_counter()
        print(f"{part}: {now - start:.0f} s, {now - began:.0f} s in all", flush=True)
    write(read())
    for name, environment_ in ENVIRONMENTS.items():
        if environment_.missing:
            print(f"{name} took no part: {environment_.missing}")
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
