"""The report's page: headings, words, tables and figures put together."""

import re
from collections.abc import Sequence
from html import escape

import matplotlib
import pandas as pd

from fedsim.ground import units
from fedsim.ground.version import VERSION
from fedsim.results.labels import VARIANT, delay_symbol, reference
from fedsim.results.load import Results
from fedsim.show.columns import framing_told, sends_less_per_client
from fedsim.show.headline import headline
from fedsim.show.planes import method_text, one_celled
from fedsim.show.plot.paper import without_rc
from fedsim.show.report.figures import Section, figures, parts
from fedsim.show.report.sections import failures_section, settings_section, summary, versions
from fedsim.show.style import metric_name
from fedsim.show.tables import add_difference, over_seeds

_STYLE = """
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;color:#1a1a1a;background:#fff;margin:0 auto;
 max-width:80rem;padding:1rem}
h1{font-size:clamp(1.2rem,4.5vw,1.7rem);line-height:1.2;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:2.2rem 0 .5rem;border-bottom:1px solid #ccc}
p,li{max-width:46rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em;overflow-wrap:anywhere}
pre{background:#f5f5f5;padding:.6rem;overflow-x:auto}
figure{margin:0 0 1rem;overflow-x:auto}
svg{display:block;max-width:100%;height:auto;stroke-linejoin:round;stroke-linecap:butt}
.tips{fill:none;pointer-events:all}.tips :hover{stroke:#1a1a1a}
.note{color:#555;font-size:.9rem;max-width:46rem}
.wide{overflow-x:auto;
 background:linear-gradient(to right,#fff 40%,#fff0) 0 0/3rem 100% no-repeat local,
 linear-gradient(to left,#fff 40%,#fff0) 100% 0/3rem 100% no-repeat local,
 linear-gradient(to right,#0004,#0000) 0 0/1rem 100% no-repeat scroll,
 linear-gradient(to left,#0004,#0000) 100% 0/1rem 100% no-repeat scroll}
.wide:not(.text) :is(th,td):first-child{
 position:sticky;left:0;background:#fff}
.wide thead th:first-child{background:linear-gradient(#0000000a,#0000000a),#fff!important}
table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th{vertical-align:bottom;white-space:pre-line;background:#0000000a}
.text td{white-space:normal;overflow-wrap:anywhere}.text td,.text th{text-align:left}
.text th{vertical-align:top;font-weight:600}
.several .wide:not(.text) :is(th,td):first-child{
 min-width:12rem;text-align:left;white-space:normal;overflow-wrap:anywhere}
@media(max-width:40rem){.wide:not(.text) table{font-size:.72rem}
 .wide:not(.text) :is(th,td){padding:.2rem .35rem}
 .several .wide:not(.text) :is(th,td):first-child{min-width:7.5rem}}
tr.seeds td{font-weight:bold}tr.failed td{color:#a00}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1rem}
h3{font-size:1rem;margin:1rem 0 0;overflow-wrap:anywhere}
a:focus-visible,.wide:focus-visible,summary:focus-visible,figure:focus-visible{
 outline:3px solid #06c}
"""


def page(results: Results, budget: float | None = None, budget_of: str = "up") -> str:
    """The HTML document of `results`; it needs no other file and no network.

    Raises:
        UsageError: the runs are of several tasks, or two are of one cell and seed.
    """
    title = f"{', '.join(results.runs['task'].unique())}: {method_text(results.runs)}"
    with without_rc():
        shown, sent = figures(results, budget, budget_of), parts(results)
    sections = [
        ("terms", "Terms", _terms(results)),
        *shown,
        ("summary", "Summary", summary(results)),
        *sent,
        ("failed", "Failed cells", failures_section(results)),
        ("settings", "Settings", settings_section(results)),
        ("versions", "Versions", versions(results)),
    ]
    kind = "several" if results.several else "one"
    return document(title, _intro(results), sections, kind, generated_by(budget, budget_of))


