"""BlazeFL: its federated averaging with its pool of threads, one or two."""

from threading import Event
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from blazefl.contrib.fedavg import (
    FedAvgBaseServerHandler,
    FedAvgDownlinkPackage,
    FedAvgThreadPoolClientTrainer,
    FedAvgUplinkPackage,
)
from blazefl.core import deserialize_model, serialize_model
from work import LR, Turns

turns = Turns()
work = turns.work
models = SimpleNamespace(select_model=lambda name: work.model())


class Server(FedAvgBaseServerHandler):
    """Asks the planned cohort."""

    def sample_clients(self) -> list[int]:
        return work.cohorts[self.round]


class Trainer(FedAvgThreadPoolClientTrainer):
    """Trains on the planned batches."""

    def worker(
        self, cid: int, device: str, payload: FedAvgDownlinkPackage, stop_event: Event
    ) -> FedAvgUplinkPackage:
        torch.set_num_threads(1)  # of this thread
        model = work.model()
        deserialize_model(model, payload.model_parameters)
        optimizer, total = torch.optim.SGD(model.parameters(), lr=LR), torch.zeros(())
        now = server.round
        x, y = work.data
        for index in work.batches[now, work.cohorts[now].index(cid)]:
            loss = F.cross_entropy(model(x[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        seen = work.batches[0, 0].numel()
        return FedAvgUplinkPackage(cid, serialize_model(model), seen, {"loss": float(total)})


size = len(work.cohorts[0])
server = Server(models, "", None, turns.rounds, work.clients, size / work.clients, "cpu", 0, 0)
trainer = Trainer(models, "", None, "cpu", work.clients, 1, 0, LR, 0, turns.processes)
while not server.if_stop():
    turns.wait()
    trainer.local_process(server.downlink_package(), server.sample_clients())
    packages = trainer.uplink_package()
    for package in packages:
        server.load(package)
    turns.done(sum(p.metadata["loss"] for p in packages) / work.batches[0, :, :, 0].numel())
