"""The search's page: the answer first, then the finalists, the trials and what mattered."""

from collections.abc import Sequence
from html import escape

import numpy as np
import pandas as pd

from fedsim.search import tables
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.picture import chart
from fedsim.show import markup
from fedsim.show.chart import Axis, stacked
from fedsim.show.report.figures import Figure, charted, section
from fedsim.show.report.page import document

_SHARES = (
    "How much of what differs between trials each setting explains (Optuna's fANOVA, over ranks). "
    "Trials that were ended early count as they stood."
)


def page(
    frame: pd.DataFrame, finalists: Sequence[Finalist], winner: Finalist | None, goal: Goal,
    shares: dict[str, dict[str, float]], facts: dict[str, str], left: dict[str, str],
) -> str:  # fmt: skip
    """The HTML document of a search; it needs no other file and no network.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        finalists: in order of rank.
        winner: among them.
        goal: of the search.
        shares: what ``fedsim.search.record.importance`` gave.
        facts: of the search (task, trials, time) by name.
        left: the methods that were not searched, and why.
    """
    title = f"{facts['task']}: {goal.words()}"
    answer = "<p>No trial has an evaluation that counts.</p>"
    answer = answer if winner is None else _answer(winner, goal, facts["again"])
    note = f'<p class="note">{escape(tables.CAPTION)}</p>'
    ranked = markup.html(*tables.ranked(finalists, goal), "Finalists") + note if finalists else ""
    explained: dict[str, Figure] = {}
    for name, of in shares.items():
        if of:
            percent = 100 * np.array(list(of.values()))
            texts = [f"{setting}: {100 * share:.0f} %" for setting, share in of.items()]
            parts = {"share": ("#4477aa", percent, texts)}
            explained[name] = stacked(parts, list(of), Axis("share explained (%)"))
    items = [f"<li><code>{escape(m)}</code>: {escape(why)}</li>" for m, why in left.items()]
    made = chart(frame, finalists, winner, goal, facts["task"])
    drawn = [charted("trials", "Trials", made)] if frame["metric"].notna().any() else []
    sections = [
        ("finalists", "Finalists", ranked),
        *drawn,
        *([section("importance", "What mattered", _SHARES, explained)] if explained else []),
        ("table", "Every trial", markup.html(*tables.trials(frame, goal), "Every trial")),
        ("left", "Methods left out", f"<ul>{''.join(items)}</ul>" if items else ""),
        ("facts", "The search", markup.facts({k: escape(v) for k, v in facts.items()})),
    ]  # fmt: skip
    return document(title, answer, sections, "one")


def _answer(winner: Finalist, goal: Goal, again: str) -> str:
    headings, rows = tables.ranked([winner], goal)
    row = dict(zip(headings, rows[0], strict=True))
    score, bits = row[f"{goal.name}, held-out"], row["bits, held-out"]
    p = f", p = {row['p']}" if row["p"] else ""
    coder = f", coders {row['coder']}" if row["coder"] else ""
    down = f", downlink {row['downlink']}" if "downlink" in row else ""
    text = f"{row['method']}, n = {row['n']}{p}{coder}, lr = {row['lr']}{down}"
    seeds = winner.held.metric().count
    many = f"{seeds} fresh seed{'' if seeds == 1 else 's'}"
    return (
        f"<p><strong>{escape(text)}</strong>: {escape(goal.name)} {escape(score)} on held-out "
        f"samples with {escape(bits)} per client {goal.ways}, {many}.</p>"
        f"<p>The command that runs it again:</p><pre>{escape(again)}</pre>"
    )
