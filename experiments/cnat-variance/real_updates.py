"""The same measurement on real updates: one client's, whole, as the message of a run carries it."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch

from compressors import decompress, parse
from experiments.common.tables import table
from fedsim import Cell, Evaluation, Keep, Machine, RunConfig, Training
from fedsim.federation import build_model


@dataclass(frozen=True)
class Moment:
    """When the update is taken: that of the last of ``rounds`` rounds."""

    rounds: int
    temporal: int
    batch_size: int


MODELS = {"cifar_resnet20": Moment(4, 5, 32), "char_lstm": Moment(20, 5, 5)}
SMOKE = Moment(1, 1, 2)
METHODS = {
    "cnat": "C_nat",
    "natural_dither(8)": "D_nat, 8 levels",
    "dither(8)": "D_sta, 8 levels",
    "dither(128)": "D_sta, 128 levels",
}
"""What is measured, and its title in the table."""


def cells(tasks: list[str], scale: str, data: str | None) -> list[Cell]:
    """A run per task, of one client that trains alone and whose messages are kept."""
    moments = {task: SMOKE if scale == "smoke" else MODELS[task] for task in tasks}
    return [
        Cell(
            task,
            RunConfig(
                task=task,
                method="raw",
                temporal=at.temporal,
                clients=1,
                iterations=at.rounds * at.temporal,
                training=Training(batch_size=at.batch_size),
                evaluation=Evaluation(every=at.rounds, test_samples=1),
                machine=Machine(data=data),
                keep=Keep(payloads=True),
            ),
        )
        for task, at in moments.items()
    ]


def last_update(cell: Cell, out: Path) -> torch.Tensor:
    """All entries of the update (n,), float32, that the run of ``cell`` in ``out`` sent last."""
    payload = sorted((out / "cells" / cell.name).rglob("client-000-up.bin"))[-1]
    task, data = cell.config.plan.task, cell.config.machine.data
    model = build_model(task, 0, task.load(Path(data) if data else None, False))
    template = {name: p.detach() for name, p in model.named_parameters()}
    update = decompress(parse("raw"), payload.read_bytes(), template)
    return torch.cat([x.flatten() for x in update.values()])


def real_table(frame: pd.DataFrame) -> str:
    """A row per model and method: bits, variance over draws, on normal entries, and its bound."""
    lines = []
    for row in frame.to_dict("records"):
        places = 3 if row["omega"] < 1 else 2 if row["omega"] < 10 else 1
        sd, normal, worst = (
            f"{row[name]:.{places}f}" for name in ("omega_spread", "omega_normal", "omega_bound")
        )
        measured = f"{row['omega']:.{places}f} ± {sd}"
        model = row["task"], f"{row['entries']:,}", METHODS[row["method"]]
        lines.append([*model, f"{row['bits_per_entry']:.0f}", measured, normal, worst])
    heading = ("model", "entries", "method", "bits per entry", "ω", "ω, normal", "bound")
    return table(heading, lines)
