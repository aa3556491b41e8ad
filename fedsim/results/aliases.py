"""What tables call columns, and the names that people may type for a column."""

import re
from collections.abc import Iterable, Sequence

from fedsim.ground.errors import UsageError
from fedsim.ground.records import SCORE

COLUMN_HEADINGS = {
    "label": "method", "temporal": "n", "gradient": "p", "total_sparsity": "p/n",
    "up_share": "sent", "metric_name": "metric", "up_wire_bits": "up",
    "up_wire_bits_per_client": "up\nper client", "up_content_bits": "up\ncontent",
    "down_wire_bits": "down", "down_content_bits": "down\ncontent", "ratio_wire": "ratio\nup",
    "ratio_content": "ratio up\ncontent", "ratio_both": "ratio\nboth", "failed_up_bits": "not used",
    "up_message_bits": "up\nmessages", "down_message_bits": "down\nmessages",
    "iterations": "iterations\ndone",  # fewer than the setting where a run stopped at its bits
}  # fmt: skip
"""The headings of columns whose heading is not their name, in lines where a terminal has them."""

_FURTHER = {
    "E": ("temporal",),
    "local steps": ("temporal",),
    "local epochs": ("temporal",),
    "density": ("gradient",),
    "sparsity": ("total_sparsity",),
    "up": ("up_wire_bits", "up_bits"),
    "up bits": ("up_wire_bits",),
    "down bits": ("down_wire_bits",),
    "total": ("total_bits",),
    "ratio": ("ratio_wire",),
    "vs dense": ("difference",),
    "iterations": ("iteration",),
    "time": ("sim_end_seconds",),
}
_ALIASES = {text.replace("\n", " "): (name,) for name, text in COLUMN_HEADINGS.items()} | _FURTHER
"""Alias, with blanks -> the columns that it may be, the first that a frame has."""


def column_of(name: str, columns: Iterable[str], metrics: Iterable[str] = ()) -> str:
    """The column that a name is of: its own, a heading's, a symbol's or the metric's.

    ``metrics``: the names of the runs' metrics. In a name a hyphen or an underscore is as a blank;
    one that is of no column is returned itself.

    Example:
        >>> frame = ["temporal", "gradient", "metric", "ratio_both"]
        >>> [column_of(name, frame, ["accuracy"]) for name in ("n", "p", "accuracy", "ratio-both")]
        ['temporal', 'gradient', 'metric', 'ratio_both']
    """
    names = {*columns}
    candidates = [name, *_ALIASES.get(re.sub("[-_]", " ", name), ())]
    candidates += [name.replace("-", "_"), *(["metric"] if name in {*metrics} else [])]
    return next((one for one in (*candidates, f"{SCORE}{name}") if one in names), name)


def named_columns(
    names: Sequence[str],
    columns: Iterable[str],
    metrics: Iterable[str] = (),
    where: str = "columns",
) -> list[str]:
    """The columns that names are of, as ``column_of``; ``where``: their place, for the message.

    Raises ``UsageError`` where a name is of no column.
    """
    allowed, scores = [*columns], {*metrics}
    resolved = [column_of(name, allowed, scores) for name in names]
    if unknown := [name for name in resolved if name not in allowed]:
        raise UsageError(f"{where} has {', '.join(unknown)}: it may name {', '.join(allowed)}")
    return resolved
