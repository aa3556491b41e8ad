"""A row a run, its curve in blocks of rounds, and both as tables in markdown."""

import pandas as pd
from dropping_rows import EVALUATIONS, ROWS, Row

LINK_BITS_PER_SECOND = 1e9
TARGET = 96.0  # per cent, of Figure 6: what the run without dropping reaches within ``short``
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
        link_seconds=_on_a_link(rounds, work).cumsum(),
    ).groupby(block)
    last = sums[["round", "batches", "seconds", "link_seconds"]].last()
    last["train_loss"] = sums["train_loss"].mean()
    last["accuracy_percent"] = 100 * sums["metric"].last()
    return last.assign(name=name)


def _on_a_link(rounds: pd.DataFrame, work: pd.Series) -> pd.Series:
    """Seconds of rounds whose nodes share the work and each move their messages over a link."""
    bits = (rounds["up_wire_bits"] + rounds["down_wire_bits"]) / rounds["clients"]
    return work / rounds["clients"] + bits / LINK_BITS_PER_SECOND


def collect(runs: pd.DataFrame, rounds: pd.DataFrame, batch_size: int) -> pd.DataFrame:
    """A row a run of the experiment.

    ``accuracy_percent`` is the last evaluation, ``early_percent`` the first. ``tail_loss`` is the
    mean training loss over the last tenth of the rounds. ``round_ms`` is the median round without
    evaluation: all nodes' work on one core. ``link_images`` divides that by the nodes, of which
    each is client and server of its share as in the paper's Figure 1, and adds the time that a
    node's messages take at 1 Gbit/s.
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
        "link_images": images / _on_a_link(rounds, work).median(),
        "paper_images": row.paper_images,
        "data_source": run["data_source"],
    }


def reached(curve: pd.DataFrame, percent: float) -> pd.Series | None:
    """The first row of one run's curve whose accuracy is at least that; None where none is."""
    there = curve[curve["accuracy_percent"] >= percent]
    return None if there.empty else there.iloc[0]


def markdown(table: pd.DataFrame, lines: pd.DataFrame) -> str:
    """Every figure's runs, the times to an accuracy, and Table 1, as far as they are there."""
    numbers = ("2", "4", "6", "8")
    figures = (_figure(table, number) for number in numbers)
    return "\n".join([*figures, _times(table, lines), _speed(table)])


def shown(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """The rows of the runs that ``figure`` shows."""
    return table[[figure in figures.split() for figures in table["figures"]]]


def _figure(table: pd.DataFrame, number: str) -> str:
    lines = [
        f"Figure {number}", "",
        "| layer norm | method | accuracy | at a tenth | training loss | bits up | content ratio |",
        "| --- " * 7 + "|",
    ]  # fmt: skip
    for row in shown(table, f"fig{number}").to_dict("records"):
        lines.append(
            f"| {'yes' if row['layer_norm'] else 'no'} | {row['title']} | "
            f"{row['accuracy_percent']:.2f} | {row['early_percent']:.2f} | {row['tail_loss']:.4f} "
            f"| {row['up_bits']:.3g} | ×{row['ratio_content']:.1f} |"
        )
    return "\n".join([*lines, ""])


def _times(table: pd.DataFrame, lines: pd.DataFrame) -> str:
    text = [
        f"Figure 6, evaluated first at {TARGET:g} % or more", "",
        "| method | rounds | seconds measured | at 1 Gbit/s |",
        "| --- " * 4 + "|",
    ]  # fmt: skip
    for row in shown(table, "table1").to_dict("records"):
        found = reached(lines[lines["name"] == row["name"]], TARGET)
        cells = "– | – | –"
        if found is not None:
            cells = f"{found['round']:.0f} | {found['seconds']:.1f} | {found['link_seconds']:.1f}"
        text.append(f"| {row['title']} | {cells} |")
    return "\n".join([*text, ""])


def _speed(table: pd.DataFrame) -> str:
    lines = [
        "Table 1", "",
        "| method | ms a round | of which encoding | images/s | at 1 Gbit/s | paper: images/s |",
        "| --- " * 6 + "|",
    ]  # fmt: skip
    for row in shown(table, "table1").sort_values("paper_images").to_dict("records"):
        lines.append(
            f"| {row['title']} | {row['round_ms']:.1f} | {row['encode_ms']:.1f} | "
            f"{row['images']:.0f} | {row['link_images']:.0f} | {row['paper_images']:.0f} |"
        )
    return "\n".join([*lines, ""])
