"""Figures 3, 5 and 8 of Aji & Heafield 2017, by a language model in place of translation.

Run: ``fedsim experiment dropping-words --data DIR``
Run: ``fedsim experiment dropping-words --data DIR --only rates``
"""

from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, grids
from experiments.common.frame import Asked, Experiment, Shown
from experiments.common.scores import row_and_seed
from experiments.common.tables import spread, table
from fedsim import Cell, Results

from .rows import FIGURES, ROWS, cells, rows_of

EMBEDDINGS = ("embed.weight", "out.weight")
"""Tensors of a row per word."""


def runs(asked: Asked) -> list[Cell]:
    """The runs of the figures that are asked for."""
    return cells(rows_of(asked.rows), asked.scale, asked.data)


def show(asked: Asked, results: Results) -> Shown:
    """Perplexities, curves, and which tensors what was sent belongs to; or the rates tried."""
    scores = collect(results)
    if asked.rows == ["rates"]:
        return Shown({"rates": scores}, {"rates": scores_table(scores)})
    curves, skew = learning(results), shares(results)
    return Shown(
        {"scores": scores, "curves": curves, "shares": skew},
        {"scores": scores_table(scores), "shares": shares_table(skew)},
        {"words": figure(curves)},
    )


EXPERIMENT = Experiment(
    show,
    runs,
    rows=lambda scale: (*FIGURES, "rates"),
    default=lambda scale: [*FIGURES],
    what="figures",
)


def collect(results: Results) -> pd.DataFrame:
    """A row per run: perplexity at the end, training loss of the last tenth, bits."""
    lines = []
    for name, run in results.runs.iterrows():
        row, seed = row_and_seed(name)
        rounds = results.rounds[results.rounds["run"] == name]
        lines.append(
            {
                "name": row,
                "seed": seed,
                "perplexity": run["metric"],
                "early": rounds["metric"].dropna().iloc[0],
                "tail_loss": rounds["train_loss"].tail(max(1, len(rounds) // 10)).mean(),
                "ratio": run["ratio_content"],
                "rounds": run["rounds"],
                "parameters": run["parameters"],
                "data_source": run["data_source"],
            }
        )
    return pd.DataFrame(lines)


def learning(results: Results) -> pd.DataFrame:
    """Training loss in twentieths of the rounds, means over the seeds of a row."""
    rounds = results.rounds.assign(name=[row_and_seed(n)[0] for n in results.rounds["run"]])
    block = max(1, rounds["round"].max() // 20)
    rounds["round"] = -(-rounds["round"] // block) * block
    grouped = rounds.groupby(["name", "round"], sort=False)["train_loss"]
    return grouped.agg(loss="mean").reset_index()


def shares(results: Results) -> pd.DataFrame:
    """Of the entries that clients sent, and of all: the share that the tables of words have.

    A row per row of the experiment: means over rounds that were evaluated, and over seeds.
    """
    layers = results.layers.assign(
        name=[row_and_seed(n)[0] for n in results.layers["run"]],
        words=results.layers["tensor"].isin(EMBEDDINGS),
    )
    every = layers.groupby("name", sort=False)[["sent", "entries"]].sum()
    tensors = layers.groupby(["name", "tensor"], sort=False)[["sent", "entries"]].sum()
    ours = layers[layers["words"]].groupby("name", sort=False)[["sent", "entries"]].sum()
    parts = (tensors["sent"] / tensors["entries"]).unstack("tensor")
    return pd.DataFrame(
        {
            "sent_percent": 100 * every["sent"] / every["entries"],
            "words_of_sent_percent": 100 * ours["sent"] / every["sent"],
            "words_of_all_percent": 100 * ours["entries"] / every["entries"],
            "least": parts.idxmin(axis=1),
            "least_percent": 100 * parts.min(axis=1),
            "most": parts.idxmax(axis=1),
            "most_percent": 100 * parts.max(axis=1),
        }
    ).reset_index()


def scores_table(scores: pd.DataFrame) -> str:
    """A row per row of the experiment; the last column pairs seeds with those of no dropping."""
    lines, by = [], scores.set_index(["name", "seed"])["perplexity"]
    for name in (name for name in ROWS if name in set(scores["name"])):
        row, mine = ROWS[name], scores[scores["name"] == name]
        dense = "dense" if row.norm else "plain-dense"
        above = [""]
        if dense in by and name != dense and not row.rate:
            above = [f"{100 * (by[name, s] / by[dense, s] - 1):+.1f}" for s in mine["seed"]]
        mean, sd, seeds = mine.mean(numeric_only=True), mine.std(numeric_only=True), len(mine)
        lines.append(
            [
                row.title,
                "yes" if row.norm else "no",
                ", ".join(map(str, row.figures)),
                f"{seeds}",
                spread(mean["perplexity"], sd["perplexity"], seeds, 1),
                spread(mean["early"], sd["early"], seeds, 1),
                spread(mean["tail_loss"], sd["tail_loss"], seeds, 3),
                f"×{mean['ratio']:.1f}",
                " / ".join(above),
            ]
        )
    return table(
        (
            "run",
            "layer norm",
            "figures",
            "seeds",
            "perplexity",
            "early",
            "training loss",
            "ratio",
            "above no dropping (%)",
        ),
        lines,
    )


def shares_table(skew: pd.DataFrame) -> str:
    """A row per row of the experiment that drops."""
    lines = [
        [
            ROWS[row["name"]].title,
            "yes" if ROWS[row["name"]].norm else "no",
            f"{row['sent_percent']:.2f}",
            f"{row['words_of_sent_percent']:.1f}",
            f"{row['words_of_all_percent']:.1f}",
            *(f"`{row[end]}`: {row[f'{end}_percent']:.3g}" for end in ("least", "most")),
        ]
        for row in skew.sort_values("name", key=lambda names: names.map([*ROWS].index)).to_dict(
            "records"
        )
        if ROWS[row["name"]].up != "raw"
    ]
    return table(
        (
            "run",
            "layer norm",
            "sent (%)",
            "of it of words' tables (%)",
            "of all entries (%)",
            "tensor that sends the least (%)",
            "the most (%)",
        ),
        lines,
    )


def figure(curves: pd.DataFrame) -> Figure:
    """Training loss over rounds: a panel per figure of the paper, two of Figure 5."""
    drawn = canvas(11, 3.4)
    panels = drawn.subplots(1, 4, sharey=True)
    wanted = [
        (3, True, "drop ratios"),
        (5, False, "thresholds, no layer norm"),
        (5, True, "thresholds, layer norm"),
        (8, True, "bits of 1 %"),
    ]
    for axes, (number, norm, title) in zip(panels, wanted, strict=True):
        names = [n for n, row in ROWS.items() if number in row.figures and row.norm == norm]
        for colour, name in zip(("black", *COLOURS), names, strict=False):
            mine = curves[curves["name"] == name]
            axes.plot(mine["round"], mine["loss"], color=colour, label=ROWS[name].title)
        axes.set(title=f"Figure {number}: {title}", xlabel="rounds")
        axes.title.set_fontsize(9)
        axes.legend(fontsize="x-small")
    panels[0].set_ylabel("training loss (nats per word)")
    grids(panels)
    return drawn


def readme_tables(results: Path) -> dict[str, str]:
    """The README's tables, from what is in ``results``."""
    made = {"rates": scores_table(pd.read_csv(results / "rates" / "rates.csv"))}
    if (results / "scores.csv").exists():
        made["scores"] = scores_table(pd.read_csv(results / "scores.csv"))
        made["shares"] = shares_table(pd.read_csv(results / "shares.csv"))
    return made
