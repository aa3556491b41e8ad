"""Registers SuperNodes' public keys at a SuperLink, all in one process: the import takes seconds.

    python -m fedsim.deploy.register CONNECTION KEY ...

CONNECTION is named in the ``config.toml`` of Flower's home; each KEY is a file.
"""

import sys
from importlib.metadata import entry_points


def main() -> None:
    """Runs ``flwr supernode register`` for each key; ends with its error where one is refused."""
    (program,) = entry_points(group="console_scripts", name="flwr")
    flwr, (connection, *keys) = program.load(), sys.argv[1:]
    for key in keys:
        flwr(["supernode", "register", key, connection], standalone_mode=False)


if __name__ == "__main__":
    main()
