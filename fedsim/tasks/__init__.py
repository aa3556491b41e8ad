"""The tasks that come with fedsim, in one plain table.

To add one to fedsim: write a file with a `Task` in it and add its row to `TASKS`. A task of a
user's own needs neither: `RunConfig(task=...)` takes it, see docs/own-task.md.
"""

from __future__ import annotations

from fedsim.errors import UsageError, unknown
from fedsim.tasks.base import Data, Task
from fedsim.tasks.chars import CHAR_LSTM
from fedsim.tasks.cifar_resnet import CIFAR_RESNETS
from fedsim.tasks.cifar_tasks import CIFAR_TASKS
from fedsim.tasks.digits import DIGITS
from fedsim.tasks.dropout import Dropout
from fedsim.tasks.imagenet import IMAGENET_RESNET50
from fedsim.tasks.lenet import FASHION_LENET5, MNIST_LENET5, MNIST_LENET5_CAFFE
from fedsim.tasks.mlp import MLPS
from fedsim.tasks.ncf import NCF
from fedsim.tasks.words import WORD_LSTM

__all__ = ["TASKS", "Data", "Dropout", "Task", "adopt", "get_task"]

TASKS: dict[str, Task] = {
    "digits": DIGITS,
    "mnist_lenet5": MNIST_LENET5,
    "mnist_lenet5_caffe": MNIST_LENET5_CAFFE,
    "fashion_lenet5": FASHION_LENET5,
    **{task.name: task for task in (*MLPS, *CIFAR_RESNETS, *CIFAR_TASKS)},
    "imagenet_resnet50": IMAGENET_RESNET50,
    "char_lstm": CHAR_LSTM,
    "word_lstm": WORD_LSTM,
    "ncf": NCF,
}


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
