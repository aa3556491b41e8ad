"""A thousand clients of which some drop out and some are late: what each policy costs.

Run: ``fedsim experiment cohorts``
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import of_row
from experiments.common.tables import of_task, table
from fedsim import Cell, Clients, Evaluation, Keep, Results, RunConfig
from fedsim.ground.units import bits, duration

NETWORK = (
    "up=lognormal(1Mbit, 1), down=lognormal(5Mbit, 1), latency=85ms, compute=lognormal(50ms, 0.5)"
)
DEADLINE = "1s"
TARGET = 0.7
SCALES = {"smoke": (20, 4, 3), "short": (1000, 50, 50), "paper": (1000, 100, 200)}
"""Clients, cohort, rounds."""

TEMPORAL = 5
COLUMNS = (
    "policy",
    "accuracy",
    "updates per round",
    "dropped out",
    "late",
    "sent again",
    "lost",
    "simulated time",
    f"to {100 * TARGET:.0f} %",
    "down per client and round",
)


@dataclass(frozen=True)
class Policy:
    """A row of the table."""

    title: str
    settings: dict[str, Any] = field(default_factory=dict)


_LATE = {"dropout": "before=0.05, after=0.05", "deadline": DEADLINE}
POLICIES = {
    "all": Policy("nobody drops out, all are waited for"),
    "hold": Policy(f"10 % drop out, deadline of {DEADLINE}: late updates held", _LATE),
    "drop": Policy(
        f"10 % drop out, deadline of {DEADLINE}: late updates dropped", _LATE | {"late": "drop"}
    ),
    "count": Policy(
        f"10 % drop out, deadline of {DEADLINE}: late updates counted", _LATE | {"late": "count"}
    ),
}


def cells(scale: str) -> list[Cell]:
    """A run per policy."""
    clients, cohort, rounds = SCALES[scale]
    return [
        Cell(
            f"{name}-seed0",
            RunConfig(
                task="digits",
                method="sbc(0.05)",
                downlink="sbc(0.1)",
                temporal=TEMPORAL,
                iterations=TEMPORAL * rounds,
                network=NETWORK,
                clients=Clients(clients, cohort=cohort, partition="iid", **policy.settings),
                evaluation=Evaluation(every=2),
                keep=Keep(checkpoint_every=1000),
            ),
        )
        for name, policy in POLICIES.items()
    ]


def show(asked: Asked, results: Results) -> Shown:
    """The policies of a scale."""
    frame = collect(results)
    text = of_task("digits", results, markdown(frame))
    return Shown({"policies": frame}, {"tables": text})


EXPERIMENT = Experiment(show, lambda asked: cells(asked.scale))


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table."""
    return {"policies": markdown(pd.read_csv(results / "policies.csv"))}


def collect(results: Results) -> pd.DataFrame:
    """A row per policy; updates are counted over the run."""
    rows = []
    for name in POLICIES:
        run, rounds = of_row(results.runs, name).iloc[0], of_row(results.rounds, name)
        clients = pd.read_parquet(results.folders[str(run.name)] / "clients.parquet")
        why = clients.loc[clients["failures"] > 0, "failure_reasons"]
        in_time = rounds["clients"].sum() - (rounds["late"].sum() if "late" in rounds else 0)
        asked = int(in_time) + len(why)
        there = rounds.loc[rounds["metric"] >= TARGET, "sim_end_seconds"]
        rows.append(
            {
                "name": name,
                "method": run["method"],
                "seeds": 1,
                "accuracy_percent": 100 * run["metric"],
                "rounds": len(rounds),
                "updates_per_round": rounds["clients"].mean(),
                "asked": asked,
                "dropped_out": int(why.str.startswith("dropped out").sum()),
                "late": int(why.str.startswith("its update came").sum()),
                "returned": int(run["returned"]),
                "lost": int(run["lost"]),
                "sim_seconds": run["sim_seconds"],
                "target_seconds": there.min() if len(there) else float("nan"),
                "down_bits": rounds["down_wire_bits"].sum() / asked,
            }
        )
    return pd.DataFrame(rows)


def markdown(frame: pd.DataFrame) -> str:
    """The table of the policies."""
    rows = [
        [
            POLICIES[row["name"]].title,
            f"{row['accuracy_percent']:.1f}",
            f"{row['updates_per_round']:.1f}",
            str(row["dropped_out"]),
            str(row["late"]),
            str(row["returned"]),
            str(row["lost"]),
            duration(row["sim_seconds"]),
            duration(row["target_seconds"]) or "not reached",
            bits(row["down_bits"]),
        ]
        for row in frame.to_dict("records")
    ]
    return table(COLUMNS, rows)
