"""A row per run, its curve in blocks of rounds, and what the figures show as tables in Markdown."""

import pandas as pd

from experiments.common.scores import row_and_seed
from experiments.common.tables import sections, spread, table

from .rows import EVALUATIONS, ROWS
from .times import on_a_link

BLOCKS = 20
"""Points of a curve: training loss is the mean over a twentieth of the rounds."""
COLUMNS = (
    "run",
    "layer norm",
    "figures",
    "seeds",
    "accuracy",
    "paper",
    "early",
    "training loss",
    "ratio",
    "paper",
)
DIFFERENCES = (
    "layer norm",
    "drop 99 %",
    "seeds",
    "first evaluation, points",
    "at the end, points",
    "training loss, times",
)


def curves(rounds: pd.DataFrame) -> pd.DataFrame:
    """A row per run and block of rounds: where it ends, mean training loss, accuracy there.

    A run is told by its ``name``, the row's, and its ``seed``.
    ``batches`` counts those of all clients together, as the paper does. ``seconds`` is what the
    rounds took without evaluation; ``link_seconds`` adds a link (see ``collect``).
    """
    curves = []
    for name, own in rounds.groupby("run", sort=False):
        block = (own["round"] - 1) * min(BLOCKS, len(own)) // len(own)
        work = own["seconds"] - own["evaluate_seconds"]
        sums = own.assign(
            batches=(own["local_iterations"] * own["clients"]).cumsum(),
            seconds=work.cumsum(),
            link_seconds=on_a_link(own, work).cumsum(),
        ).groupby(block)
        last = sums[["round", "batches", "seconds", "link_seconds"]].last()
        last["train_loss"] = sums["train_loss"].mean()
        last["accuracy_percent"] = 100 * sums["metric"].last()
        row, seed = row_and_seed(name)
        curves.append(last.assign(name=row, seed=seed))
    return pd.concat(curves, ignore_index=True)


def collect(runs: pd.DataFrame, rounds: pd.DataFrame, batch_size: int) -> pd.DataFrame:
    """A row per run of the experiment.

    ``accuracy_percent`` is the last evaluation, ``early_percent`` the first. ``tail_loss`` is the
    mean training loss over the last tenth of the rounds. ``round_ms`` is the median round without
    evaluation: all nodes' work on one core. ``link_ms`` has the nodes share that work and adds a
    link (see ``on_a_link``); ``link_images`` are images per second then. What the paper prints
    is in ``paper_...``.
    """
    places, table = list(ROWS), []
    for name in sorted(runs.index, key=lambda name: places.index(row_and_seed(name)[0])):
        (of_row, seed), run, own = row_and_seed(name), runs.loc[name], rounds[rounds["run"] == name]
        row = ROWS[of_row]
        scored = 100 * own["metric"].dropna()
        work = own["seconds"] - own["evaluate_seconds"]
        linked, images = on_a_link(own, work).median(), batch_size * run["clients"]
        table.append(
            {
                "name": of_row,
                "seed": seed,
                "figures": " ".join(row.figures),
                "layer_norm": row.layer,
                "title": row.title,
                "method": run["method"],
                "accuracy_percent": scored.iloc[-1],
                "early_percent": scored.iloc[0],
                "best_percent": scored.max(),
                "tail_loss": own["train_loss"].tail(max(1, len(own) // EVALUATIONS)).mean(),
                "up_bits": run["up_content_bits"],
                "down_bits": run["down_content_bits"],
                "ratio_content": run["ratio_content"],
                "ratio_wire": run["ratio_wire"],
                "rounds": run["rounds"],
                "parameters": run["parameters"],
                "round_ms": 1e3 * work.median(),
                "encode_ms": 1e3 * own["encode_seconds"].median(),
                "images": images / work.median(),
                "link_ms": 1e3 * linked,
                "link_images": images / linked,
                "paper_images": row.paper.images,
                "paper_words": row.paper.words,
                "data_source": run["data_source"],
            }
        )
    return pd.DataFrame(table)


def over_seeds(table: pd.DataFrame) -> pd.DataFrame:
    """A row per row of the experiment, from ``collect``: means over seeds.

    ``..._sd`` are sample standard deviations, NaN of one seed; ``seeds`` counts them.
    """
    names = ["accuracy_percent", "early_percent", "tail_loss"]
    by = table.groupby("name", sort=False)
    means = by.first()
    means[names] = by[names].mean()
    for name in names:
        means[f"{name}_sd"] = by[name].std(ddof=1)
    return means.assign(seeds=by.size()).reset_index().drop(columns="seed")


def shown(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The rows of the runs that ``figure`` shows."""
    return table[[figure in figures.split() for figures in table["figures"]]]


def markdown(runs: pd.DataFrame) -> str:
    """Every figure's rows, as far as they are there, and the differences of Figure 4."""
    means = over_seeds(runs)
    parts = [(f"Figure {number}", _rows(shown(means, f"fig{number}"))) for number in "2468"]
    return sections([*parts, ("Figure 4, differences", differences(runs))])


def runs_table(runs: pd.DataFrame) -> str:
    """All rows, from ``collect``."""
    return _rows(over_seeds(runs))


def _rows(means: pd.DataFrame) -> str:
    lines = []
    for row in means.to_dict("records"):
        printed = ROWS[row["name"]].paper
        figures = [name[3:] for name in row["figures"].split() if name.startswith("fig")]
        lines.append(
            [
                row["title"],
                "yes" if row["layer_norm"] else "no",
                ", ".join(figures),
                f"{row['seeds']}",
                _mean(row, "accuracy_percent", 2),
                _or_dash(printed.accuracy_percent),
                _mean(row, "early_percent", 2),
                _mean(row, "tail_loss", 4),
                f"×{row['ratio_content']:.1f}",
                _or_dash(printed.ratio, "×"),
            ]
        )
    return table(COLUMNS, lines)


def differences(runs: pd.DataFrame) -> str:
    """Figure 4: accuracies less those of no dropping with the same seed, and ratios of losses.

    The runs of a seed see the same batches in the same order, so that they are compared one by one.
    """
    lines, by = [], runs.set_index(["name", "seed"])
    for name, row in ROWS.items():
        mine = runs[runs["name"] == name]
        if "fig4" not in row.figures or row.up == "raw" or mine.empty:
            continue
        dense = by.loc["dense" if row.layer else "plain-dense"].loc[mine["seed"]]
        ours = by.loc[name]
        gaps = [f"{column}_percent" for column in ("early", "accuracy")]
        early, end = (" / ".join(f"{x:+.1f}" for x in ours[c] - dense[c]) for c in gaps)
        loss = " / ".join(f"{x:.2f}" for x in ours["tail_loss"] / dense["tail_loss"])
        seeds = " / ".join(map(str, mine["seed"]))
        threshold = "local" if "local" in name else "global"
        lines.append(["yes" if row.layer else "no", threshold, seeds, early, end, loss])
    return table(DIFFERENCES, lines)


def _mean(row: dict, name: str, places: int) -> str:
    return spread(row[name], row[f"{name}_sd"], row["seeds"], places)


def _or_dash(number: float | None, sign: str = "") -> str:
    """What the paper prints, or a dash where it prints nothing."""
    return "–" if number is None else f"{sign}{number:g}"
