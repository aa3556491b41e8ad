"""The tables and the figure: ours beside the paper's, and the best top-k of no more volume."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from experiments.common.figures import COLOURS, canvas, score_label
from experiments.common.scores import rows_of, shown
from experiments.common.tables import sections, spread, table
from fedsim.ground.units import FRACTIONS

from .rows import ROWS, TABLE2, TABLE3

TITLES = {
    "digits": "8x8 digits, small CNN",
    "fashion_lenet5": "Fashion-MNIST, LeNet5",
    "cifar_resnet20": "CIFAR-10, ResNet-20",
    "char_lstm": "Shakespeare, LSTM",
}
WITH = "topk-cnat-"  # how the rows of top-k with C_nat begin
LOOKS = {
    "topk-cnat": ("top-k, C_nat", COLOURS[0], "o"),
    "topk": ("top-k", COLOURS[5], "s"),
    "sign": ("SignSGD", COLOURS[1], "^"),
    "ef-sign": ("EF-SignSGD", COLOURS[3], "v"),
    "powersgd-2": ("PowerSGD rank 2", COLOURS[2], "D"),
    "powersgd-7": ("PowerSGD rank 7", COLOURS[4], "<"),
    "sgd": ("no compression", "black", "h"),
}


def collect(runs: pd.DataFrame) -> pd.DataFrame:
    """A row per method: its score over seeds (accuracy in per cent, or perplexity), and volumes.

    Volumes are in per cent of dense float32, of payloads (``wire``) and of payloads without
    headers and BatchNorm's statistics (``content``). Then what ``matched`` adds.
    """
    rows = []
    metric, names = runs["metric_name"].iloc[0], pd.Series(rows_of(runs.index), runs.index)
    scores = shown(runs["metric"], metric)
    for name, row in ROWS.items():
        mine = runs[names == name]
        if mine.empty:
            continue
        rows.append(
            {
                "name": name,
                "title": row.title,
                "method": mine["method"].iloc[0],
                "seeds": len(mine),
                "metric": metric,
                "score": scores[mine.index].mean(),
                "score_spread": scores[mine.index].std(ddof=1),
                "wire_percent": 100 / mine["ratio_wire"].mean(),
                "content_percent": 100 / mine["ratio_content"].mean(),
                "paper_accuracy_percent": row.accuracy,
                "paper_accuracy_spread": row.spread,
                "paper_volume_percent": row.volume,
            }
        )
    return matched(pd.DataFrame(rows))


def matched(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame; beside other methods the best top-k with C_nat whose content is not above theirs.

    ``matched`` names it, ``matched_score`` and ``matched_content_percent`` are its; missing
    beside top-k itself and where every top-k with C_nat takes more.
    """
    rivals = frame[frame["name"].str.startswith(WITH)]
    rivals = rivals.sort_values("score", ascending=frame["metric"].iloc[0] not in FRACTIONS)
    columns: dict[str, list] = {"matched": [], "matched_score": [], "matched_content_percent": []}
    for row in frame.to_dict("records"):
        fits = rivals[rivals["content_percent"] <= row["content_percent"]]
        best = None if row["name"].startswith("topk-") or fits.empty else fits.iloc[0]
        columns["matched"].append("" if best is None else best["name"])
        for column in ("score", "content_percent"):
            columns[f"matched_{column}"].append(None if best is None else best[column])
    return frame.assign(**columns)


def markdown(frame: pd.DataFrame) -> str:
    """Both tables, ours beside the paper's."""
    parts = []
    for number, rows in ((2, TABLE2), (3, TABLE3)):
        best = ("best top-k, C_nat at no more content",) if number == 3 else ()
        heading = (
            "method",
            "wire volume",
            "content",
            frame["metric"].iloc[0],
            *best,
            "paper: volume",
            "paper: accuracy",
        )
        lines = [
            [
                row.title,
                f"{mine['wire_percent']:.3g} %",
                f"{mine['content_percent']:.3g} %",
                spread(mine["score"], mine["score_spread"], mine["seeds"], 2),
                *(_best(mine) for _ in best),
                f"{row.volume:g} %",
                f"{row.accuracy:.2f} ± {row.spread:.2f}",
            ]
            for row in rows
            for mine in frame[frame["name"] == row.name].to_dict("records")
        ]
        parts.append((f"Table {number}", table(heading, lines)))
    return sections(parts)


def _best(row: dict) -> str:
    """``33.05 (+0.60), 6.25 % at 2.84 %``: score, its difference, K, and content."""
    if not row["matched"]:
        return ""
    k = row["matched"].removeprefix(WITH)
    return (
        f"{row['matched_score']:.2f} ({row['matched_score'] - row['score']:+.2f}), K = {k} % "
        f"at {row['matched_content_percent']:.3g} %"
    )


def figure(task: str, frame: pd.DataFrame) -> Figure:
    """The score over volume, ours and the paper's, a marker a family of methods."""
    drawn = canvas(10.5, 3.8)
    ours, theirs = drawn.subplots(1, 2)
    _points(ours, frame, ("content_percent", "score", "score_spread"))
    paper = ("paper_volume_percent", "paper_accuracy_percent", "paper_accuracy_spread")
    _points(theirs, frame, paper)
    ours.set_ylabel(score_label(frame))
    ours.set_title(f"here: {TITLES[task]}", fontsize=10)
    theirs.set_title("paper: CIFAR-10, ResNet-18", fontsize=10)
    drawn.legend(
        *ours.get_legend_handles_labels(), loc="outside right center", fontsize=9, frameon=False
    )
    return drawn


def _points(axes: Axes, frame: pd.DataFrame, columns: tuple[str, str, str]) -> None:
    family = frame["name"].str.replace(r"^(topk(-cnat)?)-.*", r"\1", regex=True)
    for name, (label, colour, marker) in LOOKS.items():
        mine = frame[family == name]
        if len(mine):
            x, y, spread = (mine[column] for column in columns)
            topk = name.startswith("topk")
            axes.errorbar(  # open markers of other methods: top-k's show where both stand
                x,
                y,
                spread,
                marker=marker,
                linestyle="",
                color=colour,
                label=label,
                capsize=2,
                markersize=6 if topk else 9,
                markerfacecolor=colour if topk else "none",
                markeredgewidth=1.6,
                elinewidth=1,
            )
    axes.set(xscale="log", xlabel="upstream volume (% of dense float32)", ylabel="accuracy (%)")
    axes.grid(alpha=0.25)
