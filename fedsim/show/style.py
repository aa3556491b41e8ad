"""Names and colours in figures, the same in the PNG figures and in the report."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.ground import units
from fedsim.results.labels import reference

LABELS = {
    "ratio_content": "compression ratio (content, as papers count)",
    "ratio_wire": "compression ratio (wire)",
    "up_content_bits": "uplink of one client (bit, content)",
    "up_wire_bits": "uplink of one client (bit, wire)",
    "total_wire": "uplink and downlink of one client (bit, wire)",
    "total_content": "uplink and downlink of one client (bit, content)",
    "iteration": "local iterations",
    "sim_end_seconds": "simulated time (seconds)",
}
FRACTION = "fraction of entries sent p"
"""The name of p in figures; the SBC paper calls it gradient sparsity though it is a density."""


# The dense reference is black; those with other settings follow, of many in finer steps.
GREYS = ("#000000", "#6b6b6b", "#a8a8a8")
# Okabe and Ito's colours, told apart by the colour-blind too; from the eighth method on, darker.
METHODS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#F0E442",
    "#004065", "#793600", "#005a42", "#74455f", "#316683", "#835a00", "#898226",
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """How a cell's line or point looks.

    Attributes:
        colour: `#rrggbb`.
        place: its place among the delays (0, 1, ...), which line styles tell.
        marker: which marker: the place among the delays too; of several methods, the method's;
            None: a line without.
    """

    colour: str
    place: int
    marker: int | None


class CellKey(NamedTuple):
    """A cell; ``reference``: float32 at n = 1, p = 1, compared to a method that sends all entries.

    ``method``: its label where cells of several methods are compared, else empty; ``dense``:
    whether that method is raw sending; ``symbol``: the delay's, n, E or T.
    """

    temporal: int
    gradient: float
    reference: bool = False
    method: str = ""
    dense: bool = False
    symbol: str = "n"


def shared_reference(runs: pd.DataFrame) -> pd.Series:
    """The rows of the dense reference where another method has its cell too; else none."""
    dense = reference(runs)
    shared = (runs["temporal"] == 1) & (runs["gradient"] == 1) & ~dense
    return dense & bool(shared.any())


def looks(cells: Sequence[tuple[int, float] | CellKey]) -> dict[CellKey, Look]:
    """Colour by fraction of entries sent, marker and line style by delay; the dense cell is black.

    Of several methods: colour and marker by method, paler with fewer entries, line style by delay.
    """
    keys = [CellKey(*cell) for cell in cells]
    temporals = sorted({key.temporal for key in keys})
    gradients = sorted({key.gradient for key in keys}, reverse=True)
    if any(key.method for key in keys):
        return _by_method(keys, temporals)
    black = CellKey(1, 1, any(key.reference for key in keys))
    blacks = {black, black._replace(symbol="E")}
    from matplotlib import colormaps  # half a second that only figures should wait

    places = np.linspace(0, 0.85, len(gradients))
    shades = [_hex(shade[:3]) for shade in colormaps["viridis"](places)]
    styles = {}
    for key in keys:
        place = temporals.index(key.temporal)
        colour = "#000000" if key in blacks else shades[gradients.index(key.gradient)]
        styles[key] = Look(colour, place, place)
    return styles


def _by_method(keys: Sequence[CellKey], temporals: Sequence[int]) -> dict[CellKey, Look]:
    names = list(dict.fromkeys(key.method for key in keys))
    raw = {key.method for key in keys if key.dense}
    methods, dense = [n for n in names if n not in raw], [n for n in names if n in raw]
    greys: Sequence[str] = GREYS
    if len(dense) > len(greys):
        lightest = int(GREYS[-1][1:3], 16) / 255
        greys = [_hex(3 * [x]) for x in np.linspace(0, lightest, len(dense))]
    styles = {}
    for key in keys:
        fractions = sorted({k.gradient for k in keys if k.method == key.method}, reverse=True)
        pale = 0.55 * fractions.index(key.gradient) / max(1, len(fractions) - 1)
        if key.method in raw:
            number = dense.index(key.method)
            base = greys[number]
        else:
            number = methods.index(key.method) + 1
            base = METHODS[(number - 1) % len(METHODS)]
        rgb = [int(base[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        colour = _hex([c + pale * (1 - c) for c in rgb])
        styles[key] = Look(colour, temporals.index(key.temporal), number)
    return styles


def _hex(rgb: Iterable[float]) -> str:
    return "#" + "".join(f"{round(255 * c):02x}" for c in rgb)


def method_looks(methods: Mapping[str, bool]) -> dict[str, Look]:
    """How each method looks where it is drawn as a whole; ``methods``: which are raw sending."""
    keys = [CellKey(1, 1, method=name, dense=dense) for name, dense in methods.items()]
    return {key.method: look for key, look in _by_method(keys, [1]).items()}


def delay_axis(symbol: str) -> str:
    """The name of the delay's axis.

    Example:
        >>> delay_axis("n"), delay_axis("E")
        ('communication delay n', 'local epochs per round E')
    """
    names = {"n": "communication delay n", "E": "local epochs per round E"}
    return names.get(symbol, f"local seconds per round {symbol}")


def metric_name(runs: pd.DataFrame) -> str:
    """The name of the runs' metric; "metric" where no run has one, or they differ."""
    names = runs["metric_name"].dropna().unique() if "metric_name" in runs.columns else []
    return str(names[0]) if len(names) == 1 else "metric"


def higher_is_better(runs: pd.DataFrame) -> bool:
    """Whether a higher metric is better; true where no run says it."""
    has_column = "higher_is_better" in runs.columns
    values = runs["higher_is_better"].dropna() if has_column else runs[:0]
    return bool(values.iloc[0]) if len(values) else True


def label(name: str) -> str:
    """How an axis calls a column or a metric."""
    return LABELS.get(name, name.replace("_", " "))


def cell_label(cell: CellKey) -> str:
    """How a legend calls a cell of the plane."""
    n, p = f"{cell.symbol} = {cell.temporal}", f"p = {units.plain(cell.gradient)}"
    if cell.method:
        return ", ".join([cell.method, n] if cell.dense else [cell.method, n, p])
    first = (cell.temporal, cell.gradient) == (1, 1)
    return f"{n}, {p}" + (" (float32)" if cell.reference else " (dense)" if first else "")


def readable(colour: str) -> str:
    """`#rrggbb` as dark as letters on white must be: a contrast of 4.5 and more (WCAG 2).

    Example:
        >>> readable("#0072B2"), readable("#F0E442")
        ('#0072b2', '#7f7823')
    """
    rgb = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    while luminance(rgb) > 1.05 / 4.5 - 0.05:
        rgb = [0.97 * c for c in rgb]
    return _hex(rgb)


def ink(background: tuple[float, float, float, float]) -> str:
    """Black or white, whichever is easier to read on a colour (WCAG 2 relative luminance)."""
    # Equal contrast with black and white: (L + 0.05)^2 = 1.05 * 0.05.
    return "black" if luminance(background[:3]) > 0.179 else "white"


def luminance(rgb: Sequence[float]) -> float:
    """The relative luminance (WCAG 2) of red, green and blue from 0 to 1."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
