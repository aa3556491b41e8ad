"""The report's sections of figures: headings, charts and what they show."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from html import escape

import pandas as pd

from fedsim.ground.errors import NothingToDraw
from fedsim.results.labels import delay_symbol, methods_of, of_method, several
from fedsim.results.load import Results
from fedsim.show import figures as described
from fedsim.show.chart import Chart
from fedsim.show.curves import TIME, pareto_points
from fedsim.show.heat import JOINED, cell_texts, heat
from fedsim.show.planes import one_celled
from fedsim.show.plot.inline import chart_svg, plane_svg
from fedsim.show.report.messages import layers, message_parts, sent_beside
from fedsim.show.report.sections import answers
from fedsim.show.report.times import caption, middle_rounds, sentence, timed_rounds
from fedsim.show.style import label, metric_name

_PLANE = (
    "Rows: local {} per round. Columns: fraction of entries sent. Of several "
    "seeds: mean ± sample standard deviation (number of seeds)."
)
_PARTS = "Header: framing, lengths. Side: what a quantizer sends beside its values."
_BESIDE = {
    "buffers": " Buffers: BatchNorm's statistics, in the wire and not in the content that papers "
    "count.",
    "reports": " Reports: what a controller asked of clients, or a sampler, in the wire and not in "
    "the content.",
    "sampler": " Sampler: what it asked clients for outside of their messages, likewise.",
}

Section = tuple[str, str, str]
"""Its id, its heading, its HTML."""

Figure = Chart | Callable[[str], str]
"""A chart; or what gives a figure's element, from its name on the page."""


def figures(results: Results, budget: float | None = None, budget_of: str = "up") -> list[Section]:
    """The sections that show the runs that are done, the answer first; none where none is."""
    runs, done = results.runs, results.done
    if not len(done):
        return []
    rounds, name = results.done_rounds, metric_name(runs)
    key, title, text = "budget", "Best within a budget of bits", answers(results, budget, budget_of)
    with suppress(NothingToDraw):
        if several(done):
            text += charted(key, title, described.budget_chart(rounds, name, budget_of=budget_of))[
                2
            ]
    sections = [(key, title, text)]
    with suppress(NothingToDraw):
        if len(pareto_points(runs)) > 1:
            shown = described.pareto_chart(runs, budget_of=budget_of)
            sections.append(charted("front", "Metric against bits", shown))
    for key, x in {"iterations": "iteration", "bits": "up_bits"}.items():
        with suppress(NothingToDraw):
            shown = described.curves_chart(rounds, x, name=name)
            sections.append(charted(key, f"Learning over {key}", shown))
    if len(rows := timed_rounds(rounds)):
        with suppress(NothingToDraw):
            shown = described.curves_chart(rows, TIME, name=name)
            key, title, text = charted("time", "Learning over simulated time", shown)
            sections.append((key, title, sentence(results) + text))
        key, title = "timeline", "A round on the simulated clock"
        sections.append(section(key, title, caption(results), middle_rounds(results)))
    if one_celled(runs):
        return sections
    for key, value in (("metric", "metric"), ("ratio", "ratio_wire")):
        plane = heat(runs, value)
        length = {"n": "iterations", "E": "epochs"}.get(delay_symbol(runs), "seconds")
        text = _PLANE.format(length) + (f" {JOINED}" if plane.joined else "")
        left = [name for name in _runs_by_method(runs) if name and name not in plane.panels]
        text += f" Left out, with one cell each: {', '.join(left)}." if left else ""
        text += plane.legend_text
        title = f"Matrix: {label(plane.name)}"
        many, draw = several(runs), dict[str, Figure]()
        for name, grid in plane.panels.items():
            texts = cell_texts(of_method(runs, name) if many else runs, grid)
            draw[name if many else ""] = partial(plane_svg, plane, name, texts)
        sections.append(section(key, title, text, draw))
    return sections


def parts(results: Results) -> list[Section]:
    """The sections that show what messages are made of; none where no run is done."""
    done = results.done
    if not len(done):
        return []
    text = _PARTS + "".join(_BESIDE[part] for part in sent_beside(done))
    by_method = _runs_by_method(results.runs).items()
    bars = {
        name: chart
        for name, of_label in by_method
        if (chart := message_parts(of_label)) is not None
    }
    sections = [section("split", "What the bits are", text, bars)] if bars else []
    if len(results.layers) and (shown := layers(results.layers)):
        sections.append(charted("layers", "What each layer sends", shown))
    return sections


def _runs_by_method(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The runs of each method by its label; of one method all, without a name."""
    if not several(runs):
        return {"": runs}
    return {name: of_method(runs, name) for name in methods_of(runs)}


def charted(key: str, title: str, shown: Chart) -> Section:
    """A section of one chart."""
    return section(key, title, shown.caption, {"": shown})


def section(key: str, title: str, caption: str, draw: Mapping[str, Figure]) -> Section:
    """A section of figures, each under its name, and what they show."""
    text = ""
    for number, (name, figure) in enumerate(draw.items()):
        ending = f"-{number + 1}" if number else ""
        heading = f"<h3>{escape(name)}</h3>" if name else ""
        about = escape(f"{title}{', ' if name else ''}{name}")
        salt = f"chart-{key}{ending}"
        element = chart_svg(figure, salt) if isinstance(figure, Chart) else figure(salt)
        text += (
            f'{heading}<figure id="{salt}" tabindex="0" role="group" aria-label="{about}">'
            f"{element}</figure>"
        )
    return key, escape(title), f'{text}<p class="note">{escape(caption)}</p>'
