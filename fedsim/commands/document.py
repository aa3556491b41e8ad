"""What ``--json`` prints."""

import json
import math
from typing import Any


def print_document(document: Any) -> None:
    """Prints one JSON document; NaN and infinities are null, as JSON has neither."""
    print(json.dumps(_plain(document)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
