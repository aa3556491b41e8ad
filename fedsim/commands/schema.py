"""``fedsim schema``: the settings of a run as a JSON schema."""

import argparse
from typing import Any

from fedsim.commands.document import print_document
from fedsim.settings.jsonschema import schema


def add_schema(commands: Any) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "schema",
        help="print a JSON schema of all settings",
        description="Prints a JSON schema of a run's file of settings. An editor that knows TOML "
        "completes and checks by it: `fedsim schema > run.schema.json`, and "
        "`#:schema run.schema.json` in the first line of run.toml.",
    )
    parser.set_defaults(command=_command)


def _command(flags: argparse.Namespace) -> int:
    """Prints the schema."""
    print_document(schema())
    return 0