_DRAWN_BY = f"matplotlib {matplotlib.__version__}"
_GENERATED = re.compile(
    r'<meta name="generator" content="fedsim ([^;"]+); (matplotlib [^;"]+); '
    r'budget=([\d.e+-]*); of=(up|total)">'
)


def generated_by(budget: float | None, budget_of: str) -> str:
    """The element of a page's head that has its arguments, so that a check can make it again.

    Example:
        >>> generated(generated_by(2e6, "up"))
        (2000000.0, 'up')
    """
    limit = "" if budget is None else f"{float(budget)!r}"
    content = f"fedsim {VERSION}; {_DRAWN_BY}; budget={limit}; of={budget_of}"
    return f'<meta name="generator" content="{escape(content)}">'


def generated(text: str) -> tuple[float | None, str] | None:
    """A page's arguments; None where other versions of fedsim or matplotlib made it."""
    parts = _GENERATED.search(text)
    if parts is None or parts.group(1, 2) != (VERSION, _DRAWN_BY):
        return None
    return float(parts[3]) if parts[3] else None, parts[4]


def document(title: str, intro: str, sections: Sequence[Section], kind: str, head: str = "") -> str:
    """A page of the report's look: a heading, words, links to the sections, the sections.

    Args:
        title: the heading, as text.
        intro: what follows it, as HTML.
        sections: those without content are left out.
        kind: ``several`` where the first column of tables holds names, else ``one``.
        head: further elements of its head, as HTML.
    """
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{key}">{name}</a>' for key, name, _ in sections)
    body = "".join(
        f'<section aria-labelledby="{key}"><h2 id="{key}" tabindex="-1">{name}</h2>{text}</section>'
        for key, name, text in sections
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"{head}<title>{escape(title)}</title><style>{_STYLE}</style></head>\n"
        f"<body><header><h1>{escape(title)}</h1>{intro}"
        f'<nav aria-label="Sections">{links}</nav></header>'
        f'<main class="{kind}">{body}</main></body></html>\n'
    )


def _terms(results: Results) -> str:
    runs = results.runs
    clients, iterations = (
        " or ".join(str(value) for value in sorted(runs[name].dropna().unique())) or "?"
        for name in ("clients", "iterations")
    )
    symbol = delay_symbol(runs)
    delay = (
        "the communication delay n, the local iterations between two messages"
        if symbol == "n"
        else "E, the epochs of its own samples that a client trains between two messages"
        if symbol == "E"
        else "the simulated seconds that a client trains between two messages"
    )
    sparsity = "p/n is the total sparsity"
    sparsity += "" if symbol == "n" else ", with n the mean of the clients' local iterations"
    text = (
        f"Each cell trained the same task with {clients} clients for {iterations} local iterations "
        f"per client. Cells differ in {delay}, and in p, the fraction of entries that a message "
        f"holds (a density; 1: dense); {sparsity}. Every update was sent as an encoded message and "
        "its bits were counted: wire is the whole payload; content, which papers count, is its "
        "positions, values and side information. Bits are those of one client that takes part in "
        "every round, over the whole run. The ratio compares them with sending 32 bits per trained "
        f"parameter in every iteration.{framing_told(runs)}"
    )
    rounds = results.rounds
    if (
        "used_iterations" in rounds
        and (
            (rounds["used_iterations"] < rounds["local_iterations"]) & (rounds["clients"] > 0)
        ).any()
    ):
        mean = (
            "their mean"
            if symbol != "n"
            else ("the fastest client's; the ratio goes by the mean over clients")
        )
        text += f" Where clients did unlike numbers of iterations, these are {mean}."
    if sends_less_per_client(runs).any():
        text += (
            " Bits per client are the whole federation's over the number of its clients: a client "
            "that is not of every round's cohort sends fewer."
        )
    if VARIANT in runs.columns:
        text += " Methods differ in other settings too: see Settings."
    source = ", ".join(runs["data_source"].dropna().unique())
    text += f" Data: {source}." if source else ""
    return f"<p>{escape(text)}</p>"


