"""The search's tables as frames of texts, for the terminal and for the page."""

from collections.abc import Sequence
from math import isfinite, isnan
from typing import Any

import pandas as pd
from rich.console import Group

from fedsim.ground import units
from fedsim.search.finals import Finalist, SeedScores
from fedsim.search.goal import NOT_REACHED, Goal
from fedsim.search.methods import OWN_CODER, sent_down, short
from fedsim.search.space import Params
from fedsim.show import markup
from fedsim.show.layout import Column, terminal_table

CAPTION = (
    "Validation: a part of the training samples that no run trained on. Held-out: the same seeds "
    "trained on all training samples. Mean over fresh seeds ± half of the 95 % interval. Bits: "
    "payloads of a client. tie: cannot be told from the first by its seeds. lr: the clients' "
    "rate."
)
METHODS_CAPTION = (
    "A method's best setting. In brackets: the 95 % interval of one seed's validation samples "
    "(Wilson), which leaves out training's own chance and that the best of several trials is "
    "lucky. Fresh seeds: its finals, mean ± half of the 95 % interval. tie: cannot be told from "
    "the first by seeds or intervals. Failed: diverged or refused."
)


def finalists_table(finalists: Sequence[Finalist], goal: Goal) -> pd.DataFrame:
    """The finalists in order of rank."""
    return _joined(
        [
            {
                "": f"{rank} tie" if final.tie else str(rank),
                **point_texts(final.params),
                **_score_texts(final.validated, goal, "validation"),
                **_score_texts(final.held, goal, "held-out"),
            }
            for rank, final in enumerate(finalists, start=1)
        ]
    )


def methods_table(table: pd.DataFrame, goal: Goal) -> pd.DataFrame:
    """The methods, the best first; without a setting those of which no trial ended by itself."""
    rows = []
    for rank, row in enumerate(table.to_dict("records"), start=1):
        ended = not pd.isna(row["trial"])
        best = f"{goal.name}, best trial"
        texts = {"": "", "method": row["method"], best: "none", "bits": "", "fresh seeds": ""}
        if ended:
            score = units.score(row["metric"], goal.name)
            if not isnan(row["low"]):
                low, high = (units.score(row[end], goal.name) for end in ("low", "high"))
                score += f" ({low} to {high})"
            fresh = units.score(row["fresh_metric"], goal.name)
            half = units.score(row["fresh_half"], goal.name)
            texts = {
                "": f"{rank} tie" if row["tie"] else str(rank),
                **point_texts(row),
                best: score,
                "bits": "not reached" if row["loss"] >= NOT_REACHED else units.bits(row["bits"]),
                "fresh seeds": fresh + (f" ± {half}" if half else ""),
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


def point_texts(params: Params) -> dict[str, str]:
    """A point in texts: method, n, p, coder and rate; what not every search chooses, if it has."""
    used: dict[str, Any] = {k: None if pd.isna(v) else v for k, v in params.items()}
    texts = {
        "method": short(used["method"]),
        "n": f"{used['temporal']:.0f}",
        "p": units.plain(used["gradient"]),
        "coder": "" if used["coder"] == OWN_CODER else used["coder"],
        "lr": units.plain(used["lr"]),
    }
    texts |= {"server lr": units.plain(used["server_lr"])} if "server_lr" in used else {}
    return texts | ({"downlink": sent_down(used)} if "downlink" in used else {})


def _joined(rows: Sequence[dict[str, str]]) -> pd.DataFrame:
    """Rows as a frame, in which the longest row has the order of the columns."""
    longest: dict[str, str] = max(rows, key=len, default={})
    return pd.DataFrame(rows, columns=list(longest)).fillna("")


def _score_texts(scores: SeedScores, goal: Goal, part: str) -> dict[str, str]:
    """The metric and the bits of a setting's seeds."""
    reached, total = sum(p is not None for p in scores.points), len(scores.points)
    names = f"{goal.name}, {part}", f"bits{', held-out' if part == 'held-out' else ''}"
    if not reached:
        none = "none", "not reached" if goal.target is not None else "none"
        return dict(zip(names, none, strict=True))
    metric = scores.metric()
    half = "" if isnan(metric.half) else f" ± {units.score(metric.half, goal.name)}"
    bits = units.bits(scores.bits())
    if reached < total:
        bits += f" ({reached} of {total} seeds)"
    elif goal.target is not None:
        logs = scores.log_bits()
        if isfinite(logs.half):
            low, high = (10 ** (logs.value + side * logs.half) for side in (-1, 1))
            bits = f"{units.bits(10**logs.value)} ({units.bits(low)} to {units.bits(high)})"
    return dict(zip(names, (f"{units.score(metric.value, goal.name)}{half}", bits), strict=True))


def for_terminal(texts: pd.DataFrame, width: int, title: str, caption: str) -> Group:
    """A table for a terminal of ``width`` columns; if it is cut, its first two are repeated."""
    names = ("method", "coder", "downlink")
    columns = [Column(head, "name" if head in names else "number") for head in texts]
    rows = [(row, "") for row in texts.to_numpy().tolist()]
    return terminal_table(columns, rows, width, keys=2, title=title, caption=caption)


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
