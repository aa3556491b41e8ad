"""Numbers of the README that no run's table has.

    python experiments/ncf-movielens/ncf_checks.py --runs RESULTS --data DIR

RESULTS is the folder of the experiment's results with the run ``dense-seed0``, whose model is
scored again. Writes ``checks.csv`` there. Two minutes; most are the conflict sets of BF-P2.
"""

import argparse
from importlib import import_module
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor

from compressors import compress, parse
from experiments.common.tables import write_csv
from fedsim import Data
from fedsim.federation import ClientData, Trainer, build_model
from fedsim.tasks import get_task

ncf = import_module("experiments.ncf-movielens.run")  # by name: this file is started as a script

STEPS = 12


def hits(scores: Tensor) -> Tensor:
    """Which users (rows) have their own item, the first column, among the ten best."""
    metric, target = get_task("ncf").metric, torch.zeros(1, scores.shape[1])
    target[0, 0] = 1
    return torch.tensor([bool(metric(row[None], target)) for row in scores])


def users(data: Data, model: Path) -> dict[str, float]:
    """How many users the trained model, popularity, and only one of them hit."""
    assert isinstance(data.train_x, Tensor) and isinstance(data.test_x, Tensor)
    net = build_model(get_task("ncf"), 0, data)
    net.load_state_dict(load_file(model))
    net.eval()
    with torch.no_grad():
        ours = hits(net(data.test_x).view(data.test_y.shape))
    items = data.test_x[:, :, 1].long()
    rated = data.train_x[:, 1].long().bincount(minlength=int(items.max()) + 1).float()
    theirs = hits(rated[items])
    return {
        "users": len(ours),
        "users hit by the baseline": int(ours.sum()),
        "users hit by popularity": int(theirs.sum()),
        "users hit by the baseline alone": int((ours & ~theirs).sum()),
        "users hit by popularity alone": int((theirs & ~ours).sum()),
    }


def volume(method: str, update: dict[str, Tensor]) -> float:
    """A message over dense float32."""
    packet, _ = compress(parse(method), update)
    return 8 * len(packet.payload) / (32 * sum(x.numel() for x in update.values()))


def zero_rows(table: Tensor) -> float:
    """The share of rows that are zero as a whole."""
    return float((table == 0).all(dim=1).float().mean())


def moved(data: str | None) -> dict[str, float]:
    """The share of zeros of one client's updates where it has an Adam of its own."""
    config = ncf.cells(["updates"], "short", data)[0].config
    trainer = Trainer(config, ClientData.of(config))
    weights = {name: p.detach().clone() for name, p in trainer.parameters.items()}
    shares, state = {}, {}
    for step in range(STEPS):
        done = trainer.train(0, weights, state, step, 1)
        state = done.optimizer
        weights = {name: x + done.update[name] for name, x in weights.items()}
        zeros = sum(int((x == 0).sum()) for x in done.update.values())
        share = zeros / sum(x.numel() for x in done.update.values())
        shares[f"zeros of an update, iteration {step + 1}"] = share
    return shares


def main(runs: Path, data: str | None) -> None:
    """Writes ``checks.csv``: what is told, and its value."""
    torch.set_num_threads(1)
    config = ncf.cells(["dense"], "short", data)[0].config
    federation = ClientData.of(config)
    update = ncf.gradient(config, federation)
    checks = users(federation.data, runs / "cells" / "dense-seed0" / "model.safetensors")
    for name in ("item", "user"):
        rows = update[f"{name}_inputs.weight"]
        checks[f"zero rows of the {name}s' embedding, first gradient"] = zero_rows(rows)
    checks["BF-P2, Fit-Poly, first gradient, relative volume"] = volume(
        ncf.ROWS["p2-fit-poly"].method, update
    )
    checks["float32 values and keys of 32 bits, relative volume"] = volume(
        "per_tensor(nonzero | float32 | raw32)", update
    )
    checks |= moved(data)
    frame = pd.DataFrame({"what": list(checks), "value": list(checks.values())})
    write_csv(runs / "checks.csv", frame)
    print(frame.to_csv(index=False, float_format="%.6g"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=Path, required=True, help="the experiment's results")
    parser.add_argument("--data", help="folder with data sets; default: $FEDSIM_DATA")
    flags = parser.parse_args()
    main(flags.runs, flags.data)
