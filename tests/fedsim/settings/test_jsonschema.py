"""The JSON schema of settings takes what fedsim writes, and refuses what it refuses."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fedsim.commands.schema import schema
from fedsim.settings.fields import SETTINGS
from tests.support.commands import Typed, document

KEPT = sorted((Path(__file__).parents[2] / "kept").rglob("config.toml"))


def faults(values: dict[str, Any]) -> list[str]:
    return [error.message for error in Draft202012Validator(schema()).iter_errors(values)]


def test_every_file_that_fedsim_wrote_fits() -> None:
    assert len(KEPT) > 5
    for path in KEPT:
        assert faults(tomllib.loads(path.read_text())) == [], path


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("temporl = 3", "temporl"),
        ("temporal = 'x'", "'x'"),
        ("[training]\nlr = 0", "0"),
        ("[machine]\nengine = 'fast'", "'fast'"),
        ("lr = 0.1", "lr"),
        ("temporal = true", "True"),
    ],
)
def test_what_fedsim_refuses_does_not_fit(text: str, named: str) -> None:
    (fault,) = faults(tomllib.loads(text))
    assert named in fault


def test_it_is_printed_and_knows_every_setting(typed: Typed) -> None:
    said = document(typed("schema").out)
    groups = {name: x["properties"] for name, x in said["properties"].items() if "properties" in x}
    for setting in SETTINGS.values():
        assert setting.attr in groups.get(setting.group, said["properties"])
    assert faults(tomllib.loads("network = {up = '5Mbit'}\n[training]\nbatch-size = 8")) == []
