"""The tasks that come with fedsim, by name.

To add one to fedsim: write a file with a `Task` in it, and its row in `fedsim/tasklist.py`. A task
of a user's own needs neither: `RunConfig(task=...)` takes it, see docs/own-task.md.
"""

from __future__ import annotations

from importlib import import_module

from fedsim.errors import UsageError, unknown
from fedsim.tasklist import LISTED
from fedsim.tasks.base import Data, Task
from fedsim.tasks.data.partition import split
from fedsim.tasks.models.dropout import Dropout, dropouts, reseed

__all__ = [
    "TASKS",
    "Data",
    "Dropout",
    "Task",
    "adopt",
    "dropouts",
    "get_task",
    "reseed",
    "split",
]


def _task(place: str) -> Task:
    module, name = place.split(":")
    task: Task = getattr(import_module(f"fedsim.tasks.{module}"), name)
    return task


TASKS: dict[str, Task] = {name: _task(listed.place) for name, listed in LISTED.items()}


_OURS = dict(TASKS)


def get_task(name: str | Task) -> Task:
    """The task that users call `name`; a task itself is returned as it is.

    Raises:
        UsageError: no such task; the message lists those there are.

    Example:
        >>> get_task("mnist_lenet5").iterations
        2000
    """
    if isinstance(name, Task):
        return name
    try:
        return TASKS[name]
    except KeyError:
        raise UsageError(unknown("task", name, TASKS)) from None


def adopt(task: str | Task) -> str | Task:
    """`task` as settings keep it: the name of one of fedsim's, or a user's own task itself.

    A user's own task is in `TASKS` from then on. It travels with its settings, to other processes
    too, where no name would tell what it is.

    Raises:
        UsageError: no such task, no task at all, or the name of one of fedsim's on another task.
    """
    if not isinstance(task, str | Task):
        raise UsageError(f"task: {task!r} is neither the name of a task nor a fedsim.Task")
    found = get_task(task)
    ours = _OURS.get(found.name)
    if ours == found:
        return found.name
    if ours is not None:
        raise UsageError(f"task: {found.name!r} is a task of fedsim's; give yours another name")
    if isinstance(task, str) and task != found.name:
        raise UsageError(f"task: TASKS[{task!r}] is named {found.name!r}; the two must be equal")
    TASKS[found.name] = found
    return found
