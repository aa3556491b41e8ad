"""Adapters beside full fine-tuning: what a client sends and is sent until the same perplexity.

Run: ``fedsim experiment lora --data DIR``
"""

from pathlib import Path
from typing import Any

import pandas as pd
from scipy.stats import ttest_1samp

from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.inference import holm
from experiments.common.scores import half_width, row_and_seed
from experiments.common.tables import of_task, spread, table
from fedsim import Cell, Evaluation, Machine, Results, RunConfig
from fedsim.ground.units import bits

ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "full": ("all of it", {"task": "char_transformer", "method": "raw"}),
    "fedit": ("FedIT: A and B, rank 4", {"task": "char_transformer_fedit", "method": "raw"}),
    "ffa": ("FFA-LoRA: B, rank 4", {"task": "char_transformer_ffa", "method": "raw"}),
    "full-sbc": (
        "all of it, sbc(0.01) both ways",
        {"task": "char_transformer", "method": "sbc(0.01)", "downlink": "sbc(0.01)"},
    ),
    "full-sbc-half": (
        "all of it, sbc(0.005) both ways",
        {"task": "char_transformer", "method": "sbc(0.005)", "downlink": "sbc(0.005)"},
    ),
    "fedit-sbc": (
        "FedIT, sbc(0.1) both ways",
        {"task": "char_transformer_fedit", "method": "sbc(0.1)", "downlink": "sbc(0.1)"},
    ),
    "ffa-sbc": (
        "FFA-LoRA, sbc(0.2) both ways",
        {"task": "char_transformer_ffa", "method": "sbc(0.2)", "downlink": "sbc(0.2)"},
    ),
}
"""What is trained, in words, and the settings of its runs."""

DIFFERENCES = (
    ("fedit-sbc", "full-sbc-half"),
    ("fedit-sbc", "full-sbc"),
    ("fedit-sbc", "ffa-sbc"),
)
"""The rows whose end perplexities are tested: one, and the one that it is less."""

FRESH = 5
"""The first of the seeds that tests use: those below were seen before the rows were planned."""

TARGETS = ("fedit", "ffa")
"""Rows at whose perplexity all rows are compared."""

SCALES = {"smoke": (1, 20, 8), "short": (10, 300, 500), "paper": (10, 1000, 1651)}
"""Seeds, iterations, held-out windows of 64 characters."""

TEMPORAL, EVALUATIONS = 10, 2  # local iterations of a round; rounds
COLUMNS = ("trained", "weights that travel", "perplexity at the end", "both ways at the end")


def cells(asked: Asked) -> list[Cell]:
    """Every row with a seed, then with the next."""
    seeds, iterations, windows = SCALES[asked.scale]
    return [
        Cell(
            f"{name}-seed{seed}",
            RunConfig(
                temporal=TEMPORAL,
                iterations=iterations,
                seed=seed,
                **settings,
                machine=Machine(data=asked.data),
                evaluation=Evaluation(every=EVALUATIONS, test_samples=windows),
            ),
        )
        for seed in range(seeds)
        for name, (_, settings) in ROWS.items()
    ]


def collect(results: Results) -> pd.DataFrame:
    """A line per evaluation: the row, the seed, the perplexity, and a client's bits until then."""
    frames = []
    for run in results.runs.index:
        rounds = results.rounds[results.rounds["run"] == run]
        name, seed = row_and_seed(run)
        both = rounds["up_wire_bits"] + rounds["down_wire_bits"]  # without the initial model
        per_client = both.cumsum() / results.runs.loc[run, "clients"]
        frame = pd.DataFrame(
            {
                "name": name,
                "seed": seed,
                "iteration": rounds["iteration"],
                "perplexity": rounds["metric"],
                "bits": per_client,
                "trained": results.runs.loc[run, "trained_parameters"],
            }
        )
        frames.append(frame.dropna(subset="perplexity"))
    return pd.concat(frames, ignore_index=True).sort_values(["name", "seed", "iteration"])


