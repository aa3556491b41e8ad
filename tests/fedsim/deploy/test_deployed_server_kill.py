"""``fedsim deploy`` with real processes: the bits and weights of the local engine, nothing left.

The server is killed: the same command goes on, and nothing that was sent is lost. All that comes
out is what the local engine makes of the same settings, to the bit, so that what was trained is
applied, held back or pending there and here (``tests/fedsim/runs/test_at_nodes.py``).
"""

import random
from pathlib import Path

import pytest

from fedsim import RunConfig, run
from fedsim.results.load import load_results
from tests.support.deploykills import (
    KINDS,
    Kill,
    assert_as_local,
    deploy,
    private_folder,
    rounds_kept,
)
from tests.support.faults import told
from tests.support.polling import quick_polls

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.usefixtures(quick_polls.__name__),
]


def log(out: Path) -> str:
    """What the command has said."""
    return out.with_name(f"{out.name}.log").read_text()


def test_app_and_superlink_are_killed_and_the_same_command_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(RunConfig(iterations=10), tmp_path / "before")
    start = ("--weights", str(tmp_path / "before" / "model.safetensors"))
    assert deploy(out, 4, Kill("the server's app", 0.5, "round 1/"), *start).returncode == 1
    assert "fedsim: the server's app was killed; its log: " in log(out)
    first = rounds_kept(out)
    assert log(out).endswith(f"the same command goes on with round {first + 1}\n") and first >= 1
    assert_stopped(out)
    kill = Kill("the SuperLink and two SuperNodes", 0.5, f"round {first + 1}/")
    assert deploy(out, 4, kill, *start).returncode == 1
    assert "fedsim: during the run the SuperLink was killed (SIGKILL); its log: " in log(out)
    assert rounds_kept(out) > first
    second = rounds_kept(out)
    assert deploy(out, 4, None, *start).returncode == 0
    said = [line.split(" · ")[0] for line in log(out).splitlines() if line.startswith("round ")]
    assert said == [f"round {n}/4" for n in range(second + 1, 5)]
    assert_as_local(out)
    assert_stopped(out)
    assert (out / "report.html").exists() and list(load_results(out).runs["status"]) == ["done"]


def assert_stopped(out: Path) -> None:
    """No process has a path in the deployment's private folder, which is empty."""
    private = private_folder(out)
    assert list(private.iterdir()) == []
    lines = [
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
    ]
    assert not [line for line in lines if str(private) in line]


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
