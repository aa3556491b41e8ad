"""Inputs that failed once, or that a mend was written against, are tried again: ``tests/corpus``.

payloads: bytes for a method's decoder. replies: what a client changes in its reply. twin: drawn
cases in which fedsim and the slow twin differed. crashes: a command's file operation and its fault.
An input that fails gets its line there, with the mend.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from compressors import PayloadError
from tests.strategies.test_hostile_replies import STRATEGIES, check, cut, one, put
from tests.support.crashing import Trial
from tests.support.generators import decoded
from tests.support.twin.cases import case, features
from tests.support.twin.compare import differences

CHANGES = {"put": put, "cut": cut}


def corpus(name: str) -> list[Any]:
    """The lines of one file."""
    found: list[Any] = json.loads(Path(__file__).with_name("corpus").joinpath(name).read_bytes())
    return found


@pytest.mark.parametrize("line", corpus("payloads.json"), ids=lambda line: line["why"])
def test_a_payload_is_refused(line: dict[str, Any]) -> None:
    template = {name: torch.empty(shape) for name, shape in line["like"].items()}
    with pytest.raises(PayloadError, match=line["refused"]):
        decoded(line["method"], bytes.fromhex(line["payload"]), template)


@pytest.mark.parametrize("name", STRATEGIES)
def test_replies(name: str) -> None:
    for line in corpus("replies.json"):
        changes = [CHANGES[kind](tuple(field), *more) for kind, field, *more in line["changes"]]
        check(name, [one(changes, line["order"], line["twice"])])


@pytest.mark.parametrize("number", [line["case"] for line in corpus("twin.json")])
def test_fedsim_equals_the_twin(number: int, tmp_path: Path) -> None:
    settings = case(number, tmp_path)
    assert not differences(settings, tmp_path), [str(settings), *features(settings)]


@pytest.mark.slow
@pytest.mark.parametrize("line", corpus("crashes.json"), ids=lambda line: line["why"])
def test_the_same_command_ends_as_undisturbed(line: dict[str, str], tmp_path: Path) -> None:
    trial = Trial(line["command"], tmp_path)
    trial.meets(line["fault"], trial.operations.index(line["operation"]) + 1)
