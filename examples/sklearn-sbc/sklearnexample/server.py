"""The server: federated averaging; the nodes score the model of every round."""

from flwr.app import ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

from compressors import sbc
from sklearnexample.task import initial
from strategies import Compressed

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    """Runs the rounds and prints the nodes' mean accuracy after the last."""
    strategy = Compressed(FedAvg(), sbc(0.2), sbc(0.2), compress_evaluation=True)
    rounds = int(context.run_config["rounds"])
    result = strategy.start(grid, ArrayRecord(initial()), num_rounds=rounds)
    accuracy = result.evaluate_metrics_clientapp[rounds]["accuracy"]
    print(f"round {rounds}/{rounds} · accuracy {accuracy:.4f}", flush=True)
