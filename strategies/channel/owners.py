"""The client of each SuperNode's key, from a table of the SuperLink's operator.

A SuperLink with SuperNode authentication gives every key that is registered a node id of its own,
and lets nobody else use that id. So a table of node ids says whose name a node may bear: it is a
JSON file, ``{"NODE ID": partition-id, or client-id where the node has none}``, whose path the
environment variable ``FEDSIM_CLIENTS`` of the SuperLink's processes has. Without the variable nodes
are believed.
"""

import json
import os
from pathlib import Path

TABLE = "FEDSIM_CLIENTS"


def owners() -> dict[int, int | str] | None:
    """Node id -> the client that the node's key belongs to; None where there is no table.

    Raises ``ValueError``, which names variable and file, where the table cannot be read.
    """
    path = os.environ.get(TABLE, "")
    return read(Path(path)) if path else None


def read(path: Path) -> dict[int, int | str]:
    """The table in ``path``; see ``owners``."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if any(isinstance(who, bool) or not isinstance(who, int | str) for who in table.values()):
            raise ValueError("a client is its partition-id, a number, or its client-id, a text")
        return {int(node): who for node, who in table.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(
            f'{TABLE} is {path}: no table {{"NODE ID": CLIENT, ...}} is there: {error}'
        ) from error
