"""Wall-clock times: Figure 6's to an accuracy, Table 1's speeds, and the link that is added."""

import pandas as pd

from experiments.common.tables import sections, table

from .rows import ROWS

LINK_BITS_PER_SECOND = 1e9
PAPER_SENDING = 0.41
"""Share of a dense round that the paper's MNIST runs send (section 5.3)."""
TARGET = 96.0  # per cent, of Figure 6: what the run without dropping reaches within ``short``
TIMED = ("round_ms", "encode_ms", "images", "link_ms", "link_images", "seconds", "link_seconds")
"""Columns that differ from machine to machine; tables of anything else are without them."""
MEASURED = (
    "method",
    "ms per round",
    "of which encoding",
    "images/s",
    "with a link: ms per round",
    "images/s",
)
RATIOS = (
    "method",
    "paper: images/s",
    "ratio",
    "paper: words/s",
    "ratio",
    "ours, measured",
    "with a link",
    "by bits and the paper's 41 %",
)
"""Headings of Table 1, as measured and over the run without dropping."""


def on_a_link(rounds: pd.DataFrame, work: pd.Series) -> pd.Series:
    """Seconds of rounds whose nodes share the work and each move their messages over a link.

    As in the paper's Figure 1 each node is client and server of its share; its messages, up and
    down, take their bits at 1 Gbit/s, and nothing of that overlaps with work.
    """
    bits = (rounds["up_wire_bits"] + rounds["down_wire_bits"]) / rounds["clients"]
    return work / rounds["clients"] + bits / LINK_BITS_PER_SECOND


def speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Table 1: a row a drop ratio, of the runs of seed 0 in ``collect``, the dense one first.

    A ``..._ratio`` is over the dense row's. ``paper_share_ratio`` takes no time of ours: work is
    what it is without dropping, and sending, 41 % of a dense round in the paper, shrinks with the
    bits. Empty where the dense run is not there.
    """
    mine = table[table["paper_images"].notna() & (table["seed"] == 0)]
    mine = mine.sort_values("paper_images").set_index("name")
    if "dense" not in mine.index:
        return pd.DataFrame()
    kept = [
        "title",
        "round_ms",
        "encode_ms",
        "images",
        "link_ms",
        "link_images",
        "paper_images",
        "paper_words",
    ]
    speed = mine[kept].copy()
    for column in ("images", "link_images", "paper_images", "paper_words"):
        speed[f"{column}_ratio"] = mine[column] / mine.loc["dense", column]
    bits = mine["up_bits"] + mine["down_bits"]
    sending = PAPER_SENDING * bits / bits["dense"]
    speed["paper_share_ratio"] = 1 / (1 - PAPER_SENDING + sending)
    return speed.reset_index()


def reached(curve: pd.DataFrame, percent: float) -> pd.Series | None:
    """The first row of one run's curve whose accuracy is at least that; None where none is."""
    there = curve[curve["accuracy_percent"] >= percent]
    return None if there.empty else there.iloc[0]


def times_markdown(speed: pd.DataFrame, lines: pd.DataFrame) -> str:
    """The times to an accuracy, and Table 1."""
    titles = (
        f"Figure 6, evaluated first at {TARGET:g} % or more",
        "Table 1, measured",
        "Table 1, over the run without dropping",
    )
    rows = []
    for row in speed.to_dict("records"):
        there = reached(lines[(lines["name"] == row["name"]) & (lines["seed"] == 0)], TARGET)
        cells = ["–"] * 3
        if there is not None:
            seconds = [f"{there[name]:.1f}" for name in ("seconds", "link_seconds")]
            cells = [f"{there['round']:.0f}", *seconds]
        rows.append([row["title"], *cells])
    times = table(("method", "rounds", "seconds measured", "with a link"), rows)
    return sections(zip(titles, (times, *speed_tables(speed)), strict=True))


def speed_tables(speed: pd.DataFrame) -> tuple[str, str]:
    """Table 1 as measured, and over the run without dropping, beside the paper's."""
    ours, ratios, dense = [], [], ROWS["dense"].paper
    for row in speed.to_dict("records"):
        paper = ROWS[row["name"]].paper
        ours.append(
            [
                row["title"],
                f"{row['round_ms']:.1f}",
                f"{row['encode_ms']:.1f}",
                f"{row['images']:.0f}",
                f"{row['link_ms']:.1f}",
                f"{row['link_images']:.0f}",
            ]
        )
        ratios.append(
            [
                row["title"],
                f"{paper.images}",
                f"×{paper.images / dense.images:.2f}",
                f"{paper.words}",
                f"×{paper.words / dense.words:.2f}",
                f"×{row['images_ratio']:.2f}",
                f"×{row['link_images_ratio']:.2f}",
                f"×{row['paper_share_ratio']:.2f}",
            ]
        )
    return table(MEASURED, ours), table(RATIOS, ratios)
