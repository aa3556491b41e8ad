"""The table of ``fedsim measure --coders``: positions and symbols, a line per coder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedsim.ground import units
from fedsim.show.layout import Column, Laid, Row, laid, unbroken_width

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.measure.plan import Plan

CAPTION = (
    "Bits: what the coder writes, its tables included. Ratio: bits over the entropy, of positions "
    "as if they were random, of symbols by their frequencies. Times: median of the repeats, one "
    "thread, after a run that is not counted. Lossy: the receiver rebuilds other positions than "
    "were sent."
)
_UNIT = {"positions": "index", "symbols": "value"}


def table(frame: pd.DataFrame, plan: Plan, width: int) -> list[Laid]:
    """The frame of ``measure_coders`` for the terminal: a table per kind that the frame has."""
    from fedsim.measure.plan import OFS

    methods = dict(zip(OFS, plan[1:], strict=True))
    by_kind = {of: rows for of in OFS if len(rows := frame[frame["of"] == of])}
    tables = []
    for of, rows in by_kind.items():
        unit, first = _UNIT[of], rows.iloc[0]
        bound = three(first["entropy_each"])
        title = f"{of} of {methods[of]}: {first['count']}"
        title += f", entropy {bound} bits" if bound else ""
        headings = ("bits", f"bits/\n{unit}", "ratio to\nentropy",
                    f"encode\nns/{unit}", f"decode\nns/{unit}")  # fmt: skip
        columns = [Column("coder", "name"), *map(Column, headings)]
        lines: list[Row] = []
        for _, row in rows.iterrows():
            lossy = "" if row["exact"] or row["error"] else " (lossy)"
            cells = (
                f"{row['coder']}{lossy}" + (f"\n{row['error']}" if row["error"] else ""),
                units.bits(row["bits"]), three(row["bits_each"]), three(row["ratio_to_entropy"], 4),
                three(row["encode_ns_each"]), three(row["decode_ns_each"]),
            )  # fmt: skip
            lines.append((cells, "red" if row["error"] else ""))
        gap = 3 if unbroken_width(columns, lines, 3) <= width else 1
        caption = CAPTION if of == [*by_kind][-1] else ""
        tables.append(laid(columns, lines, width, gap=gap, title=title, caption=caption))
    return tables


def three(value: float, digits: int = 3) -> str:
    """A value with ``digits`` significant digits: `0.440`, `12.3`, `4120`; empty for NaN."""
    if value != value:
        return ""
    whole = abs(value) >= 10 ** (digits - 1) - 0.05
    return f"{value:.0f}" if whole else f"{value:#.{digits}g}"
