"""The search's page: the answer first, then the finalists, the trials and what mattered."""

from collections.abc import Sequence
from html import escape

import pandas as pd

from fedsim import units
from fedsim.search import tables
from fedsim.search.finals import Finalist
from fedsim.search.goal import Goal
from fedsim.search.picture import best_so_far, styles
from fedsim.show.report.charts.frame import Chart, chart, logarithmic, scatter, symbol
from fedsim.show.report.figures import section
from fedsim.show.report.page import document
from fedsim.show.style import label

_TRIALS = (
    "A mark per trial, hollow where the trial was ended early; scores on the validation part. The "
    "line joins those that no other beats in both bits and metric. Stars are finalists on held-out "
    "samples: the mean over fresh seeds with its 95 % interval."
)
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
    ranked = _table(*tables.ranked(found, goal)) + _note(tables.CAPTION) if found else ""
    bars = {name: _bars(of) for name, of in shares.items() if of}
    sections = [
        ("finalists", "Finalists", ranked),
        section("trials", "Trials", _TRIALS, {"": _points(frame, found, goal)}),
        *([section("importance", "What mattered", _SHARES, bars)] if bars else []),
        ("table", "Every trial", _table(*tables.trials(frame, goal))),
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


def _points(frame: pd.DataFrame, found: Sequence[Finalist], goal: Goal) -> Chart:
    looks, traces = styles(frame), []
    shown = frame.dropna(subset=["bits", "metric"])
    for name, rows in shown.groupby("method"):
        look, ended = looks[str(name)], rows["state"] != "complete"
        traces.append(scatter(
            x=rows["bits"].to_numpy(), y=rows["metric"].to_numpy(), name=escape(str(name)),
            mode="markers", text=[_said(row, goal) for row in rows.to_dict("records")],
            hovertemplate="%{text}<extra></extra>",
            marker={
                "color": ["#ffffff" if early else look.colour for early in ended], "size": 9,
                "symbol": symbol(look), "line": {"color": look.colour, "width": 1.5},
            },
        ))  # fmt: skip
    front = best_so_far(frame, goal)
    traces.append(scatter(
        x=front["bits"].to_numpy(), y=front["metric"].to_numpy(), mode="lines", name="front",
        line={"color": "#777777", "width": 1, "shape": "hv"}, hoverinfo="skip",
    ))  # fmt: skip
    traces += _stars(found, goal)
    figure = chart(traces, 520, "bits that a client has sent (wire)", escape(label(goal.name)))
    if goal.name in units.FRACTIONS:  # an interval may reach beyond what the metric can
        figure["layout"]["yaxis"]["autorangeoptions"] = {"clipmin": -0.02, "clipmax": 1.02}
    logarithmic(figure, (float(b) for b in shown["bits"]))
    return figure


def _stars(found: Sequence[Finalist], goal: Goal) -> list[Chart]:
    there = [(f, f.held.metric()) for f in found if f.held.metric().count]
    if not there:
        return []
    texts = [
        f"finalist {rank}: {escape(tables.short(f.params['method']))}<br>held-out "
        f"{escape(goal.name)} {units.score(mean.value, goal.name)} at {units.bits(f.held.bits())}"
        for rank, (f, mean) in enumerate(there, start=1)
    ]
    return [scatter(
        x=[f.held.bits() for f, _ in there], y=[mean.value for _, mean in there], mode="markers",
        name="finalists, held-out", text=texts, hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "star", "size": 14, "color": "#000000"},
        error_y={"array": [0.0 if m.half != m.half else m.half for _, m in there], "thickness": 1},
    )]  # fmt: skip


def _said(row: dict[str, object], goal: Goal) -> str:
    p = row["gradient"]
    fraction = f", p = {p:g}" if isinstance(p, float) and p == p else ""
    score = units.score(float(str(row["metric"])), goal.name)
    bits = units.bits(float(str(row["bits"])))
    return (
        f"trial {row['trial']}: {escape(str(row['method']))}<br>n = {row['temporal']}{fraction}, "
        f"lr = {row['lr']:g}<br>{escape(goal.name)} {score} at {bits}<br>{escape(str(row['why']))}"
    )


def _bars(shares: dict[str, float]) -> Chart:
    names, values = list(shares)[::-1], list(shares.values())[::-1]
    texts = [f"{name}: {100 * share:.0f} %" for name, share in shares.items()][::-1]
    bars = {
        "type": "bar", "orientation": "h", "x": [100 * value for value in values], "y": names,
        "text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>",
        "marker": {"color": "#4477aa"}, "showlegend": False, "name": "share",
    }  # fmt: skip
    return chart([bars], 110 + 36 * len(names), "share explained (%)")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(t)}</td>' for t in row)}</tr>" for row in rows)
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


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
