"""``kill -9`` of a sweep whose model has BatchNorm: its statistics go on where they were."""

from pathlib import Path

import pandas as pd
import pytest

from tests.support.faults import told
from tests.support.killing import Sweep

pytestmark = [pytest.mark.proof, pytest.mark.processes]

BITS = 32 * 16 + 24  # of eight means, eight variances and a header


def sweep_with(buffers: str) -> Sweep:
    """Clients come and go and follow the model by its updates: each has its own memory."""
    return Sweep(
        [
            "--task",
            "digits_bn",
            "--buffers",
            buffers,
            "--temporal",
            "2,4",
            "--gradient",
            "0.1",
            "--cohort",
            "3",
            "--downlink",
            "sbc(0.2)",
            "--evaluate-every",
            "4",
            "--checkpoint-every",
            "3",
            "--keep-payloads",
        ],
        24,
        ["n1-p1-s0", "n2-p0.1-s0", "n4-p0.1-s0"],
        before="import tests.support.normeddigits\n",
    )


@pytest.mark.parametrize("buffers", ["mean", "local"])
def test_killed_with_buffers(buffers: str, tmp_path: Path) -> None:
    """One instant a cell, one of them inside a checkpoint; weights, buffers and messages."""
    sweep, whole, killed = sweep_with(buffers), tmp_path / "whole", tmp_path / "killed"
    ended = sweep.run(whole)
    assert ended.returncode == 0, ended.stderr
    sweep.run_killed(killed, sweep.instants(1))
    sweep.assert_equal(whole, killed)
    runs = pd.read_parquet(killed / "summary.parquet")
    asked = {"mean": [24, 12, 6], "local": [6, 3, 2]}[buffers]  # rounds: all, or those evaluated
    assert runs.sort_values("temporal")["up_buffer_bits"].tolist() == [BITS * n for n in asked]
    assert (runs["down_buffer_bits"] > 0).all() == (buffers == "mean")
    told("kill -9", f"sweep with buffers, {buffers}", len(sweep.instants(1)))
