"""The search's page: the answer first, then the finalists, the trials and what mattered."""

from collections.abc import Sequence
from html import escape

import pandas as pd

from fedsim.search import tables
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.picture import chart
from fedsim.show.markup import html
from fedsim.show.report.charts.frame import Drawn, bars
from fedsim.show.report.figures import charted, section
from fedsim.show.report.page import document

_SHARES = (
    "How much of what differs between trials each setting explains (Optuna's fANOVA, over ranks). "
    "Trials that were ended early count as they stood."
)


def page(
    frame: pd.DataFrame, found: Sequence[Finalist], winner: Finalist | None, goal: Goal,
    shares: dict[str, dict[str, float]], told: dict[str, str], left: dict[str, str],
) -> str:  # fmt: skip
    """The HTML document of a search; it needs no other file and no network.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        found: the finalists in order of rank.
        winner: among them.
        goal: of the search.
        shares: what ``fedsim.search.record.importance`` gave.
        told: facts of the search (task, trials, time) by name.
        left: the methods that were not searched, and why.
    """
    title = f"{told['task']}: {goal.told()}"
    answer = "<p>No trial has an evaluation that counts.</p>"
    answer = answer if winner is None else _answer(winner, goal, told)
    ranked = html(*tables.ranked(found, goal), "Finalists") + _note(tables.CAPTION) if found else ""
    shown = {name: _bars(of) for name, of in shares.items() if of}
    sections = [
        ("finalists", "Finalists", ranked),
        charted("trials", "Trials", chart(frame, found, winner, goal, told["task"])),
        *([section("importance", "What mattered", _SHARES, shown)] if shown else []),
        ("table", "Every trial", html(*tables.trials(frame, goal), "Every trial")),
        ("left", "Methods left out", _listed(left)),
        ("facts", "The search", _facts(told)),
    ]  # fmt: skip
    return document(title, answer, sections, "one")


def _answer(winner: Finalist, goal: Goal, told: dict[str, str]) -> str:
    headings, rows = tables.ranked([winner], goal)
    said = dict(zip(headings, rows[0], strict=True))
    score, bits = said[f"{goal.name}, held-out"], said["bits, held-out"]
    p = f", p = {said['p']}" if said["p"] else ""
    coder = f", coders {said['coder']}" if said["coder"] else ""
    text = f"{said['method']}, n = {said['n']}{p}{coder}, lr = {said['lr']}"
    seeds = winner.held.metric().count
    many = f"{seeds} fresh seed{'' if seeds == 1 else 's'}"
    return (
        f"<p><strong>{escape(text)}</strong>: {escape(goal.name)} {escape(score)} on held-out "
        f"samples with {escape(bits)} per client upstream, {many}.</p>"
        f"<p>The command that runs it again:</p><pre>{escape(told['again'])}</pre>"
    )


def _bars(shares: dict[str, float]) -> Drawn:
    texts = [f"{name}: {100 * share:.0f} %" for name, share in shares.items()]
    parts = {"share": ("#4477aa", [100 * share for share in shares.values()], texts)}
    figure = bars(parts, list(shares), 110 + 36 * len(shares), "share explained (%)")
    figure["layout"]["showlegend"] = False
    return figure


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _listed(left: dict[str, str]) -> str:
    rows = "".join(f"<li><code>{escape(m)}</code>: {escape(why)}</li>" for m, why in left.items())
    return f"<ul>{rows}</ul>" if rows else ""


def _facts(told: dict[str, str]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in told.items()
    )
    return f'<div class="wide text"><table><tbody>{rows}</tbody></table></div>'
