"""What starting takes: seconds and memory of new processes.

    python benchmarks/startup.py [--repeats 5]

A row per command that says something and ends: the median from start to end, and the largest
memory.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

COMMANDS = (
    "--help",
    "--version",
    "run --help",
    "sweep --help",
    "list tasks",
    "list methods",
    "list coders",
    "list experiments",
    "swep",
    "sweep --tempral 1",
)


def once(command: str, must: bool = False) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and MB of the largest process.

    ``must``: raises ``RuntimeError`` with what it said where it fails.
    """
    with tempfile.TemporaryFile() as text:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "fedsim", *command.split()], stdout=text, stderr=text
        )
        _, status, used = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = 0  # it has been waited for
        if must and status:
            text.seek(0)
            raise RuntimeError(f"fedsim {command}: {text.read().decode()[-1000:]}")
    kilobytes = used.ru_maxrss if sys.platform != "darwin" else used.ru_maxrss / 1024
    return seconds, used.ru_utime + used.ru_stime, kilobytes / 1000


_FIRST = """
import sys, time
from pathlib import Path
from fedsim import Callback, RunConfig, run
class First(Callback):
    def round(self, row):
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        own = kib["Private_Clean"] + kib["Private_Dirty"]
        print(time.process_time(), kib["Rss"] * 1.024e-3, own * 1.024e-3)
run(RunConfig.of(method=sys.argv[1], iterations=1, temporal=1), progress=False, callbacks=[First()])
"""


def first_round(method: str, more: Mapping[str, str]) -> list[float]:
    """Processor seconds of a new process to the end of a first round, and its MB then.

    ``more``: what its environment has beside ours. Resident memory, and what is its own of it.
    """
    child = subprocess.run(
        [sys.executable, "-c", _FIRST, method],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={**os.environ, **more},
    )
    return [float(number) for number in child.stdout.split()]


def watched(command: list[str]) -> tuple[float, float, float]:
    """Seconds, processor seconds and MB of a command with all processes that it starts."""
    start, most = time.perf_counter(), 0.0
    worked: dict[int, float] = {}
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    worked[child.pid] = 0.0
    while child.poll() is None:
        most = max(most, _held(worked))
        time.sleep(0.5)
    if child.returncode:
        raise SystemExit(f"{command} ended with {child.returncode}")
    return time.perf_counter() - start, sum(worked.values()), most


def _held(worked: dict[int, float]) -> float:
    """MB that the processes of ``worked`` and their children hold; notes their processor time."""
    anonymous, files = 0.0, dict[str, int]()
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) not in worked and int(stat[1]) not in worked:
                continue
            worked[int(folder.name)] = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
            rollup, maps = ((folder / name).read_text() for name in ("smaps_rollup", "smaps"))
        except OSError:  # it has ended
            continue
        anonymous += int(rollup.partition("Pss_Anon:")[2].split()[0])
        own = dict[str, int]()
        for part in re.split(r"(?m)^(?=[0-9a-f]+-)", maps)[1:]:
            if found := re.match(r"\S+ \S+ \S+ \S+ \S+ +(/.*)", part):
                kib = [int(part.partition(f"{key}:")[2].split()[0]) for key in ("Rss", "Anonymous")]
                own[found[1]] = own.get(found[1], 0) + kib[0] - kib[1]
        files = {path: max(files.get(path, 0), own.get(path, 0)) for path in files | own}
    return (anonymous + sum(files.values())) * 1.024e-3


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    print("| command | seconds | processor seconds | MB |\n| --- | --- | --- | --- |")
    for command in COMMANDS:
        runs = [once(command) for _ in range(repeats)]
        seconds, worked = (median(run[i] for run in runs) for i in (0, 1))
        memory = max(run[2] for run in runs)
        print(f"| `fedsim {command}` | {seconds:.2f} | {worked:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
