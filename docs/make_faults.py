"""The tables of faults in ``docs/trust.md`` and ``docs/deploy.md``: no number is written by hand.

``python docs/make_faults.py`` makes them from ``docs/faults.csv`` (what tests told, by
``tests/support/faults.py``), ``docs/kills.csv`` (a row per kill of a deployment, by
``tests/support/deploykills.py``) and ``docs/crashes.csv`` (file operations, by
``tests/support/crashing.py``). A test compares the pages.
"""

import csv
import re
from collections import Counter
from pathlib import Path

DOCS = Path(__file__).parent
HEAD = "| fault | engine | tried | lost | test |\n| --- | --- | --- | --- | --- |"
TOLD = [
    ("server killed", "the server ends between two replies (by an exception) while clients keep"
     " their memory themselves, up to three times in a round",
     "local, clients with memory of their own", "`tests/fedsim/runs/test_at_nodes.py`"),
    ("checkpoint damaged", "the last checkpoint is damaged as well", "the same", "the same"),
    ("client fails", "a client fails when it is asked again; it sends what it had sent with its"
     " next update", "the same", "the same"),
    ("SuperNode killed", "a SuperNode dies and comes back", "deployment",
     "`tests/fedsim/deploy/test_deployed_kill.py`"),
    ("all killed", "one run, in which the server's app, the SuperLink, two of three SuperNodes, two"
     " of these at once, and all are killed, one after the other", "deployment",
     "`tests/fedsim/deploy/test_deployed_server_kill.py`"),
    ("worker killed", "a process that trains clients dies: another does what it had", "local",
     "`tests/fedsim/engines/test_worker_processes.py`"),
    ("worker without memory for a message", "a process that trains clients is refused memory"
     " for a message, or the server for one that it receives: another process does what the first"
     " had. Where the server is refused memory for one that it sends, the run ends", "local",
     "the same"),
    ("MemoryError in a worker", "training in such a process is refused memory once: the client is"
     " named as failed in that round", "local", "`tests/fedsim/runs/test_machine_faults.py`"),
    ("disk full", "a small disk is full in a sweep and in a search", "local", "the same"),
    ("shared memory full", "`/dev/shm` is full from the start", "local, with worker processes",
     "the same"),
    ("run on Ray stopped", "a run ends by an exception after a checkpoint, and goes on with another"
     " engine: ray, flower, ray, local", "ray, flower", "`tests/fedsim/engines/test_on_ray.py`"),
    ("Ray worker killed", "a Ray worker dies: another does its message again", "ray", "the same"),
    ("Ray machine killed", "a machine of a Ray cluster dies, and no other has room for its worker",
     "ray", "`tests/fedsim/engines/test_ray_two_nodes.py`"),
    ("Flower worker killed", "a worker of Flower's simulation dies: the run ends, and the same"
     " command goes on", "flower", "`tests/fedsim/engines/test_flower_engine.py`"),
    ("kill -9", "`kill -9` of a run and of sweeps", "local",
     "`tests/fedsim/runs/test_resume.py`, `test_kill_buffers.py`"),
    ("reply changed", "any record of a reply is replaced, doubled, reordered, cut or missing: the"
     " round ends, the client is named or its payload is used, the next round has all",
     "local, five strategies", "`pytest -m proof tests/strategies/test_hostile_replies.py`"),
]  # fmt: skip
"""What tests told: the fault in ``faults.csv``, its words, the engine, and where it is tried."""
FAULTS = ("killed", "cut", "fails", "full", "read-only", "gone")


def read(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file beside this one."""
    with (DOCS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def lost(count: int) -> str:
    """A cell."""
    return f"{count} times" if count else "nothing"


def faults() -> str:
    """The table of faults."""
    told, kills, crashes = read("faults.csv"), read("kills.csv"), read("crashes.csv")
    lines = [HEAD]
    for fault, words, engine, test in TOLD:
        own = [row for row in told if row["fault"] == fault]
        (gone,) = {row["lost"] for row in own}
        tried = sum(int(row["tried"]) for row in own)
        lines.append(f"| {words} | {engine} | {tried:,} | {gone} | {test} |")
    other = sum(row["equal"] != "yes" for row in kills)
    parts = ", ".join(dict.fromkeys(row["killed"] for row in kills))
    lines.append(
        f"| killed at a drawn instant: {parts} | deployment | {len(kills)} | {lost(other)} | "
        "`python -m tests.support.deploykills`, "
        "`tests/fedsim/deploy/test_deployed_server_kill.py` |"
    )
    names = ", ".join(dict.fromkeys(row["command"] for row in crashes))
    tried = sum(int(row["tried"]) for row in crashes)
    away = sum(int(row["lost"]) for row in crashes)
    lines.append(
        "| a file operation never happens, is cut, fails; disk full, folder read-only or gone from "
        f"there on | local: {names} | {tried:,} (below) | {lost(away)} | "
        "`python -m tests.support.crashing`, `tests/fedsim/runs/test_crashes.py` |"
    )
    return "\n".join(lines)


def operations() -> str:
    """The table of file operations, a row per command."""
    rows = read("crashes.csv")
    lines = [f"| command | file operations | {' | '.join(FAULTS)} | lost |", "| --- " * 9 + "|"]
    for name in dict.fromkeys(row["command"] for row in rows):
        own = {row["fault"]: row for row in rows if row["command"] == name}
        cells = [f"{own[fault]['tried']} of {own[fault]['points']}" for fault in FAULTS]
        count = own[FAULTS[0]]["operations"]
        gone = sum(int(row["lost"]) for row in own.values())
        lines.append(f"| {name} | {count} | {' | '.join(cells)} | {lost(gone)} |")
    return "\n".join(lines)


def kills() -> str:
    """The table of a deployment's kills, a row per kind."""
    rows = read("kills.csv")
    kinds = Counter(row["killed"] for row in rows)
    other = Counter(row["killed"] for row in rows if row["equal"] != "yes")
    lines = ["| killed | how often | lost |", "| --- | --- | --- |"]
    return "\n".join(lines + [f"| {k} | {n} | {lost(other[k])} |" for k, n in kinds.items()])


def pages() -> dict[Path, str]:
    """Both pages with their tables, by file."""
    tables = {"faults": faults(), "operations": operations(), "kills": kills()}
    texts = {DOCS / name: "" for name in ("trust.md", "deploy.md")}
    for page in texts:
        text = page.read_text(encoding="utf-8")
        for name, table in tables.items():
            between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
            text = between.sub(lambda found, table=table: f"{found[1]}{table}\n{found[2]}", text)
        texts[page] = text
    return texts


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
