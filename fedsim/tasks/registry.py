"""The tasks that come with fedsim, by name; a user's own among them once it is adopted.

To add one to fedsim: write a file with a `Task` in it, and its row in `fedsim/tasks/tasklist.py`.
A task of a user's own needs neither: `RunConfig(task=...)` takes it, see docs/own-task.md.
"""

from __future__ import annotations

from importlib import import_module

from fedsim.ground.errors import UsageError, unknown
from fedsim.tasks.base import Task
from fedsim.tasks.place import SEPARATOR, load_object
from fedsim.tasks.tasklist import LISTED, OWN_TASK

_BUILTIN: dict[str, Task] = {}
for _name, _listed in LISTED.items():
    _module, _constant = _listed.place.split(":")
    _BUILTIN[_name] = getattr(import_module(f"fedsim.tasks.{_module}"), _constant)

TASKS = dict(_BUILTIN)


def is_builtin(task: Task) -> bool:
    """Whether a task is one of fedsim's, as it comes.

    Example:
        >>> from dataclasses import replace
        >>> is_builtin(TASKS["digits"]), is_builtin(replace(TASKS["digits"], name="mine"))
        (True, False)
    """
    return _BUILTIN.get(task.name) == task


def reads_builtin(task: Task) -> bool:
    """Whether a task's data are those of one of fedsim's: which they are is in their source."""
    return any(task.load is ours.load for ours in _BUILTIN.values())


def get_task(name: str | Task) -> Task:
    """The task called `name`, or at `FILE.py:NAME`; a `Task` is returned as it is.

    Raises:
        UsageError: no such task; the message lists the known tasks.

    Example:
        >>> get_task("mnist_lenet5").iterations
        2000
    """
    if isinstance(name, Task):
        return name
    if SEPARATOR in name:
        task: Task = load_object(name, "--task", Task, "fedsim.Task")
        return task
    try:
        return TASKS[name]
    except KeyError:
        if name.endswith(".py"):
            raise UsageError(f"--task is {name!r}: it is a file; give {name}:NAME") from None
        raise UsageError(f"--task: {unknown('task', name, TASKS)}; {OWN_TASK}") from None


def adopt(task: str | Task) -> str | Task:
    """`task` as settings keep it: the name of one of fedsim's, or a user's own task itself.

    A user's own task is in `TASKS` from then on. The task itself travels with the settings, because
    other processes do not know its name.

    Raises:
        UsageError: `task` is unknown, is not a task, or has the name of one of fedsim's tasks.
    """
    if not isinstance(task, str | Task):
        raise UsageError(f"--task is {task!r}: give the name of a task, or a fedsim.Task")
    found_task = get_task(task)
    if is_builtin(found_task):
        return found_task.name
    if found_task.name in _BUILTIN:
        raise UsageError(
            f"--task is {found_task.name!r}: fedsim has one of that name; give yours another"
        )
    if isinstance(task, str) and SEPARATOR not in task and task != found_task.name:
        raise UsageError(
            f"--task is {task!r}: TASKS has {found_task.name!r} there; give both one name"
        )
    TASKS[found_task.name] = found_task
    return found_task
