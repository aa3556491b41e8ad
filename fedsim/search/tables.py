"""The search's tables as frames of texts, for the terminal and for the page."""

from collections.abc import Sequence
from math import isnan
from typing import Any

import pandas as pd
from rich.console import Group

from fedsim.ground import units
from fedsim.search.goal import NOT_REACHED, Goal
from fedsim.search.methods import point_texts
from fedsim.show import markup
from fedsim.show.layout import text_table

CAPTION = (
    "Validation: a part of the training samples that no run trained on. Held-out: the same seeds "
    "trained on all training samples. Mean over fresh seeds ± half of the 95 % interval. Bits: "
    "payloads of a client. tie: cannot be told from the first by its seeds, at 5 % for each by "
    "itself. lr: the clients' rate."
)
METHODS_CAPTION = (
    "A method's best setting. In brackets: the 95 % interval of one seed's validation samples "
    "(Wilson), which leaves out training's own chance and that the best of several trials is "
    "lucky. Fresh seeds: its finals, mean ± half of the 95 % interval. tie: cannot be told from "
    "the first by seeds or intervals, at 5 % for each by itself. Failed: diverged or refused."
)


def finalists_table(table: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The finalists in order of rank (``fedsim.search.record.finalists``)."""
    return _joined(
        [
            {
                "": f"{row['rank']} tie" if row["tie"] else str(row["rank"]),
                **point_texts(row),
                **_score_texts(row, goal, "validation"),
                **_score_texts(row, goal, "held_out"),
            }
            for row in table.to_dict("records")
        ]
    )


def methods_table(table: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The methods (``fedsim.search.record.methods``); a setting where a trial ended by itself."""
    rows, best = [], f"{goal.name}, best trial"
    for rank, row in enumerate(table.to_dict("records"), start=1):
        texts = {"": "", "method": row["method"], best: "none", "bits": "", "fresh seeds": ""}
        if not pd.isna(row["trial"]):
            ends = [units.score(row[end], goal.name) for end in ("low", "high")]
            interval = "" if isnan(row["low"]) else f" ({' to '.join(ends)})"
            texts = {
                "": f"{rank} tie" if row["tie"] else str(rank),
                **point_texts(row),
                best: units.score(row["metric"], goal.name) + interval,
                "bits": "not reached" if row["loss"] >= NOT_REACHED else units.bits(row["bits"]),
                "fresh seeds": units.averaged(row["fresh_metric"], row["fresh_half"], goal.name),
            }
        rows.append(texts | {k: str(row[k]) for k in ("trials", "done", "pruned", "failed")})
    return _joined(rows)


def trials_table(frame: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The trials, the best first, those that were ended early last."""
    order = frame.assign(_good=frame["state"] != "complete")
    return _joined(
        [
            {
                "trial": str(row["trial"]),
                **point_texts(row),
                goal.name: units.score(row["metric"], goal.name),
                "bits": units.bits(row["bits"]),
                "ended": row["why"],
            }
            for row in order.sort_values(["_good", "loss", "bits", "trial"]).to_dict("records")
        ]
    )


def _joined(rows: Sequence[dict[str, str]]) -> pd.DataFrame:
    """Rows as a frame, in which the longest row has the order of the columns."""
    longest: dict[str, str] = max(rows, key=len, default={})
    return pd.DataFrame(rows, columns=list(longest)).fillna("")


def _score_texts(row: dict[str, Any], goal: Goal, part: str) -> dict[str, str]:
    columns = {k.removeprefix(f"{part}_"): v for k, v in row.items() if k.startswith(part)}
    reached, seeds = columns["seeds"], sum(name[:4] == "seed" for name in columns) - 1
    metric, bits = "none", "none" if goal.target is None else "not reached"
    if reached:
        metric = units.averaged(columns["metric"], columns["half"], goal.name)
        bits = units.bits(columns["bits"])
    low, high = (columns.get(f"bits_{end}") for end in ("low", "high"))
    if 0 < reached < seeds:
        bits += f" ({reached} of {seeds} seeds)"
    elif low and high and not isnan(low):  # the mean of the logarithms, between its ends
        bits = f"{units.bits((low * high) ** 0.5)} ({units.bits(low)} to {units.bits(high)})"
    name = part.replace("_", "-")
    return {
        f"{goal.name}, {name}": metric,
        f"bits{', held-out' if part == 'held_out' else ''}": bits,
    }


def for_terminal(texts: pd.DataFrame, width: int, title: str, caption: str) -> Group:
    """A table for a terminal of ``width`` columns; if it is cut, its first two are repeated."""
    names = ("method", "coder", "downlink")
    rows = texts.to_dict("records")
    return text_table(rows, width, names=names, keys=2, title=title, caption=caption)


def for_page(texts: pd.DataFrame, about: str) -> str:
    """A table as HTML; ``about``: its description for screen readers."""
    return markup.html(list(texts), texts.to_numpy().tolist(), about)


def shares(importance: dict[str, dict[str, float]]) -> list[str]:
    """Importances as lines of text, a line per value that is explained."""
    return [
        f"{what}: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in of.items())
        for what, of in importance.items()
        if of
    ]
