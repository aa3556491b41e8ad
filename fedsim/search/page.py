"""A search's result, and its page: answer, methods, finalists, trials, what mattered."""

from dataclasses import dataclass
from html import escape
from pathlib import Path

import pandas as pd

from fedsim.search import picture, record, tables
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.methods import point_text
from fedsim.show import markup
from fedsim.show.plot.paper import png
from fedsim.show.report.page import document

_SHARES = (
    "How much each setting matters for whether a trial is among the best tenth (PED-ANOVA, drawn "
    "by Optuna): trials that ended by themselves."
)


@dataclass(frozen=True, repr=False)
class SearchResult:
    """The result of a search.

    Attributes:
        goal: what was searched for.
        trials: a row per trial (``fedsim.search.record.trials``).
        methods: a row per method, the best first (``fedsim.search.record.methods``).
        finalists: in order of rank; of a front, by bits.
        winner: among them; None where no trial has an evaluation that counts.
        importance: what is explained -> setting -> its share; empty where trials are too few.
        too_few: why no importance is named; empty where it is.
        left: the methods that could not be searched, and why.
        out: the folder: ``report.html``, ``trials.csv``, ``methods.csv``, ``finalists.csv``,
            ``best.toml``.
        saturated: whether a trial has a metric that cannot rise, so that fewer bits were sought.
        finals: how many finalists and seeds there were, of how many, in words.
        again: the command that runs the winner again; empty without one.
    """

    goal: Goal
    trials: pd.DataFrame
    methods: pd.DataFrame
    finalists: tuple[Finalist, ...]
    winner: Finalist | None
    importance: dict[str, dict[str, float]]
    too_few: str
    left: dict[str, str]
    out: Path
    saturated: bool
    finals: str
    again: str

    def __repr__(self) -> str:
        """The result in a line."""
        first = "nothing" if self.winner is None else point_text(self.winner.params)
        return f"SearchResult({self.goal.words()}: {first}; {str(self.out)!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the trials as a picture, the methods and the finalists."""
        file = self.out / "search.png"
        picture = markup.picture(file.read_bytes(), repr(self)) if file.exists() else ""
        return picture + "".join(self.html_tables())

    def html_tables(self) -> tuple[str, str]:
        """The methods and the finalists as HTML."""
        methods = tables.methods_table(self.methods, self.goal)
        ranked = tables.finalists_table(record.finalists(self.finalists, self.goal), self.goal)
        return tables.for_page(methods, "Methods"), tables.for_page(ranked, "Finalists")


def search_page(result: SearchResult, facts: dict[str, str]) -> str:
    """The HTML document of a search; it needs no other file and no network."""
    goal, frame, first = result.goal, result.trials, result.winner
    title = f"{facts['task']}: {goal.words()}"
    answer = "<p>No trial has an evaluation that counts.</p>"
    answer = answer if first is None else _answer(first, goal, result.again)
    left = result.left.items()
    items = [f"<li><code>{escape(m)}</code>: {escape(reason)}</li>" for m, reason in left]
    shown = ""
    if frame["metric"].notna().any():
        axes = picture.draw_trials(frame, result.finalists, first, goal, facts["task"])
        shown = markup.picture(png(axes), f"trials: {title}") + _note(picture.TRIALS)
    table, ranked = result.html_tables()
    importance = _note(result.too_few)
    if not result.too_few:
        studies = record.explained(frame, goal)
        importance = _note(_SHARES) + "".join(
            markup.picture(
                png(picture.draw_importance(name, study)), f"importance of each setting for {name}"
            )
            for name, study in studies.items()
        )
    trials = tables.for_page(tables.trials_table(frame, goal), "Every trial")
    sections = [
        ("methods", "Methods", table + _note(tables.METHODS_CAPTION)),
        ("finalists", "Finalists", ranked + _note(tables.CAPTION) if result.finalists else ""),
        ("trials", "Trials", shown),
        ("importance", "What mattered", importance),
        ("table", "Every trial", trials),
        ("left", "Methods left out", f"<ul>{''.join(items)}</ul>" if items else ""),
        ("facts", "The search", markup.facts({k: escape(v) for k, v in facts.items()})),
    ]
    return document(title, answer, sections, "one")


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _answer(winner: Finalist, goal: Goal, again: str) -> str:
    row = tables.finalists_table(record.finalists([winner], goal), goal).iloc[0]
    score, bits = row[f"{goal.name}, held-out"], row["bits, held-out"]
    seeds = winner.held.metric().count
    many = f"{seeds} fresh seed{'' if seeds == 1 else 's'}"
    return (
        f"<p><strong>{escape(point_text(winner.params))}</strong>: {escape(goal.name)} "
        f"{escape(score)} on "
        f"held-out samples with {escape(bits)} per client {goal.ways}, {many}.</p>"
        f"<p>The command that runs it again:</p><pre>{escape(again)}</pre>"
    )