def comparison_sentence(runs: pd.DataFrame) -> str:
    """A sentence that compares the best compressed cell with the dense reference.

    The difference is over the seeds that both have; the sentence notes if one has fewer seeds.

    Returns:
        Text; empty without a compressed cell that is done, or where there is not one reference.
    """
    done = runs[runs["status"] == "done"]
    cells = over_seeds(add_difference(done)) if len(done) else done
    dense = cells[reference(cells)]
    if len(dense) == 1:
        cells = cells[~cells["dense"].astype(bool) & cells["difference"].notna()]
    if len(dense) != 1 or cells.empty:
        return ""
    name, higher = metric_name(runs), bool(runs["higher_is_better"].dropna().iloc[0])
    best = cells.sort_values(["metric", "up_wire_bits"], ascending=[not higher, True]).iloc[0]
    ways, parts = ["up_wire_bits", "down_wire_bits"], []
    for count, what in ((1, "its uplink"), (2, "all bits")):
        bits, spent = dense[ways[:count]].sum(axis=1).iloc[0], best[ways[:count]].sum()
        if bits > 0:  # else none of its replies was used
            part = f"1/{units.digits(bits / spent)}" if spent > 0 else "none"
            parts.append(f"{part if bits >= spent else f'{spent / bits:.3g} times'} of {what}")
    unit = "points " if name in units.FRACTIONS else ""
    over = round(best["difference"], 9)  # of the seeds that both have
    gap = units.difference(abs(over), name, signed=False)
    placed = f"{gap} {unit}{'above' if over > 0 else 'below'} dense" if over else "as dense does"
    which = "" if len(cells) == 1 else f", the best of {len(cells)} compressed cells,"
    seeds, pairs = best["seeds"], best["difference_seeds"]
    most_seeds = max(*cells["seeds"], *dense["seeds"])
    counted = f"{seeds} of {most_seeds} seeds" if seeds < most_seeds else f"mean of {seeds} seeds"
    counted += f", {pairs} of them with a reference" if pairs < seeds else ""
    counted = f" ({counted})" if most_seeds > 1 else ""
    return (
        f"{best['label']} with {delay_symbol(runs)} = {best['temporal']}, "
        f"p = {units.plain(best['gradient'])}{which} ends at {name} "
        f"{units.score(best['metric'], name)}, {placed}{counted}"
        f"{', with ' if parts else ''}{' and '.join(parts)}."
    )


def _intro(results: Results) -> str:
    runs = results.runs
    symbol = delay_symbol(runs)
    notes = []
    if one_celled(runs):
        notes.append("No matrix is drawn: there is one cell per method.")
    if results.unfinished:
        notes.append(f"Not finished, and left out: {', '.join(results.unfinished)}.")
    references = runs[reference(runs)]
    name, lines = metric_name(runs), []
    for label, group in references[references["status"] == "done"].groupby("label"):
        score, bits = units.score(group["metric"].mean(), name), group["up_wire_bits"].mean()
        dense = f"{name} {score} with {units.bits(bits)} per client upstream"
        which = f"{label}: " if VARIANT in runs.columns else ""
        lines.append(escape(f"{which}{dense}"))
    if not lines:
        first = f"The dense reference (raw, {symbol} = 1) failed: see Failed cells."
        if not len(references):
            first = f"There is no dense reference (raw, {symbol} = 1) among the cells."
        notes.insert(0, first)
    sentence = comparison_sentence(runs)
    words = f"<p><strong>{escape(sentence)}</strong></p>" if sentence else ""
    if sure := headline(runs):
        words += f"<p>{escape(sure)}</p>"
    if lines:
        words += f"<p>Dense reference ({symbol} = 1, p = 1): {'; '.join(lines)}.</p>"
    return words + "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
