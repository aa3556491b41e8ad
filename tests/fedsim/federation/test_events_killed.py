"""An asynchronous run that is killed at any record of its clock ends as one that was not."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from fedsim import run
from fedsim.network.agenda import Agenda, Record
from fedsim.settings.controllers import CONTROLLERS, Action, Memory, Observation
from tests.support.asyncruns import ASYNC, asynchronous
from tests.support.interrupting import Stopped
from tests.support.runs import assert_same

INSTANTS = int(os.environ.get("FEDSIM_KILLS", "5"))
"""Of each kind."""
DEADLINE = {"deadline": "90ms", "dropout": "before=0.1, after=0.2"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in ASYNC},
    "hold": ("fedbuff", {**DEADLINE, "late": "hold", "availability": "onoff(1s, 0.2s)"}),
    "drop": ("fedasync", {**DEADLINE, "late": "drop", "cohort": 2, "ask": 3}),
    "controlled": (
        "fedbuff",
        {
            **DEADLINE,
            "late": "count",
            "controller": "turns",
            "method": "sbc({p})",
            "gradient": 0.02,
        },
    ),
    "sharded, away": (
        "sharded",
        {
            "availability": "onoff(1s, 0.2s)",
            "dropout": "before=0.1, after=0.2",
            "cohort": 2,
            "ask": 3,
            "iterations": 9,
        },
    ),
    "sharded, late": ("sharded", {**DEADLINE, "late": "hold", "iterations": 9}),
    "count": ("fedbuff", {**DEADLINE, "late": "count", "availability": 0.7}),
}


@dataclass(frozen=True)
class Turns:
    """n and p by the digits of the cosine of successive changes of the model."""

    needs: ClassVar[tuple[str, ...]] = ("agreement",)
    moves: ClassVar[tuple[str, ...]] = ("n", "p")

    def choose(self, observation: Observation, memory: Memory) -> tuple[Action, Memory]:
        digits = int(1000 * abs(observation.agreement or 0.0))
        return Action(1 + digits % 4, 0.02 + 0.01 * (digits % 2)), {}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_at_drawn_instants(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CONTROLLERS, "turns", SimpleNamespace(cls=Turns, example="turns"))
    name, more = KINDS[kind]
    config = asynchronous(name, checkpoint_every=1, downlink="sbc(0.1)", seed=3, **more)
    taken, last, take = 0, 0, Agenda.next

    def counting(agenda: Agenda) -> Record:
        nonlocal taken
        taken += 1
        if taken == last:
            raise Stopped
        return take(agenda)

    monkeypatch.setattr(Agenda, "next", counting)
    run(config, tmp_path / "whole", progress=False)
    every, out = taken, tmp_path / "killed"
    for number in np.random.default_rng(5).integers(1, every + 1, INSTANTS):
        taken, last = 0, int(number)
        with pytest.raises(Stopped):
            run(config, out, progress=False)
        last = 0
        run(config, out, progress=False)
        assert_same(tmp_path / "whole", out)
        shutil.rmtree(out)
