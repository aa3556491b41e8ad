"""``flwr run`` with the commands of docs/flower-engine.md: the same results as the local engine."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsim import run
from fedsim.engines.deploy import ports
from fedsim.settings.config import from_toml
from fedsim.tasks.pack_cifar import pack
from tests.support.images import arrays
from tests.support.markdown import ROOT, blocks
from tests.support.runs import OWN, assert_same

pytestmark = [pytest.mark.processes]

SECONDS = 600
BIN = Path(sys.executable).parent
FLWR = shutil.which("flwr", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What git would give a user, and nothing else."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout: what belongs to it is not known")
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, capture_output=True, check=True
    )
    copy = tmp_path / "checkout"
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def processes() -> dict[int, str]:
    """The command line of every process."""
    if Path("/proc/self/cmdline").exists():
        commands = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                text = (folder / "cmdline").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            commands[int(folder.name)] = text.replace(b"\0", b" ").decode(errors="replace")
        return commands
    listed = subprocess.run(["ps", "-axo", "pid=,args="], capture_output=True, text=True)
    rows = (line.split(None, 1) for line in listed.stdout.splitlines())
    return {int(row[0]): row[1] for row in rows if len(row) == 2}


def superlinks(home: Path) -> list[int]:
    """The SuperLinks that keep their state below ``home``."""
    return [p for p, line in processes().items() if "superlink" in line and str(home) in line]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Flower home and ports of its own; its SuperLink, and no other, is stopped in the end."""
    home = tmp_path / "flower-home"
    home.mkdir()
    http, control = ports.free_ports(2)
    yield os.environ | {
        "FLWR_HOME": str(home),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(http),
        "FLWR_LOCAL_CONTROL_API_PORT": str(control),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    for sign in (signal.SIGTERM, signal.SIGKILL):
        for process in superlinks(home):
            os.kill(process, sign)
        end = time.monotonic() + 10
        while superlinks(home) and time.monotonic() < end:
            time.sleep(0.2)
    assert not superlinks(home)


def typed(script: str, checkout: Path, environment: dict[str, str], out: Path) -> dict[str, Any]:
    """The summary that a page's commands leave in ``out``."""
    assert str(out) in script
    done = subprocess.run(
        ["bash", "-ec", script],
        cwd=checkout,
        env=environment,
        timeout=SECONDS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (out / "summary.json").exists(), done.stdout + done.stderr
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "done" and summary["engine"] == "flower", done.stdout
    return dict(summary)


def assert_as_local(summary: dict[str, Any], out: Path, here: Path) -> None:
    """The same numbers and weights as on the local engine."""
    local = run(from_toml(out / "config.toml").but(engine="local"), here).summary
    assert_same(here, out)
    assert {k: v for k, v in local.items() if k not in OWN} == {
        k: v for k, v in summary.items() if k not in OWN
    }


BLOCKS = [b.text for b in blocks(ROOT / "docs" / "flower-engine.md") if "flwr run" in b.text]


@pytest.mark.slow
@pytest.mark.skipif(FLWR is None, reason="the command flwr is not there")
def test_flwr_run(checkout: Path, environment: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    script = BLOCKS[0].replace("/tmp/flower-run", str(out))
    summary = typed(script, checkout, environment, out)
    config = from_toml(out / "config.toml")
    assert (config.temporal, config.plan.iterations, config.gradient) == (10, 20, 0.05)
    assert_as_local(summary, out, tmp_path / "local")


@pytest.mark.proof
@pytest.mark.skipif(FLWR is None, reason="the command flwr is not there")
def test_flwr_run_of_a_model_with_buffers(
    checkout: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    """The page's other command, on made-up images; before it what the page says to set."""
    out, data = tmp_path / "out", tmp_path / "data"
    data.mkdir()
    pack(data / "cifar10.npz", **arrays(200, 120), source="made up")
    script = BLOCKS[1].replace("/tmp/flower-buffers", str(out)).replace("DIR", str(data))
    before = BLOCKS[0][: BLOCKS[0].index("flwr run")]
    summary = typed(before + script, checkout, environment, out)
    config = from_toml(out / "config.toml")
    assert (config.training.buffers, config.training.precision) == ("local", "bfloat16")
    assert config.evaluation.test_samples == 100
    assert config.clients.partition == "dirichlet(0.5)"
    assert summary["up_buffer_bits"] > 0 == summary["down_buffer_bits"]
    assert_as_local(summary, out, tmp_path / "local")
