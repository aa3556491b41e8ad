"""Deployments whose parts are killed at given instants, and the same command again.

    python -m tests.support.deploykills --kills 15 --seed 3 --out FOLDER

kills parts of a deployment at seeded instants until so many kills are done, compares what comes out
with the run on the local engine, and writes a row for each kill into ``FOLDER/kills.csv``. A kill
that came when the run was over is none. ``docs/kills.csv`` has the rows of every seed.
"""

import argparse
import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fedsim import run
from fedsim.settings.config import from_toml
from tests.support.runs import OWN, assert_same

KINDS: dict[str, tuple[str, ...]] = {
    "the server's app": ("app",),
    "the SuperLink": ("link",),
    "two of three SuperNodes": ("nodes",),
    "the app and two SuperNodes": ("app", "nodes"),
    "the SuperLink and two SuperNodes": ("link", "nodes"),
    "the command, and all with it": ("command",),
}
"""What is killed, at the same moment."""

_PROGRAMS = {"app": "flwr-serverapp", "link": "flower-superlink", "nodes": "flower-supernode"}
_WAIT_SECONDS = 900.0


@dataclass(frozen=True)
class Kill:
    """``what`` of ``KINDS`` is killed ``seconds`` after a line of the command with ``line``."""

    what: str
    seconds: float
    line: str = "the app starts"


def settings(rounds: int) -> list[str]:
    """Of a run whose replies are waited for no longer than three minutes, on a busy machine."""
    return [
        "--clients", "3", "--iterations", str(2 * rounds), "--temporal", "2", "--gradient", "0.05",
        "--downlink", "sbc(0.5)", "--evaluate-every", "1", "--keep-payloads", "--timeout", "180",
    ]  # fmt: skip


@dataclass
class Deployed:
    """A command that has ended.

    Attributes:
        returncode: what it ended with.
        struck: the processes that were killed; 0: the run was over before.
    """

    returncode: int
    struck: int = 0


def private_folder(out: Path) -> Path:
    """Where the programs of a deployment have their temporary files."""
    return out.parent / f"{out.name}-private"


