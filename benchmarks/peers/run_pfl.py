"""pfl-research: federated averaging on its simulated backend, one or two processes."""

import os
import socket
import subprocess
import sys

import torch
from torch import Tensor, nn


def other_process() -> None:
    """Starts the second process, as pfl's guide to distributed simulations does."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    os.environ["PFL_WORKER_ADDRESSES"] = f"localhost:{port},localhost:{port + 1}"
    os.environ["PFL_WORKER_RANK"] = "0"
    subprocess.Popen(
        [sys.executable, *sys.argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PFL_WORKER_RANK": "1"},
    )


def main() -> None:
    os.environ["PFL_PYTORCH_DEVICE"] = "cpu"
    if sys.argv[2] == "2" and "PFL_WORKER_RANK" not in os.environ:
        other_process()
    # pfl reads the variables above when it is imported.
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam import NNEvalHyperParams, NNTrainHyperParams
    from pfl.internal.ops.selector import get_framework_module
    from pfl.metrics import Metrics, Weighted
    from pfl.model.pytorch import PyTorchModel
    from work import LR, Turns

    turns, losses = Turns(), list[Tensor]()
    work, first = turns.work, os.environ.get("PFL_WORKER_RANK", "0") == "0"
    cohort, iterations, batch = work.batches.shape[1:]

    class Model(nn.Module):
        """LeNet5 with what pfl asks of a model."""

        def __init__(self) -> None:
            super().__init__()
            self.layers = work.model()

        def loss(self, x: Tensor, y: Tensor) -> Tensor:
            value = nn.functional.cross_entropy(self.layers(x), y)
            losses.append(value.detach().clone())
            return value

        def metrics(self, x: Tensor, y: Tensor) -> dict[str, Weighted]:
            return {"samples": Weighted(0, len(x))}  # asked for in the first round alone

    class Pause(TrainingProcessCallback):
        """After a round: its loss, and until the next one is asked for every process waits."""

        def on_train_begin(self, *, model: PyTorchModel) -> Metrics:
            self._wait()
            return Metrics()

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            total = self._summed(torch.stack(losses).sum()[None] if losses else torch.zeros(1))
            losses.clear()
            if first:
                turns.done(float(total) / (cohort * iterations))
            self._wait()
            return False, Metrics()

        def _wait(self) -> None:
            if first:
                turns.wait()
            self._summed(torch.zeros(1))

        def _summed(self, value: Tensor) -> Tensor:
            return get_framework_module().distributed.all_reduce([value])[0]

    users = iter([(r, slot) for r, row in enumerate(work.cohorts) for slot in range(len(row))])
    model = Model()
    data = FederatedDataset(
        lambda user: Dataset(work.samples(*user), user_id=str(user)), lambda: next(users)
    )
    FederatedAveraging().run(
        NNAlgorithmParams(turns.rounds, 1 << 30, cohort, None),
        SimulatedBackend(training_data=data, val_data=data),
        PyTorchModel(model, torch.optim.SGD, torch.optim.SGD(model.parameters(), lr=1.0)),
        NNTrainHyperParams(local_batch_size=batch, local_num_epochs=1, local_learning_rate=LR),
        NNEvalHyperParams(local_batch_size=None),
        callbacks=[Pause()],
    )


if __name__ == "__main__":
    main()
