"""Commands whose file operations fail, are cut, or never happen: the same command ends as ever."""

import random
from pathlib import Path

import pytest

from tests.support.crashing import COMMANDS, Trial, tries

pytestmark = pytest.mark.slow

SAMPLE = {"run": 10, "extension": 3, "sweep": 3, "search": 3}
"""How many operations of a command the gate tries, drawn with a seed."""


@pytest.mark.parametrize("name", SAMPLE)
def test_some_operations(name: str, tmp_path: Path) -> None:
    trial = Trial(name, tmp_path)
    for fault, at in random.Random(name).sample([*tries(trial.operations)], SAMPLE[name]):
        trial.meets(fault, at)


@pytest.mark.proof
@pytest.mark.parametrize("name", COMMANDS)
def test_every_operation(name: str, tmp_path: Path) -> None:
    trial = Trial(name, tmp_path)
    assert not [why for *_, why in trial.all([*tries(trial.operations)]) if why]
