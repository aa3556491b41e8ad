"""Texts of a stranger's folder as plain text: no terminal, spreadsheet or page acts on them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from compressors.grammar import printable

if TYPE_CHECKING:  # half a second, which only a run's tables need
    import pandas as pd

_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", re.IGNORECASE)


def neutral(value: Any) -> Any:
    """A value whose texts, and those inside it, have escapes for control characters.

    Such characters move a terminal's cursor, or turn the direction of what is read.

    Example:
        >>> neutral({"label": "mine\\x1b[2J", "lr": 0.1, "words": ["a\\u202eb"]})
        {'label': 'mine\\\\x1b[2J', 'lr': 0.1, 'words': ['a\\\\u202eb']}
    """
    if isinstance(value, str):
        return value if value.isascii() and value.isprintable() else printable(value)
    if isinstance(value, dict):
        return {neutral(key): neutral(item) for key, item in value.items()}
    if isinstance(value, list):
        return [neutral(item) for item in value]
    return value


def csv_text(table: pd.DataFrame) -> str:
    """A table as CSV, in which no spreadsheet takes a text for a formula: ``'`` is put before it.

    Example:
        >>> import pandas as pd
        >>> csv_text(pd.DataFrame({"label": ["=cmd()", "sbc", "-1.5"], "lr": [1, 2, -3]}))
        "label,lr\\n'=cmd(),1\\nsbc,2\\n-1.5,-3\\n"
    """

    def safe(value: Any) -> Any:
        is_formula = isinstance(value, str) and _FORMULA.match(value)
        return f"'{value}" if is_formula and not _NUMBER.fullmatch(value) else value

    texts = [name for name in table.columns if table[name].dtype.kind not in "biufc"]
    escaped = table.assign(**{name: table[name].map(safe) for name in texts}) if texts else table
    return str(escaped.rename(columns=safe).to_csv(index=False))
