"""Registers SuperNodes' public keys at a SuperLink, and writes down which client each belongs to.

    python -m fedsim.engines.deploy.register CONNECTION TABLE CLIENT=KEY ...

CONNECTION is named in the ``config.toml`` of Flower's home; TABLE is the file of ``FEDSIM_CLIENTS``
(``strategies.channel.owners``), to which lines are added; CLIENT is a ``partition-id``, else a
``client-id``; each KEY is a file. All in one process: the import takes seconds.
"""

import contextlib
import io
import json
import re
import sys
from importlib.metadata import entry_points
from pathlib import Path

from strategies.channel.owners import read

_TOLD = re.compile(r"SuperNode (\d+) registered")


def main() -> None:
    """Runs ``flwr supernode register`` for each key; ends with its error where one is refused."""
    (program,) = entry_points(group="console_scripts", name="flwr")
    flwr, (connection, table, *given) = program.load(), sys.argv[1:]
    for client, _, key in (pair.partition("=") for pair in given):
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            flwr(["supernode", "register", key, connection], standalone_mode=False)
        print(said.getvalue(), end="")
        node = _TOLD.search(said.getvalue())
        if node is None:
            sys.exit(f"{key} is registered, and flwr does not say as which node")
        known = read(Path(table)) if Path(table).exists() else {}
        known[int(node[1])] = int(client) if client.isdecimal() else client
        part = Path(f"{table}.part")  # a SuperLink may be reading
        part.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        part.replace(table)


if __name__ == "__main__":
    main()
