"""The table of ``fedsim measure --coders``: positions and symbols, a line a coder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedsim import units

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.measure_plan import Of, Plan

CAPTION = (
    "Bits: what the coder writes, its tables included. Ratio: over the entropy, of positions as if "
    "they were random, of symbols by their frequencies. Times: median of the repeats, one thread, "
    "after a run that is not counted. Lossy: others are decoded than were encoded."
)
_ONE = {"positions": "index", "symbols": "value"}


def table(frame: pd.DataFrame, plan: Plan) -> Group:
    """The frame of ``measure_coders`` for the terminal: a table of each kind that is in it."""
    from fedsim.measure_plan import OFS

    methods = dict(zip(OFS, plan[1:], strict=True))
    shown = [_table(rows, of, methods[of]) for of in OFS if len(rows := frame[frame["of"] == of])]
    parts = [part for one in shown for part in (one, Text())]
    return Group(*parts, Text(CAPTION))


def _table(rows: pd.DataFrame, of: Of, method: str) -> Table:
    one, first = _ONE[of], rows.iloc[0]
    bound = three(first["entropy_each"])
    title = f"{of} of {method}: {first['count']}" + (f", entropy {bound} bits" if bound else "")
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False,
                  title=Text(title), title_justify="left")  # fmt: skip
    shown.add_column("coder", overflow="fold")
    headings = ("bits", f"bits {'an' if of == 'positions' else 'a'}\n{one}", "ratio to\nentropy",
                f"encode\nns/{one}", f"decode\nns/{one}")  # fmt: skip
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    for _, row in rows.iterrows():
        lossy = "" if row["exact"] or row["error"] else " (lossy)"
        cells = (
            f"{row['coder']}{lossy}" + (f"\n{row['error']}" if row["error"] else ""),
            units.bits(row["bits"]), three(row["bits_each"]), three(row["ratio_to_entropy"], 4),
            three(row["encode_ns_each"]), three(row["decode_ns_each"]),
        )  # fmt: skip
        # Text, not str: a coder's brackets are no markup.
        shown.add_row(*map(Text, cells), style="red" if row["error"] else "")
    return shown


def three(value: float, digits: int = 3) -> str:
    """So many significant digits: `0.440`, `12.3`, `4120`; empty where it is not known."""
    if value != value:
        return ""
    whole = abs(value) >= 10 ** (digits - 1) - 0.05
    return f"{value:.0f}" if whole else f"{value:#.{digits}g}"
