"""An asynchronous run that is killed at any record of its clock ends as one that was not."""

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim import run
from fedsim.network.agenda import Agenda, Record
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
            "controller": "noise(2)",
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


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_at_drawn_instants(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
