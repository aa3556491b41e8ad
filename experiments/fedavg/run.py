"""Rounds of federated averaging to an accuracy on MNIST, and the bits that they cost.

fedsim experiment fedavg --only rates,2nn-iid-b10 --data DIR   # tries learning rates
fedsim experiment fedavg --only rounds,2nn-iid-b10 --data DIR  # counts rounds
"""

from pathlib import Path

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import row_and_seed
from fedsim import Cell, Clients, Evaluation, Keep, Machine, Results, RunConfig, Training

from .figures import figure
from .rows import CLIENTS, COHORT, ROWS, TRIAL_SEED, Row
from .tables import compared, markdown, rates_markdown, tried

RUN_HERE = ("2nn-iid-b10",)
"""The rows that are run where ``--only`` names none."""

RATES, ROUNDS = "rates", "rounds"


def config(row: Row, scale: str, data: str | None, seed: int, lr: float, rounds: int) -> RunConfig:
    """The settings of a run; at smoke scale ten clients share the digits."""
    smoke = scale == "smoke"
    return RunConfig(
        task="digits" if smoke else row.task,
        method=row.method,
        local_epochs=row.epochs,
        rounds=2 if smoke else rounds,
        seed=seed,
        clients=Clients(
            10 if smoke else CLIENTS, cohort=2 if smoke else COHORT, partition=row.partition
        ),
        training=Training(batch_size=10 if smoke else row.batch, lr=lr),
        evaluation=Evaluation(every=1),
        keep=Keep(checkpoint_every=50),
        machine=Machine(data=data),
    )


def cells(asked: Asked) -> list[Cell]:
    """The runs of a folder: trials of rates with one seed, or those that count rounds."""
    made = []
    for row in (ROWS[name] for name in asked.rows):
        if asked.task == ROUNDS:
            seeds = 2 if asked.scale == "smoke" else row.seeds
            made += [
                Cell(
                    f"{row.name}-seed{seed}",
                    config(row, asked.scale, asked.data, seed, row.lr, row.rounds),
                )
                for seed in range(seeds)
            ]
            continue
        made += [
            Cell(
                f"{row.name}-lr{lr}-seed{TRIAL_SEED}",
                config(row, asked.scale, asked.data, TRIAL_SEED, lr, row.trial),
            )
            for lr in (row.rates if row.trial else ())
        ]
    return made


def curves(results: Results) -> pd.DataFrame:
    """A line per run and round: the accuracy, and the bits that a client has sent on average.

    ``up_bits`` are those of the whole federation over its clients: of the messages of a round,
    a tenth per client.
    """
    frames = []
    for run in results.runs.index:
        rounds = results.rounds[results.rounds["run"] == run]
        name, seed = row_and_seed(run)
        frames.append(
            pd.DataFrame(
                {
                    "name": name,
                    "seed": seed,
                    "round": rounds["round"],
                    "accuracy": rounds["metric"],
                    "up_bits": rounds["up_wire_bits"].cumsum() / results.runs.loc[run, "clients"],
                }
            )
        )
    return pd.concat(frames, ignore_index=True)


def show(asked: Asked, results: Results) -> Shown:
    """The rates that were tried, or the rounds to the target and the curves."""
    lines = curves(results)
    if asked.task == RATES:
        frame = tried(lines)
        return Shown({"rates": frame, "curves": lines}, {"rates": rates_markdown(frame)})
    frame = compared(lines)
    return Shown(
        {"rounds": frame, "curves": lines}, {"rounds": markdown(frame)}, {"curves": figure(lines)}
    )


EXPERIMENT = Experiment(
    show,
    cells,
    what="parts and rows",
    tasks=lambda scale: (RATES, ROUNDS),
    rows=lambda scale: ROWS,
    default=lambda scale: (RATES, ROUNDS, *RUN_HERE),
)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables."""
    return {
        RATES: rates_markdown(pd.read_csv(results / RATES / "rates.csv")),
        ROUNDS: markdown(pd.read_csv(results / ROUNDS / "rounds.csv")),
    }
