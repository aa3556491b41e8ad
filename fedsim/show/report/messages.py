"""The composition of messages: the parts of their bits, and their share of each tensor."""

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.show.chart import Axis, Chart, Marks, stacked
from fedsim.show.curves import by_cell
from fedsim.show.figures import legend, paler
from fedsim.show.style import cell_label, looks

# Paul Tol's "bright" scheme, safe for the colour-blind.
_PARTS = {"header": "#bbbbbb", "position": "#4477aa", "value": "#ccbb44", "side": "#ee6677"}
_BESIDE = {
    "buffers": ("up_buffer_bits", "#66ccee"),
    "reports": ("up_report_bits", "#aa3377"),
    "sampler": ("up_sampler_bits", "#228833"),
}
_LANES = 0.75  # how much of a row its marks spread over
_LAYERS = (
    "A row per tensor of the model, in its order; a mark per cell that does not send all: the mean "
    "over the rounds that were evaluated. Within a row, each cell has a height of its own."
)


def sent_beside(runs: pd.DataFrame) -> list[str]:
    """What any run's clients sent in addition to their updates: `buffers` (BatchNorm's statistics),
    `reports` (what a controller or a sampler asked them), `sampler` (what it asked in between)."""
    sent = {part: column for part, (column, _) in _BESIDE.items() if column in runs.columns}
    return [part for part, column in sent.items() if (runs[column] > 0).any()]


def message_parts(runs: pd.DataFrame) -> Chart | None:
    """What a client's upstream messages consist of: a bar per cell, its parts in percent; None
    where no message was used.

    The parts sum to ``up_wire_bits``. Buffers and reports are among them where some cell sends any.
    """
    done = runs[runs["status"] == "done"]
    columns = {part: (f"up_{part}_bits", colour) for part, colour in _PARTS.items()}
    columns |= {part: _BESIDE[part] for part in sent_beside(done)}
    names = [name for name, _ in columns.values()]
    keyed, cells = by_cell(done)
    means = keyed.groupby("_cell")[names].mean()
    means = means.set_axis([cell_label(cell) for cell in cells]).fillna(
        0.0
    )  # reports need a controller
    means = means[means.sum(axis=1) > 0]
    if not len(means):
        return None
    all_bits, parts = means.sum(axis=1), {}
    for part, (name, colour) in columns.items():
        share = 100 * means[name] / all_bits
        rows = zip(means.index, means[name], all_bits, share, strict=True)
        texts = [
            f"{bar}\n{part}: {units.bits(bits)} of {units.bits(total)}, {percent:.1f} %"
            for bar, bits, total, percent in rows
        ]
        parts[part] = (colour, share.to_numpy(float), texts)
    return stacked(parts, list(means.index), Axis("share of upstream bits (%)"))


def layers(table: pd.DataFrame) -> Chart | None:
    """How much of each tensor travels: a row per tensor, a mark per cell; None where all travels.

    Within a row each cell has a lane, so that equal shares do not cover each other.
    """
    table = table.assign(density=table["sent"] / table["entries"])
    order = list(dict.fromkeys(table["tensor"]))
    keyed, cells = by_cell(table)
    means = keyed.groupby(["_cell", "tensor"])[["density", "sent", "entries"]].mean()
    partial = sorted(keyed.loc[keyed["density"] < 1, "_cell"].unique())
    if not partial:
        return None
    styles = looks(cells)
    named, reading = legend({cells[place]: styles[cells[place]] for place in partial}, lines=False)
    marks = []
    for lane, place in enumerate(partial):
        cell, densities = cells[place], means.loc[place].reindex(order)
        shown = densities[densities["density"] > 0]
        texts = [
            f"{cell_label(cell)}\n{tensor}: {sent:.4g} of {entries:.0f} entries, "
            f"{100 * density:.3g} %"
            for tensor, density, sent, entries in shown.itertuples()
        ]
        height = _LANES * ((lane + 0.5) / len(partial) - 0.5)
        marks.append(
            Marks(
                x=list(100 * shown["density"]),
                y=np.flatnonzero(densities["density"] > 0) + height,
                kind="points",
                look=styles[cell],
                name=named[cell],
                texts=texts,
                direct_label=False,
                size=6 if len(partial) < 3 else 5,
            )
        )
    x = Axis("entries sent per message (% of the tensor)", "percent")
    row = max(0.25, min(0.1 + 0.06 * len(partial), 1.0, 25 / len(order)))  # inches
    y = Axis(rows=[str(tensor) for tensor in order], height=row)
    caption = _LAYERS + paler([cells[place] for place in partial])
    return Chart(title="", x=x, y=y, marks=marks + reading, caption=caption)
