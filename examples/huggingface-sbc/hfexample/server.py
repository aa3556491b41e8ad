"""The server: federated averaging, and the score of the model that comes of it."""

import torch
from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from compressors import sbc
from hfexample.task import Net, accuracy
from strategies import Compressed

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds and prints the accuracy on the held-out sentences."""
    torch.manual_seed(0)
    model = Net()
    strategy = Compressed(FedAvg(fraction_evaluate=0.0), sbc(0.05), sbc(0.05))
    rounds = int(context.run_config["rounds"])
    result = strategy.start(grid, ArrayRecord(model.state_dict()), num_rounds=rounds)
    model.load_state_dict(result.arrays.to_torch_state_dict())
    print(f"round {rounds}/{rounds} · accuracy {accuracy(model):.4f}", flush=True)