def deploy(out: Path, rounds: int, kill: Kill | None = None, *flags: str) -> Deployed:
    """The command, which has ended; ``kill`` has come meanwhile, unless the run was over before."""
    private = private_folder(out)
    private.mkdir(parents=True, exist_ok=True)
    log = out.parent / f"{out.name}.log"
    with log.open("w") as said:
        command = [sys.executable, "-m", "fedsim", "deploy", *settings(rounds), *flags]
        command += ["--out", str(out)]
        process = subprocess.Popen(
            command,
            env=os.environ | {"TMPDIR": str(private)},
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    until, struck = time.monotonic() + _WAIT_SECONDS, 0
    if kill is not None:
        while process.poll() is None and kill.line not in log.read_text():
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        with suppress(subprocess.TimeoutExpired):
            process.wait(kill.seconds)
        struck = strike(process, private, KINDS[kill.what])
    process.wait(_WAIT_SECONDS)
    while _running(private):  # a command that was killed takes its groups along
        assert time.monotonic() < until + _WAIT_SECONDS
        time.sleep(0.1)
    return Deployed(process.returncode, struck)


def strike(process: "subprocess.Popen[str]", private: Path, parts: Sequence[str]) -> int:
    """Kills parts of the deployment of ``process``; a SuperNode with what it has started.

    Returns: how many processes were there to be killed; 0: one of the parts was not.
    """
    if "command" in parts:
        alive = process.poll() is None
        process.kill()
        return int(alive)
    found = _running(private)
    while not any(_PROGRAMS["app"] in line for line in found.values()) and process.poll() is None:
        time.sleep(0.1)
        found = _running(private)
    struck = dict.fromkeys(parts, 0)
    for part in parts:
        pids = sorted(pid for pid, line in found.items() if _PROGRAMS[part] in line)
        for pid in pids[:2] if part == "nodes" else pids:
            with suppress(ProcessLookupError):
                (os.killpg if part == "nodes" else os.kill)(pid, signal.SIGKILL)
                struck[part] += 1
    return sum(struck.values()) if all(struck.values()) else 0


def _running(private: Path) -> dict[int, str]:
    """Processes whose TMPDIR is ``private``, the command itself left out, with their lines.

    A program's own process, not the shell's or the interpreter's that a program starts.
    """
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if f"TMPDIR={private}".encode() in environment and "fedsim deploy" not in line:
                if line.startswith("sh "):  # which ends the group with the command
                    continue
                found[int(folder.name)] = line
    return found


def rounds_kept(out: Path) -> int:
    """The round of the last checkpoint; -1: there is none."""
    return max((int(p.name.rpartition("-")[2]) for p in out.glob("checkpoint-*")), default=-1)


def assert_as_local(out: Path) -> None:
    """Messages, rows and model are those of the local engine, and nodes remember nothing."""
    local = out.parent / f"{out.name}-local"
    shutil.rmtree(local, ignore_errors=True)
    config = from_toml(out / "config.toml").but(engine="local")
    here = run(config, local, progress=False).summary
    there = json.loads((out / "summary.json").read_text())
    assert_same(local, out)
    assert {k: v for k, v in here.items() if k not in OWN} == {
        k: v for k, v in there.items() if k not in OWN
    }
    assert not [path for path in (out / "nodes").rglob("*") if path.is_file()]


def drawn(draw: random.Random, what: str, kept: int) -> Kill:
    """A kill within a minute of the app's start, or within seconds of the end of a round to come.

    Args:
        draw: where instants come from.
        what: of ``KINDS``.
        kept: the last round that is done, or -1.
    """
    if draw.random() < 0.5:
        return Kill(what, round(draw.uniform(0, 60), 1))
    return Kill(what, round(draw.uniform(0, 5), 1), f"round {max(kept, 0) + draw.randint(1, 4)}/")


def main() -> None:
    """Kills, goes on, compares, writes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    draw, kinds = random.Random(given.seed), [*KINDS] * -(-given.kills // len(KINDS))
    draw.shuffle(kinds)
    kinds, rows, number = kinds[: given.kills], list[dict[str, str | int | float]](), 0
    while kinds:
        number += 1
        out, kills = given.out / f"run-{number}", list[dict[str, str | int | float]]()
        while kinds and rounds_kept(out) < given.rounds - 2 and not (out / "summary.json").exists():
            before = rounds_kept(out)
            kill = drawn(draw, kinds[-1], before)
            ended = deploy(out, given.rounds, kill)
            said = (given.out / f"{out.name}.log").read_text().splitlines()[-2:]
            code, after = ended.returncode, rounds_kept(out)
            print(f"{kill}: {ended}, round {before} -> {after}; {said}", flush=True)
            # Flower starts an app again that was killed before it had taken its run: exit 0.
            assert code == 0 or after >= before or (out / "summary.json").exists()
            if ended.struck:
                kinds.pop()
                kills.append(
                    {
                        "seed": given.seed,
                        "run": number,
                        "killed": kill.what,
                        "seconds": kill.seconds,
                        "after": kill.line,
                        "processes": ended.struck,
                        "rounds_before": max(before, 0),
                        "exit": code,
                    }
                )
        equal = "yes"
        try:
            assert deploy(out, given.rounds).returncode == 0, out
            assert_as_local(out)
        except AssertionError as error:
            equal = "no"
            print(error, flush=True)
        print(f"{out.name}: equal to the local engine: {equal}", flush=True)
        rows += [kill | {"equal": equal} for kill in kills]
        if rows:
            with (given.out / "kills.csv").open("w", newline="") as file:
                writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
    sys.exit(any(row["equal"] == "no" for row in rows))


if __name__ == "__main__":
    main()
