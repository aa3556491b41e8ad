"""``fedsim schema``: the settings of a run as a JSON schema, for editors and programs."""

import argparse
from collections.abc import Iterable
from typing import Any

from fedsim.commands.output import print_document
from fedsim.settings.contents import CONTENT, START
from fedsim.settings.declarations import ABOVE_ZERO, Setting, declared
from fedsim.settings.fields import GROUPS, SETTINGS
from fedsim.settings.versions import KEY

_TYPES = {
    "int": "integer",
    "float": "number",
    "str": "string",
    "bool": "boolean",
    "Network": "object",
}


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
    print_document(schema())
    return 0


def schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of what ``fedsim run --config FILE.toml`` takes.

    It knows types, groups, lists of words and numbers above 0. fedsim alone knows which settings
    go together.

    Example:
        >>> schema()["properties"]["training"]["properties"]["lr"]["exclusiveMinimum"]
        0
    """
    ungrouped = (s for s in SETTINGS.values() if not s.group)
    properties = _properties(ungrouped)
    for name, kind in GROUPS.items():
        table = {
            "type": "object",
            "properties": _properties(declared(kind, name)),
            "additionalProperties": False,
        }
        plain = properties.get(name)  # a plain value stands for the group
        properties[name] = table if plain is None else {"anyOf": [table, plain]}
    for written in (CONTENT, START):
        properties[written] = {"type": "object"}
    properties[KEY] = {"type": "string", "description": "of the fedsim that wrote the file"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "fedsim: a run",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }


def _properties(settings: Iterable[Setting]) -> dict[str, Any]:
    """By field, with ``-`` for ``_`` too, as files may have it."""
    properties: dict[str, Any] = {}
    for one in settings:
        properties |= dict.fromkeys((one.attr, one.attr.replace("_", "-")), _property(one))
    return properties


def _property(one: Setting) -> dict[str, Any]:
    kinds = [_TYPES[kind] for kind in one.kind.split(" | ") if kind in _TYPES]
    entry: dict[str, Any] = {"description": f"{one.help} ({one.flag})"}
    if kinds:
        entry["type"] = kinds if len(kinds) > 1 else kinds[0]
    if one.default is not None:
        entry["default"] = one.default
    if one.rule is ABOVE_ZERO:
        entry["exclusiveMinimum"] = 0
    if one.rule is not None and one.rule.allowed:
        entry["enum"] = list(one.rule.allowed)
    return entry
