"""The tables of ``fedsim measure``: a line per method, or per coder of positions and symbols."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from fedsim.ground import units
from fedsim.show.layout import text_table, unbroken_width

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Group

    from fedsim.measure.coders import CoderPlan

_METHODS = (
    "Wire: whole payloads, 1 kbit = 1000 bit. Ratio: 32 bits per entry over wire bits. Error: "
    "||C(x)-x|| / ||x|| of what was decoded. Times: median of the repeats, one thread, after a run "
    "that is not counted; ms, and ns per entry. Memories start empty."
)
_CODERS = (
    "Bits: what the coder writes, its tables included. Ratio: bits over the entropy, of positions "
    "as if they were random, of symbols by their frequencies. Times: median of the repeats, one "
    "thread, after a run that is not counted. Lossy: the receiver rebuilds other positions than "
    "were sent."
)
_UNIT = {"positions": "index", "symbols": "value"}


def coders_tables(frame: pd.DataFrame, plan: CoderPlan, width: int) -> list[Group]:
    """The frame of ``measure_coders`` for the terminal: a table per kind that the frame has."""
    from fedsim.measure.coders import OFS

    methods = dict(zip(OFS, plan[1:], strict=True))
    by_kind = {of: rows for of in OFS if len(rows := frame[frame["of"] == of])}
    tables = []
    for of, rows in by_kind.items():
        unit, first = _UNIT[of], rows.iloc[0]
        bound = three(first["entropy_each"])
        title = f"{of} of {methods[of]}: {first['count']}"
        title += f", entropy {bound} bits" if bound else ""
        texts = []
        for _, row in rows.iterrows():
            lossy = "" if row["exact"] or row["error"] else " (lossy)"
            error = f"\n{row['error']}" if row["error"] else ""
            texts.append(
                {
                    "coder": f"{row['coder']}{lossy}{error}",
                    "bits": units.bits(row["bits"]),
                    f"bits/\n{unit}": three(row["bits_each"]),
                    "ratio to\nentropy": three(row["ratio_to_entropy"], 4),
                    f"encode\nns/{unit}": three(row["encode_ns_each"]),
                    f"decode\nns/{unit}": three(row["decode_ns_each"]),
                }
            )
        caption = _CODERS if of == [*by_kind][-1] else ""
        tables.append(_shown(texts, rows, width, 3, title, caption))
    return tables


def measured_table(frame: pd.DataFrame, width: int) -> Group:
    """The frame of ``measure`` for the terminal; in a narrow terminal a time takes two lines."""
    for between, gap in ((" ", 3), ("\n", 1)):
        texts = []
        for _, row in frame.iterrows():
            times = {
                f"{direction}\nms{between}ns/entry": between.join(
                    (three(row[f"{direction}_ms"]), three(row[f"{direction}_ns_per_entry"]))
                )
                for direction in ("compress", "decompress")
            }
            texts.append(
                {
                    "method": f"{row['method']}\n{row['error']}".rstrip("\n"),
                    "wire": units.bits(row["wire_bits"]),
                    "bits/\nentry": three(row["bits_per_entry"]),
                    "ratio": units.ratio(row["ratio"]),
                    "error": _score(row["relative_error"]),
                    "cosine": _score(row["cosine"]),
                    **times,
                }
            )
        if unbroken_width(texts, gap) <= width:
            break
    return _shown(texts, frame, width, gap, f"{frame['entries'].iloc[0]} entries", _METHODS)


def _shown(
    texts: list[dict[str, str]],
    frame: pd.DataFrame,
    width: int,
    gap: int,
    title: str,
    caption: str,
) -> Group:
    """A table whose rows with an error are red."""
    how: dict[str, Any] = {"names": ("method", "coder"), "gap": gap, "title": title}
    styles = ["red" if error else "" for error in frame["error"]]
    return text_table(texts, width, styles=styles, caption=caption, **how)


def _score(value: float) -> str:
    if value == 0 or abs(value) < 0.00005:  # only what is exact is 0
        return f"{value:.1e}" if value else "0"
    return "" if math.isnan(value) else f"{value:.4f}" if value < 9.99995 else f"{value:.4g}"


def advice(frame: pd.DataFrame, width: int) -> str:
    """The recommendation below the table, in lines of ``width`` characters; empty of no method."""
    from textwrap import fill

    from fedsim.measure.advice import advice_text, recommend, search_command

    choice = recommend(frame)
    if not choice:
        return ""
    lines = fill(advice_text(choice), width, break_on_hyphens=False)
    return f"{lines}\n{search_command(choice)}"


def three(value: float, digits: int = 3) -> str:
    """A value with ``digits`` significant digits: `0.440`, `12.3`, `4120`; empty for NaN."""
    if value != value:
        return ""
    is_whole = abs(value) >= 10 ** (digits - 1) - 0.05
    return f"{value:.0f}" if is_whole else f"{value:#.{digits}g}"
