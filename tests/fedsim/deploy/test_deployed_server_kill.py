"""A deployment whose server is killed: the same command goes on, and nothing that was sent is lost.

All that comes out is what the local engine makes of the same settings, to the bit, so that what was
trained is applied, held back or pending there and here (``tests/fedsim/runs/test_at_nodes.py``).
"""

import random
from pathlib import Path

import pytest

from tests.support.deploykills import KINDS, Kill, assert_as_local, deploy, rounds_kept
from tests.support.faults import told

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def log(out: Path) -> str:
    """What the command has said."""
    return out.with_name(f"{out.name}.log").read_text()


def test_app_and_superlink_are_killed_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert deploy(out, 4, Kill("the server's app", 1.0, "round 1/")).returncode == 1
    assert "fedsim: the server's app was killed; its log: " in log(out)
    first = rounds_kept(out)
    assert log(out).endswith(f"the same command goes on with round {first + 1}\n") and first >= 1
    kill = Kill("the SuperLink and two SuperNodes", 1.0, f"round {first + 1}/")
    assert deploy(out, 4, kill).returncode == 1
    assert "fedsim: during the run the SuperLink was killed (SIGKILL); its log: " in log(out)
    assert rounds_kept(out) > first
    second = rounds_kept(out)
    assert deploy(out, 4).returncode == 0
    said = [line.split(" · ")[0] for line in log(out).splitlines() if line.startswith("round ")]
    assert said == [f"round {n}/4" for n in range(second + 1, 5)]
    assert_as_local(out)


@pytest.mark.proof
def test_everything_is_killed_once(tmp_path: Path) -> None:
    """Each within a second of a round's end: a quick machine is not done with the run by then."""
    draw, out, rounds = random.Random(4), tmp_path / "out", 10
    for what in KINDS:
        kill = Kill(what, draw.uniform(0, 0.8), f"round {max(0, rounds_kept(out)) + 1}/")
        ended = deploy(out, rounds, kill)
        assert ended.struck and ended.returncode != 0
    assert deploy(out, rounds).returncode == 0
    assert_as_local(out)
    told("all killed", "once each", len(KINDS))