def compared(curves: pd.DataFrame) -> pd.DataFrame:
    """A line per row: means and deviations over seeds at the end, and bits until each target.

    A target is the worst perplexity that a seed of its row ends at. Until it, a client's bits are
    those of the first evaluation at or below it; a row of which a seed never is has none.
    """
    last = curves.groupby(["name", "seed"], sort=False).last()
    made = []
    for name in ROWS:
        end = last.loc[name]
        line = {
            "name": name,
            "method": ROWS[name][1]["method"],
            "seeds": len(end),
            "trained": int(end["trained"].iloc[0]),
            "perplexity": end["perplexity"].mean(),
            "perplexity_sd": end["perplexity"].std(),
            "bits": end["bits"].mean(),
        }
        for target in TARGETS:
            bar = last.loc[target, "perplexity"].max()
            mine = of_seeds(curves[curves["name"] == name], bar)
            every = len(mine) == len(end)
            line |= {
                f"target_{target}": bar,
                f"bits_{target}": mine.mean() if every else float("nan"),
                f"bits_{target}_sd": mine.std() if every else float("nan"),
            }
        made.append(line)
    return pd.DataFrame(made)


def of_seeds(curves: pd.DataFrame, bar: float) -> pd.Series:
    """By seed, a client's bits at its first evaluation at or below the perplexity ``bar``."""
    return curves[curves["perplexity"] <= bar].groupby("seed")["bits"].first()


def differences(curves: pd.DataFrame) -> pd.DataFrame:
    """The planned differences at the end, paired over the fresh seeds.

    ``points`` of perplexity with half its 95 % interval, its p and ``holm``'s; and how many times
    the bits of the first are those of the second.
    """
    last = curves.groupby(["name", "seed"])[["perplexity", "bits"]].last().unstack("name")
    fresh = last[last.index >= FRESH] if (last.index >= FRESH).any() else last
    made = []
    for name, base in DIFFERENCES:
        gaps = fresh["perplexity"][name] - fresh["perplexity"][base]
        made.append(
            {
                "name": name,
                "less": base,
                "seeds": len(gaps),
                "points": gaps.mean(),
                "half": half_width(gaps),
                "chance": float(ttest_1samp(gaps, 0).pvalue) if len(gaps) > 1 else 1.0,
                "times": fresh["bits"][name].mean() / fresh["bits"][base].mean(),
            }
        )
    told = pd.DataFrame(made)
    return told.assign(holm=holm(told["chance"].to_numpy()))


def difference_table(told: pd.DataFrame) -> str:
    """The table of the planned differences."""
    rows = [
        [
            ROWS[row["name"]][0],
            ROWS[row["less"]][0],
            f"{row['points']:+.3f} ± {row['half']:.3f}",
            f"{row['holm']:.2g}",
            f"{row['times']:.2f}",
        ]
        for row in told.to_dict("records")
    ]
    return table(("row", "less", "perplexity", "Holm's p", "bits, times"), rows)


def markdown(frame: pd.DataFrame) -> str:
    """The table of the rows."""
    bars = [f"both ways to {frame[f'target_{target}'].iloc[0]:.3f}" for target in TARGETS]
    rows = [
        [
            ROWS[row["name"]][0],
            f"{row['trained']:,}",
            spread(row["perplexity"], row["perplexity_sd"], row["seeds"], 3),
            bits(row["bits"]),
            *(
                "not reached" if pd.isna(row[f"bits_{target}"]) else bits(row[f"bits_{target}"])
                for target in TARGETS
            ),
        ]
        for row in frame.to_dict("records")
    ]
    return table((*COLUMNS, *bars), rows)


def show(asked: Asked, results: Results) -> Shown:
    """The rows of a scale, and the evaluations that they are of."""
    curves = collect(results)
    frame = compared(curves)
    told = differences(curves)
    parts = f"{markdown(frame)}\n{difference_table(told)}"
    text = of_task("char_transformer", results, parts)
    frames = {"rows": frame, "curves": curves, "differences": told}
    return Shown(frames, {"tables": text}, digits={"curves": None})


EXPERIMENT = Experiment(show, cells)


def readme_tables(results: Path) -> dict[str, str]:
    """The README's table."""
    told = pd.read_csv(results / "differences.csv")
    rows = pd.read_csv(results / "rows.csv")
    return {"rows": markdown(rows), "differences": difference_table(told)}
