"""Digests of the users' files that a run reads, because its settings only have their names.

They are part of a run's identity. fedsim's own tasks, strategies and methods have none.
"""

import re
from pathlib import Path
from typing import Any

from fedsim.ground.errors import DataError

Content = dict[str, dict[str, str]]
"""By kind (``task``, ``strategy``, ``sampler``, ``rows``, ``data``) and name, a digest."""

CONTENT, START = "content", "start"
"""The tables of a run's ``config.toml`` that hold it, and digests of what the run begins with."""

_WORD = re.compile(r"[^\W\d]\w*")
_SAMPLES = "samples"


def code(config: Any) -> Content:
    """The digests of files: of task, strategy and sampler, and of the rows that the run uses.

    A task that is defined in Python has no file that would be known. ``config``: a ``RunConfig``.
    """
    from compressors import row_files, text

    plan = config.plan
    words = {*_WORD.findall(" ".join(map(str, (
        config.method, plan.method.text, text(plan.downlink), config.downlink,
        config.machine.memory_as,
    ))))}  # fmt: skip
    digests = {
        "task": {plan.task.name: plan.task.content},
        "strategy": {name_of(plan.strategy): plan.algorithm.content},
        "sampler": {name_of(plan.sampler): plan.draws.content},
        "rows": {name: digest for name, digest in row_files().items() if name in words},
    }
    present = ({k: x for k, x in files.items() if x} for files in digests.values())
    return {kind: files for kind, files in zip(digests, present, strict=True) if files}


def of(config: Any) -> Content:
    """``code``, and the digest of the data of a user's own task, which are loaded for it."""
    from fedsim.tasks.datacache import task_content

    content = code(config)
    if not isinstance(config.task, str):
        task = config.plan.task
        if data := task_content(task, *config.machine.source):
            content["data"] = {task.name: data}
    return content


def name_of(strategy: str) -> str:
    """The name of a strategy where its file does not matter: all that follows a ``:``."""
    return strategy.rpartition(":")[2]


def check_sent(config: Any, digest: str) -> None:
    """Refuses samples that are not those of the process in which the run was started.

    ``digest``: the digest of what was loaded here.
    """
    task = config.plan.task.name
    expected = (config.sent or {}).get("data", {}).get(task, "")
    if expected.startswith(_SAMPLES) and digest.startswith(_SAMPLES) and digest != expected:
        raise DataError(
            f"task {task}: its data are not those with which the run was started ({expected} "
            f"there, {digest} here): they have changed, load draws others in every process, or "
            "this machine has others"
        )


_WORDS = {
    "task": "the file of task {}, or a module that it imports",
    "strategy": "the file of strategy {}, or a module that it imports",
    "sampler": "the file of sampler {}, or a module that it imports",
    "rows": "the file of --rows that has {}, or a module that it imports",
    "data": "the data of task {}",
}


def file_digests(content: Content, strategy: str = "") -> dict[str, str]:
    """The digests of a content, by descriptions in words.

    ``strategy``: its name in a table that has runs of several strategies.
    """
    return {
        _WORDS[kind].format(strategy if strategy and kind == "strategy" else name): digest
        for kind, digests in content.items()
        if kind in _WORDS and isinstance(digests, dict)
        for name, digest in digests.items()
    }


def differing(stored: Content, current: Content) -> list[str]:
    """In what two contents differ, in words; what one of them lacks is not known."""
    one, other = file_digests(stored), file_digests(current)
    pairs = [(what, x, other.get(what, x)) for what, x in one.items()]
    return [f"{what}: {x} there, {y} here" for what, x, y in pairs if x != y]


def recorded_content(folder: Path, table: str = CONTENT) -> dict[str, Any]:
    """A table of digests in the ``config.toml`` of a run's folder; empty where it has none."""
    from fedsim.ground.strangers import read_toml  # not for --help

    try:
        values = read_toml(folder / "config.toml")
    except (OSError, ValueError):  # whoever needs its settings says so
        return {}
    content = values.get(table)
    return content if isinstance(content, dict) else {}


def fits(out: Path, content: Content) -> bool:
    """Whether no run in a folder of results has another content, as far as it is known."""
    folders = [out, *sorted(out.glob("cells/*/"))]
    return not any(differing(recorded_content(folder), content) for folder in folders)
