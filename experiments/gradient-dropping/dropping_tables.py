"""A row a run, its curve in blocks of rounds, and what the figures show as tables in markdown."""

import pandas as pd
from dropping_rows import EVALUATIONS, ROWS, Row
from dropping_times import on_a_link

BLOCKS = 20
"""Points of a curve: training loss is the mean over a twentieth of the rounds."""


def curves(rounds: pd.DataFrame) -> pd.DataFrame:
    """A row a run and block of rounds: where it ends, mean training loss, accuracy there.

    ``batches`` counts those of all clients together, as the paper does. ``seconds`` is what the
    rounds took without evaluation; ``link_seconds`` adds a link (see ``collect``).
    """
    return pd.concat(
        [_curve(name, mine) for name, mine in rounds.groupby("run", sort=False)],
        ignore_index=True,
    )


def _curve(name: str, rounds: pd.DataFrame) -> pd.DataFrame:
    count = len(rounds)
    blocks = min(BLOCKS, count)
    block = (rounds["round"] - 1) * blocks // count
    work = rounds["seconds"] - rounds["evaluate_seconds"]
    sums = rounds.assign(
        batches=(rounds["local_iterations"] * rounds["clients"]).cumsum(),
        seconds=work.cumsum(),
        link_seconds=on_a_link(rounds, work).cumsum(),
    ).groupby(block)
    last = sums[["round", "batches", "seconds", "link_seconds"]].last()
    last["train_loss"] = sums["train_loss"].mean()
    last["accuracy_percent"] = 100 * sums["metric"].last()
    return last.assign(name=name)


def collect(runs: pd.DataFrame, rounds: pd.DataFrame, batch_size: int) -> pd.DataFrame:
    """A row a run of the experiment.

    ``accuracy_percent`` is the last evaluation, ``early_percent`` the first. ``tail_loss`` is the
    mean training loss over the last tenth of the rounds. ``round_ms`` is the median round without
    evaluation: all nodes' work on one core. ``link_ms`` has the nodes share that work and adds a
    link (see ``on_a_link``); ``link_images`` are images a second then. What the paper prints is in
    ``paper_...``.
    """
    found = [
        _collected(row, runs.loc[name], rounds[rounds["run"] == name], batch_size)
        for name, row in ROWS.items()
        if name in runs.index
    ]
    return pd.DataFrame(found)


def _collected(row: Row, run: pd.Series, rounds: pd.DataFrame, batch_size: int) -> dict:
    scored = 100 * rounds["metric"].dropna()
    work = rounds["seconds"] - rounds["evaluate_seconds"]
    linked = on_a_link(rounds, work).median()
    images = batch_size * run["clients"]
    return {
        "name": row.name,
        "figures": " ".join(row.figures),
        "layer_norm": row.layer,
        "title": row.title,
        "method": run["method"],
        "accuracy_percent": scored.iloc[-1],
        "early_percent": scored.iloc[0],
        "best_percent": scored.max(),
        "tail_loss": rounds["train_loss"].tail(max(1, len(rounds) // EVALUATIONS)).mean(),
        "up_bits": run["up_content_bits"],
        "down_bits": run["down_content_bits"],
        "ratio_content": run["ratio_content"],
        "ratio_wire": run["ratio_wire"],
        "rounds": run["rounds"],
        "parameters": run["parameters"],
        "round_ms": 1e3 * work.median(),
        "encode_ms": 1e3 * rounds["encode_seconds"].median(),
        "images": images / work.median(),
        "link_ms": 1e3 * linked,
        "link_images": images / linked,
        "paper_images": row.paper.images,
        "paper_words": row.paper.words,
        "paper_accuracy_percent": row.paper.accuracy_percent,
        "paper_ratio": row.paper.ratio,
        "data_source": run["data_source"],
    }


def markdown(table: pd.DataFrame) -> str:
    """Every figure's runs, as far as they are there."""
    return "\n".join(_figure(table, number) for number in ("2", "4", "6", "8"))


def shown(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The rows of the runs that ``figure`` shows."""
    return table[[figure in figures.split() for figures in table["figures"]]]


def _figure(table: pd.DataFrame, number: str) -> str:
    lines = [
        f"Figure {number}", "",
        "| layer norm | method | accuracy | paper, 20 epochs | at a tenth | training loss "
        "| bits up | content ratio | paper |",
        "| --- " * 9 + "|",
    ]  # fmt: skip
    for row in shown(table, f"fig{number}").to_dict("records"):
        lines.append(
            f"| {'yes' if row['layer_norm'] else 'no'} | {row['title']} | "
            f"{row['accuracy_percent']:.2f} | {_or_dash(row['paper_accuracy_percent'])} | "
            f"{row['early_percent']:.2f} | {row['tail_loss']:.4f} | {row['up_bits']:.3g} "
            f"| ×{row['ratio_content']:.1f} | {_or_dash(row['paper_ratio'], '×')} |"
        )
    return "\n".join([*lines, ""])


def _or_dash(number: float | None, sign: str = "") -> str:
    """What the paper prints, or a dash where it prints nothing."""
    return "–" if pd.isna(number) else f"{sign}{number:g}"
