"""The documents that ``--json`` prints."""

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def print_document(document: Any) -> None:
    """Prints one JSON document; NaN and infinities are null, as JSON has neither."""
    import json

    print(json.dumps(_plain(document)))


def records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table as JSON has them: None where there is no number."""
    return list(table.astype(object).where(table.notna(), None).to_dict("records"))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
