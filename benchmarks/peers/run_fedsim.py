"""fedsim: every update encoded and decoded; one or two workers. FOLDER WORKERS METHOD.

It runs on the code of an older commit, too, if PYTHONPATH says where that is.
"""

import sys
import tempfile
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Any

from work import LR, Turns

from fedsim import TASKS, Data, RunConfig, run
from fedsim.tasks.mnist import MNIST_LENET5, LeNet5

try:
    from strategies.client_optimizers import SGD
except ImportError:  # the code of an older commit
    from torch.optim import SGD


def main() -> None:
    turns, method = Turns(), sys.argv[3]
    rounds, iterations = turns.rounds, turns.work.batches.shape[2]

    def load(folder: Path | None = None, download: bool = False) -> Data:
        (x, y), few = turns.work.data, slice(0, 32)
        return Data(x, y, x[few], y[few], "benchmark")

    TASKS["benchmark"] = replace(
        MNIST_LENET5,
        name="benchmark",
        build=LeNet5,
        load=load,
        batch_size=32,
        optimizer=lambda parameters: SGD(parameters, lr=LR),
    )
    config = getattr(RunConfig, "of", RunConfig)(
        task="benchmark",
        method=method,
        temporal=iterations,
        iterations=rounds * iterations,
        clients=turns.work.clients,
        cohort=len(turns.work.cohorts[0]),
        evaluate_every=rounds,
        checkpoint_every=rounds,
        workers=turns.processes,
    )

    def pause(row: dict[str, Any]) -> None:
        turns.done(row["train_loss"])
        turns.wait()

    turns.wait()
    told = (
        {"callbacks": [pause]} if "callbacks" in signature(run).parameters else {"progress": pause}
    )
    with tempfile.TemporaryDirectory() as out:
        run(config, Path(out) / "run", **told)


if __name__ == "__main__":
    main()
