"""The search's page: the answer, a row per method, the finalists, the trials, what mattered."""

from collections.abc import Mapping, Sequence
from html import escape

import matplotlib
import matplotlib.pyplot as plt
import optuna
import pandas as pd
from optuna.visualization.matplotlib import plot_param_importances

from fedsim.search import tables
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import point_text
from fedsim.search.picture import chart
from fedsim.search.quiet import quiet
from fedsim.search.record import evaluator
from fedsim.search.record import finalists as finalists_frame
from fedsim.show import markup
from fedsim.show.plot.paper import png, whole_of
from fedsim.show.report.figures import charted
from fedsim.show.report.page import document

_SHARES = (
    "How much each setting matters for whether a trial is among the best tenth (PED-ANOVA, drawn "
    "by Optuna): trials that ended by themselves."
)


def search_page(
    frame: pd.DataFrame,
    methods: pd.DataFrame,
    finalists: Sequence[Finalist],
    winner: Finalist | None,
    goal: Goal,
    mattered: str | Mapping[str, optuna.Study],
    facts: dict[str, str],
    left: dict[str, str],
) -> str:
    """The HTML document of a search; it needs no other file and no network.

    Args:
        frame: the trials (``fedsim.search.record.trials``).
        methods: a row per method (``fedsim.search.record.methods``).
        finalists: in order of rank.
        winner: among them.
        goal: of the search.
        mattered: what ``fedsim.search.record.explained`` gave; or why no importance is named.
        facts: of the search (task, trials, time) by name.
        left: the methods that were not searched, and why.
    """
    title = f"{facts['task']}: {goal.words()}"
    answer = "<p>No trial has an evaluation that counts.</p>"
    answer = answer if winner is None else _answer(winner, goal, facts["again"])
    items = [f"<li><code>{escape(m)}</code>: {escape(reason)}</li>" for m, reason in left.items()]
    drawn = [charted("trials", "Trials", chart(frame, finalists, winner, goal, facts["task"]))]
    table = tables.for_page(tables.methods_table(methods, goal), "Methods")
    rows = tables.finalists_table(finalists_frame(finalists, goal), goal)
    ranked = tables.for_page(rows, "Finalists")
    if isinstance(mattered, str):
        importance = _note(mattered)
    else:
        importance = _note(_SHARES) + "".join(map(_importance, mattered, mattered.values()))
    sections = [
        ("methods", "Methods", table + _note(tables.METHODS_CAPTION)),
        ("finalists", "Finalists", ranked + _note(tables.CAPTION) if finalists else ""),
        *(drawn if frame["metric"].notna().any() else []),
        ("importance", "What mattered", importance),
        ("table", "Every trial", tables.for_page(tables.trials_table(frame, goal), "Every trial")),
        ("left", "Methods left out", f"<ul>{''.join(items)}</ul>" if items else ""),
        ("facts", "The search", markup.facts({k: escape(v) for k, v in facts.items()})),
    ]
    return document(title, answer, sections, "one")


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _importance(name: str, study: optuna.Study) -> str:
    """Optuna's picture of what explains a value."""
    with quiet(), matplotlib.rc_context():  # Optuna sets a style
        axes = plot_param_importances(study, evaluator=evaluator(), target_name=name)
        axes.set(xlabel=f"importance for {name}", ylabel="")
        axes.set_title("", loc="left")
        if legend := axes.get_legend():
            legend.remove()
        whole_of(axes).set_layout_engine("constrained")
        shown = markup.picture(png(axes), f"importance of each setting for {name}")
    plt.close(whole_of(axes))
    return shown


def _answer(winner: Finalist, goal: Goal, again: str) -> str:
    row = tables.finalists_table(finalists_frame([winner], goal), goal).iloc[0]
    score, bits = row[f"{goal.name}, held-out"], row["bits, held-out"]
    seeds = winner.held.metric().count
    many = f"{seeds} fresh seed{'' if seeds == 1 else 's'}"
    return (
        f"<p><strong>{escape(point_text(winner.params))}</strong>: {escape(goal.name)} "
        f"{escape(score)} on "
        f"held-out samples with {escape(bits)} per client {goal.ways}, {many}.</p>"
        f"<p>The command that runs it again:</p><pre>{escape(again)}</pre>"
    )
