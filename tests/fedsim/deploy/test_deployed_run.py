"""``fedsim deploy`` with real processes: the bits and weights of the local engine, nothing left."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedsim import RunConfig, run
from fedsim.results.load import load_results
from fedsim.settings.config import from_toml
from tests.support.markdown import ROOT
from tests.support.runs import OWN, assert_same

pytestmark = [pytest.mark.slow, pytest.mark.processes]

SETTINGS = [
    "--clients",
    "3",
    "--iterations",
    "6",
    "--temporal",
    "2",
    "--gradient",
    "0.05",
    "--downlink",
    "sbc(0.5)",
    "--evaluate-every",
    "1",
]


def test_a_deployed_run_is_the_local_run(tmp_path: Path) -> None:
    out, private = tmp_path / "out", tmp_path / "tmp"
    private.mkdir()
    run(RunConfig(iterations=10), tmp_path / "before")
    start = str(tmp_path / "before" / "model.safetensors")
    done = subprocess.run(
        [sys.executable, "-m", "fedsim", "deploy", *SETTINGS, "--weights", start,
         "--out", str(out)],
        cwd=ROOT, env=os.environ | {"TMPDIR": str(private)}, timeout=600,
        capture_output=True, text=True,
    )  # fmt: skip
    logs = "".join(path.read_text() for path in sorted((out / "logs").glob("*.log")))
    assert done.returncode == 0, done.stderr + logs
    told = [line.split(" · ")[0] for line in done.stderr.splitlines() if line[:6] == "round "]
    assert told == ["round 1/3", "round 2/3", "round 3/3"]
    assert (out / "report.html").exists() and list(load_results(out).runs["status"]) == ["done"]
    assert_stopped(private)
    summary = json.loads((out / "summary.json").read_text())
    local = run(from_toml(out / "config.toml").but(engine="local"), tmp_path / "local").summary
    assert_same(tmp_path / "local", out)
    assert {k: v for k, v in local.items() if k not in OWN} == {
        k: v for k, v in summary.items() if k not in OWN
    }


def assert_stopped(private: Path) -> None:
    """No process has a path in the deployment's private folder, which is gone."""
    assert list(private.iterdir()) == []
    lines = [
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
    ]
    assert not [line for line in lines if str(private) in line]
