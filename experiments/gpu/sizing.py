"""How long runs may be: milliseconds per local iteration are measured, and size every item."""

from pathlib import Path
from statistics import median

import pandas as pd

from experiments.common.tables import write_csv
from fedsim import Evaluation, Keep, RunConfig, run
from fedsim.ground.files import write_text

from .items import Item

PROBE_ROUNDS, PROBE_DELAY = 6, 10
SHARE = 0.8
"""The part of a call's minutes that an item may take; start and evaluation have the rest."""

EVALUATIONS = 20
"""Evaluations of a run."""


def measured(item: Item, device: str, data: str | None, path: Path) -> pd.Series:
    """Milliseconds per local iteration of all clients of a round, by run.

    ``path`` is a CSV file to which what it lacks of this item is added. A run with n above 10 is
    measured at n = 10, so that its messages count for more than they will.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=["item", "run"])
    for name, config in item.runs.items():
        if ((table["item"] == item.name) & (table["run"] == name)).any():
            continue
        print(f"{item.name}: measuring {name}", flush=True)
        delay = min(config.plan.temporal, PROBE_DELAY)
        short = placed(config, device, data).but(
            temporal=delay,
            iterations=PROBE_ROUNDS * delay,
            evaluate_every=PROBE_ROUNDS,
            test_samples=1,
        )
        seconds = run(short).rounds["seconds"]
        line = {"item": item.name, "run": name, "device": device}
        line |= {"ms_per_iteration": 1e3 * median(seconds[2:]) / delay}
        table = pd.DataFrame([*table.to_dict("records"), line])
        write_csv(path, table)
    return table[table["item"] == item.name].set_index("run")["ms_per_iteration"]


def length(item: Item, milliseconds: pd.Series, minutes: float) -> int:
    """Local iterations of each run, so that all of the item fit ``minutes``.

    At most as published; else whole rounds of the longest delay that is not itself shortened.

    Example:
        >>> from experiments.gpu.items import ITEMS
        >>> length(ITEMS["deepreduce"], pd.Series([20.0] * 6), minutes=8)
        3200
    """
    fits = int(SHARE * 60e3 * minutes / milliseconds.sum())
    if fits >= item.published:
        return item.published
    step = 100 if fits >= 400 else 4
    return max(step, fits - fits % step)


def placed(config: RunConfig, device: str, data: str | None) -> RunConfig:
    """The run on ``device``, with the data of ``data``."""
    return config.but(device=device, data=data)


def sized(item: Item, iterations: int, device: str, data: str | None) -> dict[str, RunConfig]:
    """The item's runs at a length; a delay is a quarter of it at most, so that clients average."""
    made = {}
    for name, config in item.runs.items():
        delay = min(config.plan.temporal, max(1, iterations // 4))
        rounds = -(-iterations // delay)
        every = max(1, rounds // EVALUATIONS)
        made[name] = placed(config, device, data).but(
            iterations=iterations,
            temporal=delay,
            evaluation=Evaluation(every=every),
            keep=Keep(checkpoint_every=every),
        )
    return made


def planned(item: Item, milliseconds: pd.Series, minutes: float, path: Path) -> int:
    """The item's length, which is decided once: in the file ``path``, made if it is not there."""
    if path.exists():
        return int(path.read_text())
    iterations = length(item, milliseconds, minutes)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, f"{iterations}\n")
    return iterations
