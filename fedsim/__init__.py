"""fedsim: how few bits can a federation send and still learn?

Real training, real encoded messages, exact bits. ``run`` does one run and ``sweep`` a
grid of them; ``load`` gives their results as pandas frames.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from fedsim.ground.packages import both_there

with both_there():
    from compressors.lazy import make_lazy
    from strategies import quiet  # before flwr and ray are imported

from fedsim.ground.extras import named_extra
from fedsim.ground.version import VERSION as __version__

if TYPE_CHECKING:  # and what is imported when it is first used: see compressors.lazy
    from fedsim.ground.errors import DataError, RunFailed, StoppedEarly, UsageError
    from fedsim.measure.coders import measure_coders
    from fedsim.measure.ddp import ddp_hook
    from fedsim.measure.methods import measure
    from fedsim.results.compare import compare
    from fedsim.results.load import Results
    from fedsim.runs.callbacks import Callback, CsvWriter
    from fedsim.runs.launch import run_shown
    from fedsim.runs.result import RunResult
    from fedsim.runs.run import run
    from fedsim.runs.stepping import Federation, RunState
    from fedsim.runs.sweep import SweepConfig, run_cells, sweep
    from fedsim.runs.trackers.mlflow import MLflow
    from fedsim.runs.trackers.tensorboard import TensorBoard
    from fedsim.runs.trackers.wandb import Wandb
    from fedsim.search.search import search
    from fedsim.settings.config import RunConfig
    from fedsim.settings.grids import Cell
    from fedsim.settings.groups import Clients, Evaluation, Keep, Machine, Network, Training
    from fedsim.show import plot
    from fedsim.show.answer import best
    from fedsim.show.blocks import compare_methods
    from fedsim.show.export import table
    from fedsim.show.report import report
    from fedsim.show.results_view import load
    from fedsim.tasks import TASKS, Data, Task

__all__ = [
    "TASKS",
    "Callback",
    "Cell",
    "Clients",
    "CsvWriter",
    "Data",
    "DataError",
    "Evaluation",
    "Federation",
    "Keep",
    "MLflow",
    "Machine",
    "Network",
    "Results",
    "RunConfig",
    "RunFailed",
    "RunResult",
    "RunState",
    "StoppedEarly",
    "SweepConfig",
    "Task",
    "TensorBoard",
    "Training",
    "UsageError",
    "Wandb",
    "__version__",
    "best",
    "compare",
    "compare_methods",
    "ddp_hook",
    "load",
    "measure",
    "measure_coders",
    "plot",
    "report",
    "run",
    "run_cells",
    "run_shown",
    "search",
    "sweep",
    "table",
]


@contextmanager
def _importing() -> Iterator[None]:
    with quiet.level_kept(), named_extra():
        yield


make_lazy(__name__, _importing)
