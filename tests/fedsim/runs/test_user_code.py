"""Code of the user's own: whatever it ends with ends neither the process nor a thread in silence.

And what its errors say is written, sent and shown, though it be no text that UTF-8 has bytes for.
"""

import json
from asyncio import CancelledError
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from compressors.catalogue import add_rows
from compressors.usercode import UserCodeError, user_code
from fedsim import RunConfig, RunFailed, StoppedEarly, run
from fedsim.engines.local import LocalGrid
from fedsim.ground.errors import DataError, UsageError
from fedsim.results.load import load_results
from fedsim.tasks.base import cross_entropy
from fedsim.tasks.registry import get_task
from tests.support.runs import small
from tests.support.together import Together

NO_TEXT = "no file a\udcff.npy"
"""As Python names a file whose name is no UTF-8."""


class Outcome(BaseException):
    """As pytest's ``Skipped`` and ``Failed`` are, and trio's ``Cancelled``."""


class Wordless(Exception):
    """An error whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


ENDS: dict[str, BaseException] = {
    "SystemExit: 3": SystemExit(3),
    "CancelledError: too late": CancelledError("too late"),
    "Outcome: skipped": Outcome("skipped"),
    r"ValueError: no file a\\udcff.npy": ValueError(NO_TEXT),
    "Wordless: <exception str": Wordless(),
}
"""What a user's code ends with, by what is said of it."""

HOW: list[tuple[dict[str, Any], int]] = [({"workers": 1}, 1), ({"workers": 2}, 1), ({}, 2)]
"""Settings, and how many clients train together."""


def failing(make_task: Any, error: BaseException) -> tuple[str, list[bool]]:
    """A task whose loss raises once the switch is on: its first batch is tried before the run."""
    switch = [False]

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if switch[0]:
            raise error
        return cross_entropy(outputs, targets)

    return make_task(loss=loss).name, switch


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("said", ENDS)
def test_a_client_s_end_is_its_failure(
    make_task: Any, said: str, how: Any, tmp_path: Path, together: Together
) -> None:
    """A worker that it ended would answer nobody any more, and the round would hang."""
    settings, width = how
    together(width)
    name, switch = failing(make_task, ENDS[said])
    config = RunConfig.of(task=name, temporal=1, iterations=1, timeout=20, **settings)
    run(config, progress=False)  # so that the task is tried before
    switch[0] = True
    with pytest.raises(RunFailed, match=rf"client \d: \S*{said}"):
        run(config, tmp_path / "run", progress=False)
    assert json.loads((tmp_path / "run/summary.json").read_text())["status"] == "failed"
    assert (tmp_path / "run/error.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("how", HOW, ids=str)
def test_ctrl_c_in_a_client_ends_the_run(make_task: Any, how: Any, together: Together) -> None:
    settings, width = how
    together(width)
    name, switch = failing(make_task, KeyboardInterrupt())
    config = RunConfig.of(task=name, temporal=1, iterations=1, timeout=20, **settings)
    run(config, progress=False)
    switch[0] = True
    with pytest.raises(KeyboardInterrupt):
        run(config, progress=False)


def test_an_error_of_no_client_ends_the_run(
    make_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is of no client, as no memory for a copy of a context: no reply comes of it."""

    def refused(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(LocalGrid, "_serve", refused)
    with pytest.raises(MemoryError, match="no room"):
        run(RunConfig.of(task=make_task().name, temporal=1, iterations=1, timeout=20))


@pytest.mark.parametrize("error", [ValueError(NO_TEXT), StoppedEarly(NO_TEXT), Wordless()])
def test_what_the_server_s_code_says_is_kept(error: Exception, tmp_path: Path) -> None:
    """The error itself is raised, not one of writing it down."""

    def follow(row: Any) -> None:
        raise error

    with pytest.raises(type(error)):
        run(small(), tmp_path / "run", progress=False, callbacks=[follow])
    (runs,) = load_results(tmp_path / "run").runs.to_dict("records")
    told = "str() failed" if isinstance(error, Wordless) else r"no file a\udcff.npy"
    assert told in runs["error"]


@pytest.mark.parametrize("error", [ValueError(NO_TEXT), Outcome("skipped"), Wordless()])
@pytest.mark.parametrize("field", ["build", "load", "optimizer", "loss", "metric"])
def test_a_part_of_a_task_is_refused_for_what_it_ends_with(
    make_task: Any, field: str, error: BaseException
) -> None:
    def ends(*_: object) -> None:
        raise error

    config = RunConfig.of(task=make_task(**{field: ends}).name, temporal=1, iterations=1)
    with pytest.raises((UsageError, DataError), match=type(error).__name__) as refused:
        run(config, progress=False)
    assert str(refused.value).encode()


def test_a_file_that_leaves_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a script without ``if __name__ == "__main__"`` does: fedsim would end without a word."""
    mine = tmp_path / "mine.py"
    mine.write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(UsageError, match=r"mine.py, line 2: SystemExit: 0"):
        get_task(f"{mine}:TASK")
    with pytest.raises(ValueError, match=r"mine.py: SystemExit: 0"):
        add_rows(str(mine))
    (tmp_path / "module_that_leaves.py").write_text(mine.read_text())
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="module_that_leaves cannot be imported: SystemExit: 0"):
        get_task("module_that_leaves:TASK")


def test_what_a_generator_returns_is_no_text() -> None:
    """It may be megabytes, which nobody reads."""
    with pytest.raises(StopIteration) as ended, user_code():
        raise StopIteration(Wordless())
    assert isinstance(ended.value.value, Wordless)
    with pytest.raises(UserCodeError), user_code():
        raise Wordless
