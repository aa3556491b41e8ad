"""Tasks: a model, its data and how it is trained; those that come with fedsim, and their list."""

from typing import TYPE_CHECKING

from compressors.lazy import make_lazy

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.tasks.adapters import from_peft
    from fedsim.tasks.base import Data, Task
    from fedsim.tasks.data.lazydata import lazy_data
    from fedsim.tasks.data.partition import split
    from fedsim.tasks.factories import from_csv, from_datasets, from_frame, from_torch
    from fedsim.tasks.hub import from_hub
    from fedsim.tasks.leaf import from_leaf, leaf_femnist, leaf_shakespeare, stack_overflow
    from fedsim.tasks.models.dropout import Dropout, dropouts, reseed
    from fedsim.tasks.registry import TASKS, adopt, get_task

__all__ = [
    "TASKS",
    "Data",
    "Dropout",
    "Task",
    "adopt",
    "dropouts",
    "from_csv",
    "from_datasets",
    "from_frame",
    "from_hub",
    "from_leaf",
    "from_peft",
    "from_torch",
    "get_task",
    "lazy_data",
    "leaf_femnist",
    "leaf_shakespeare",
    "reseed",
    "split",
    "stack_overflow",
]

make_lazy(__name__)
