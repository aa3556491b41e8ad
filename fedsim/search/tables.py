"""The search's tables as texts, for the terminal and for the page."""

from collections.abc import Callable, Sequence
from math import isfinite, isnan

import pandas as pd

from fedsim.ground import units
from fedsim.search.finals import Finalist, Lot
from fedsim.search.goal import Goal
from fedsim.search.methods import OWN, sent_down, short
from fedsim.search.space import Params
from fedsim.show.layout import Column, Laid, Row, laid

CAPTION = (
    "Validation: a part of the training samples that no run trained on. Held-out: the same seeds "
    "trained on all training samples. Mean over fresh seeds ± half of the 95 % interval. Bits: "
    "payloads of a client. tie: cannot be told from the first by its seeds. lr: the clients' "
    "rate."
)

Texts = tuple[list[str], list[list[str]]]
"""Headings, and rows."""


def ranked(finalists: Sequence[Finalist], goal: Goal) -> Texts:
    """The finalists in order of rank."""
    more = _more(*(final.params for final in finalists))
    headings = ["", "method", "n", "p", "coder", "lr", *more]
    headings += [f"{goal.name}, validation", "bits", f"{goal.name}, held-out", "bits, held-out"]
    rows = []
    for rank, final in enumerate(finalists, start=1):
        place = f"{rank} tie" if final.tie else str(rank)
        row = [place, short(final.params["method"]), *point(final.params)]
        row += [more[name](final.params) for name in more]
        rows.append([*row, *_lot(final.validated, goal), *_lot(final.held, goal)])
    return headings, rows


def point(params: Params) -> list[str]:
    """A point's n, p, coder and rate."""
    coder = "" if params["coder"] == OWN else params["coder"]
    return [str(params["temporal"]), units.plain(params["gradient"]), coder,
            units.plain(params["lr"])]  # fmt: skip


def _more(*points: Params) -> dict[str, Callable[[Params], str]]:
    """What not every search chooses: the headings, and what stands there of a point."""
    shown: dict[str, tuple[str, Callable[[Params], str]]] = {
        "server_lr": ("server lr", lambda params: units.plain(params["server_lr"])),
        "downlink": ("downlink", sent_down),
    }
    return dict(own for name, own in shown.items() if any(name in p for p in points))


def _lot(lot: Lot, goal: Goal) -> list[str]:
    """The metric and the bits of a setting's seeds."""
    there, every = sum(p is not None for p in lot.points), len(lot.points)
    if not there:
        return ["none", "not reached" if goal.target is not None else "none"]
    metric = lot.metric()
    half = "" if isnan(metric.half) else f" ± {units.score(metric.half, goal.name)}"
    bits = units.bits(lot.bits())
    if there < every:
        bits += f" ({there} of {every} seeds)"
    elif goal.target is not None:
        logs = lot.log_bits()
        if isfinite(logs.half):
            low, high = (10 ** (logs.value + side * logs.half) for side in (-1, 1))
            bits = f"{units.bits(10**logs.value)} ({units.bits(low)} to {units.bits(high)})"
    return [f"{units.score(metric.value, goal.name)}{half}", bits]


def trials(frame: pd.DataFrame, goal: Goal) -> Texts:
    """The trials, the best first, those that were ended early last."""
    more = _more(dict.fromkeys(frame))
    headings = ["trial", "method", "n", "p", "coder", "lr", *more]
    headings += [goal.name, "bits", "ended"]
    order = frame.assign(_good=frame["state"] != "complete")
    rows = []
    for row in order.sort_values(["_good", "loss", "bits", "trial"]).to_dict("records"):
        row |= {k: None for k in ("gradient", "down_gradient") if k in row and pd.isna(row[k])}
        texts = [str(row["trial"]), row["method"], *point(row)]
        texts += [more[name](row) for name in more]
        texts += [units.score(row["metric"], goal.name), units.bits(row["bits"]), row["why"]]
        rows.append(texts)
    return headings, rows


def ranked_table(finalists: Sequence[Finalist], goal: Goal, width: int) -> Laid:
    """The finalists for a terminal of ``width`` columns."""
    headings, rows = ranked(finalists, goal)
    names = ("method", "coder", "downlink")
    columns = [Column(head, "name" if head in names else "number") for head in headings]
    lines: list[Row] = [(row, "") for row in rows]
    title = goal.words()
    return laid(columns, lines, width, keys=2, title=title[0].upper() + title[1:], caption=CAPTION)


def shares(importance: dict[str, dict[str, float]]) -> list[str]:
    """Importances as lines of text, a line per value that is explained."""
    return [
        f"{what}: " + ", ".join(f"{name} {100 * share:.0f} %" for name, share in of.items())
        for what, of in importance.items() if of
    ]  # fmt: skip
