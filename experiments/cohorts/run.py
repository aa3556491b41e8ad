"""A thousand clients of which some drop out and some are late: what each policy costs.

Run: ``fedsim experiment cohorts``
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.inference import holm
from experiments.common.scores import half_width, row_and_seed
from experiments.common.tables import of_task, table
from fedsim import Cell, Clients, Evaluation, Keep, Results, RunConfig
from fedsim.ground.units import bits

NETWORK = (
    "up=lognormal(1Mbit, 1), down=lognormal(5Mbit, 1), latency=85ms, compute=lognormal(50ms, 0.5)"
)
DEADLINE = "1s"
TARGET = 0.7
SCALES = {"smoke": (20, 4, 3, 2), "short": (1000, 50, 50, 20), "paper": (1000, 100, 200, 5)}
"""Clients, cohort, rounds, seeds."""

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


_OUT = {"dropout": "before=0.05, after=0.05"}
_LATE = _OUT | {"deadline": DEADLINE}
POLICIES = {
    "all": Policy("nobody drops out, all are waited for"),
    "dropout": Policy("10 % drop out, the others are waited for", _OUT),
    "deadline": Policy(f"deadline of {DEADLINE}: late updates held", {"deadline": DEADLINE}),
    "hold": Policy(f"10 % drop out, deadline of {DEADLINE}: late updates held", _LATE),
    "drop": Policy(
        f"10 % drop out, deadline of {DEADLINE}: late updates dropped", _LATE | {"late": "drop"}
    ),
    "count": Policy(
        f"10 % drop out, deadline of {DEADLINE}: late updates counted", _LATE | {"late": "count"}
    ),
}


DIFFERENCES = (("count", "hold"), ("deadline", "all"), ("dropout", "all"))
"""The accuracies that are compared: a policy, and the one that it is less."""


def cells(scale: str) -> list[Cell]:
    """A run per seed and policy."""
    clients, cohort, rounds, seeds = SCALES[scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                task="digits",
                method="sbc(0.05)",
                downlink="sbc(0.1)",
                temporal=TEMPORAL,
                iterations=TEMPORAL * rounds,
                network=NETWORK,
                seed=seed,
                clients=Clients(clients, cohort=cohort, partition="iid", **policy.settings),
                evaluation=Evaluation(every=2),
                keep=Keep(checkpoint_every=1000),
            ),
        )
        for seed in range(seeds)
        for name, policy in POLICIES.items()
    ]


def show(asked: Asked, results: Results) -> Shown:
    """The policies of a scale."""
    frame = collect(results)
    told = differences(frame)
    text = of_task("digits", results, f"{markdown(frame)}\n{compared(told)}")
    return Shown({"policies": frame, "differences": told}, {"tables": text})


EXPERIMENT = Experiment(show, lambda asked: cells(asked.scale))


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables."""
    frame = pd.read_csv(results / "policies.csv")
    return {"policies": markdown(frame), "differences": compared(differences(frame))}


def collect(results: Results) -> pd.DataFrame:
    """A row per policy and seed; updates are counted over the run."""
    rows = []
    for run, told in results.runs.iterrows():
        name, seed = row_and_seed(run)
        rounds = results.rounds[results.rounds["run"] == run]
        clients = pd.read_parquet(results.folders[str(run)] / "clients.parquet")
        why = clients.loc[clients["failures"] > 0, "failure_reasons"]
        late = rounds["late"].sum() if "late" in rounds else 0
        requested = int(rounds["clients"].sum() - late) + len(why)
        reached = rounds.loc[rounds["metric"] >= TARGET, "sim_end_seconds"]
        rows.append(
            {
                "name": name,
                "method": told["method"],
                "seed": seed,
                "accuracy_percent": 100 * told["metric"],
                "rounds": len(rounds),
                "updates_per_round": rounds["clients"].mean(),
                "asked": requested,
                "dropped_out": int(why.str.startswith("dropped out").sum()),
                "late": int(why.str.startswith("its update came").sum()),
                "returned": int(told["returned"]),
                "lost": int(told["lost"]),
                "sim_seconds": told["sim_seconds"],
                "target_seconds": reached.min() if len(reached) else float("nan"),
                "down_bits": rounds["down_wire_bits"].sum() / requested,
            }
        )
    frame = pd.DataFrame(rows)
    order = frame["name"].map({name: place for place, name in enumerate(POLICIES)})
    return frame.assign(order=order).sort_values(["order", "seed"]).drop(columns="order")


def differences(frame: pd.DataFrame) -> pd.DataFrame:
    """The planned differences of accuracy, paired over seeds; ``holm`` is their corrected p."""
    scores, rows = frame.pivot(index="seed", columns="name", values="accuracy_percent"), []
    for name, base in DIFFERENCES:
        gaps = scores[name] - scores[base]
        equal = len(gaps) == 1 or gaps.nunique() == 1
        rows.append(
            {
                "name": name,
                "less": base,
                "points": gaps.mean(),
                "half": half_width(gaps),
                "chance": 1.0 if equal else float(ttest_1samp(gaps, 0).pvalue),
            }
        )
    told = pd.DataFrame(rows)
    return told.assign(holm=holm(told["chance"].to_numpy()))


def markdown(frame: pd.DataFrame) -> str:
    """The table of the policies: means over seeds, with half the interval where seeds differ."""
    rows = []
    for name, mine in frame.groupby("name", sort=False):
        means = mine.mean(numeric_only=True)
        rows.append(
            [
                POLICIES[str(name)].title,
                f"{means['accuracy_percent']:.1f} ± {half_width(mine['accuracy_percent']):.1f}",
                f"{means['updates_per_round']:.1f}",
                *(f"{means[column]:.0f}" for column in ("dropped_out", "late", "returned", "lost")),
                f"{means['sim_seconds']:.1f} ± {half_width(mine['sim_seconds']):.1f} s",
                _reached(mine["target_seconds"]),
                bits(means["down_bits"]),
            ]
        )
    return table(COLUMNS, rows)


def _reached(seconds: pd.Series) -> str:
    times = seconds.dropna()
    if times.empty:
        return "not reached"
    never = f" ({len(seconds) - len(times)} never)" if len(times) < len(seconds) else ""
    return f"{times.mean():.1f} ± {half_width(times):.1f} s{never}"


def compared(told: pd.DataFrame) -> str:
    """The table of the planned differences."""
    rows = [
        [
            POLICIES[row["name"]].title,
            POLICIES[row["less"]].title,
            f"{row['points']:+.1f} ± {row['half']:.1f}",
            f"{row['holm']:.2g}",
        ]
        for row in told.to_dict("records")
    ]
    return table(("policy", "less", "points of accuracy", "Holm's p"), rows)
