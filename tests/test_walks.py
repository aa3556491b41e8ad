"""The three walks of docs/walks.md: every step is in the code, and the update takes its walk."""

import ast
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fedsim import RunConfig, run

ROOT = Path(__file__).parents[1]
UPDATE = "An update, from a client's step to the server's mean"
_STEP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`: ")

Step = tuple[str, str]


def walks() -> dict[str, list[Step]]:
    """The steps of each walk, file and function, by the walk's heading."""
    page = (ROOT / "docs" / "walks.md").read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in page.split("\n## ")[1:]]
    return {
        heading: [match.groups() for line in body.splitlines() if (match := _STEP.match(line))]
        for heading, _, body in parts
    }


WALKS = walks()


def functions(file: str) -> set[str]:
    """The functions of a file, those of classes as `Class.function`."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    plain = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return plain | {
        f"{owner.name}.{node.name}"
        for owner in classes
        for node in owner.body
        if isinstance(node, ast.FunctionDef)
    }


@pytest.mark.parametrize("heading", WALKS)
def test_every_step_is_in_the_code(heading: str) -> None:
    assert len(WALKS[heading]) >= 5
    for file, function in WALKS[heading]:
        assert function in functions(file), f"{file} has no {function}"


@pytest.mark.parametrize("heading", WALKS)
def test_no_walk_meets_a_file_more_than_twice(heading: str) -> None:
    met = Counter(file for file, _ in WALKS[heading])
    assert max(met.values()) <= 2, met.most_common(1)


def test_there_are_three() -> None:
    assert len(WALKS) == 3 and UPDATE in WALKS


def called(action: Any) -> set[Step]:
    """The functions of this repository that are called while ``action`` runs, on any thread."""
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            seen.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    inside = f"{ROOT}/"
    return {(file.removeprefix(inside), name) for file, name in seen if file.startswith(inside)}


def test_a_run_takes_the_update_s_walk(tmp_path: Path) -> None:
    config = RunConfig.of(method="sbc", temporal=1, iterations=1, clients=2, batch_size=4)
    steps = called(lambda: run(config, tmp_path, progress=False))
    assert [step for step in WALKS[UPDATE] if step not in steps] == []
