"""Flower's own simulation: federated averaging on Ray, one or two actors."""

import sys
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation
from work import LR, Turns, Work

client, server = ClientApp(), ServerApp()


@cache
def made(folder: str) -> tuple[Work, torch.nn.Module]:
    """The work and a model, once in every process."""
    torch.set_num_threads(1)
    work = Work(Path(folder))
    return work, work.model()


@client.train()
def train(message: Message, context: Context) -> Message:
    config = message.content["config"]
    work, model = made(config["folder"])
    model.load_state_dict(message.content["arrays"].to_torch_state_dict())
    optimizer, total = torch.optim.SGD(model.parameters(), lr=LR), torch.zeros(())
    x, y = work.data
    for index in work.batches[config["server-round"] - 1, config["slot"]]:
        loss = F.cross_entropy(model(x[index]), y[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.detach()
    iterations, batch = work.batches.shape[2:]
    told = MetricRecord({"loss": float(total) / iterations, "num-examples": iterations * batch})
    content = RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": told})
    return Message(content, reply_to=message)


class Planned(FedAvg):
    """Each node that Flower draws gets one client of the planned cohort to play."""

    def configure_train(self, server_round, arrays, config, grid):
        turns.wait()
        messages = list(super().configure_train(server_round, arrays, config, grid))
        for slot, message in enumerate(messages):
            own = ConfigRecord({**config, "slot": slot})
            message.content = RecordDict({"arrays": arrays, "config": own})
        return messages

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        turns.done(metrics["loss"])
        return arrays, metrics


@server.main()
def main(grid: Grid, context: Context) -> None:
    share = len(turns.work.cohorts[0]) / turns.work.clients
    strategy = Planned(fraction_train=share, fraction_evaluate=0.0)
    config = ConfigRecord({"folder": str(turns.work.folder)})
    arrays = ArrayRecord(turns.work.model().state_dict())
    strategy.start(grid, arrays, turns.rounds, train_config=config)


def simulate() -> None:
    global turns
    turns = Turns()
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    started = {"address": "local", "num_cpus": turns.processes, "include_dashboard": False}
    config = {"client_resources": resources, "init_args": started}
    run_simulation(server, client, turns.work.clients, backend_config=config)


if __name__ == "__main__":
    # Ray's processes find the apps by the name of this module, which is not __main__.
    sys.path.insert(0, str(Path(__file__).parent))
    import run_flower

    run_flower.simulate()
