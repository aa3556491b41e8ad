"""The tasks that come with fedsim, in one plain table.

To add one: write a file with a `Task` in it and add its row to `TASKS`.
"""

from __future__ import annotations

from fedsim.errors import UsageError
from fedsim.tasks.base import Data, Task
from fedsim.tasks.digits import DIGITS
from fedsim.tasks.lenet import FASHION_LENET5, MNIST_LENET5, MNIST_LENET5_CAFFE

__all__ = ["TASKS", "Data", "Task", "get_task"]

TASKS: dict[str, Task] = {
    "digits": DIGITS,
    "mnist_lenet5": MNIST_LENET5,
    "mnist_lenet5_caffe": MNIST_LENET5_CAFFE,
    "fashion_lenet5": FASHION_LENET5,
}


def get_task(name: str) -> Task:
    """The task that users call `name`.

    Raises:
        UsageError: no such task; the message lists those there are.

    Example:
        >>> get_task("mnist_lenet5").iterations
        2000
    """
    try:
        return TASKS[name]
    except KeyError:
        raise UsageError(f"task: {name!r} is unknown; known tasks: {', '.join(TASKS)}") from None
