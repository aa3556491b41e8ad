"""Trials of rates, then finals with the rate of each place and arm."""

import math

import pandas as pd

from experiments.common.frame import Asked
from experiments.common.staged import Runs
from fedsim import Cell

from .rows import ARMS, SCALES, TRIAL_SEED, Place, cell, places, rates

TRIALS, FINALS = "trials", "finals"


def trial_cells(asked: Asked) -> list[tuple[Place, str, float, Cell]]:
    """Place, arm, rate and run of every trial."""
    scale = SCALES[asked.scale]
    return [
        (place, arm, lr, cell(asked.task, scale, place, arm, lr, TRIAL_SEED, asked.data))
        for place in places(asked.task, scale)
        for arm in ARMS
        for lr in rates(asked.task, scale, place)
    ]


def trials(asked: Asked, runs: Runs) -> pd.DataFrame:
    """A line per trial, with its accuracy; NaN where its weights stopped to be finite."""
    planned = trial_cells(asked)
    runs.run([run for *_, run in planned], TRIALS)
    lines = [
        _line(place, arm, lr, TRIAL_SEED) | {"accuracy": accuracy(runs, run, TRIALS)}
        for place, arm, lr, run in planned
    ]
    return pd.DataFrame(lines)


def chosen(tried: pd.DataFrame) -> pd.DataFrame:
    """The rate of the best accuracy by place and arm; of equal ones the smallest.

    Example:
        >>> line = {"n": 1, "p": 0.1, "beta": 0.9, "arm": "off"}
        >>> tried = [line | {"lr": 0.1, "accuracy": 0.5}, line | {"lr": 0.2, "accuracy": 0.5}]
        >>> chosen(pd.DataFrame(tried))["lr"].tolist()
        [0.1]
    """
    ordered = tried.sort_values(["accuracy", "lr"], ascending=[False, True], kind="stable")
    return ordered.groupby(["n", "p", "beta", "arm"], sort=False).first().reset_index()


def finals(asked: Asked, runs: Runs, tried: pd.DataFrame) -> pd.DataFrame:
    """A line per final run, with its accuracy; NaN where its weights stopped to be finite."""
    scale, best = SCALES[asked.scale], chosen(tried).set_index(["n", "p", "beta", "arm"])["lr"]
    planned = []
    for seed in range(scale.seeds):
        for place in places(asked.task, scale):
            for arm in ARMS:
                lr = float(best[place.n, place.p, place.beta, arm])
                run = cell(asked.task, scale, place, arm, lr, seed, asked.data)
                planned.append((place, arm, lr, seed, run))
    runs.run([run for *_, run in planned], FINALS)
    lines = [
        _line(place, arm, lr, seed) | {"accuracy": accuracy(runs, run, FINALS)}
        for place, arm, lr, seed, run in planned
    ]
    return pd.DataFrame(lines)


def accuracy(runs: Runs, run: Cell, part: str) -> float:
    """The accuracy of a run's last model; NaN where its weights stopped to be finite."""
    summary = runs.summary(run, part)
    return math.nan if summary["status"] == "failed" else float(summary["metric"])


def _line(place: Place, arm: str, lr: float, seed: int) -> dict[str, float | str]:
    """A run's settings."""
    return {
        "n": place.n,
        "p": place.p,
        "beta": place.beta,
        "u": place.u,
        "arm": arm,
        "lr": lr,
        "seed": seed,
    }
