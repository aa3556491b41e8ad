"""What starting takes: seconds and memory of new processes.

    python benchmarks/startup.py
    python benchmarks/startup.py --first
    python benchmarks/startup.py --sweep "--temporal 1,10,100 --gradient 1,0.1,0.01,0.001"

The first prints a row a command that says something and ends: the median of five times from start
to end, and the largest memory.

``--first``: a run of the digits to its first round, in a process whose cache of compiled code is
empty, and in one that finds it filled. Its own memory is what no other process shares; the resident
one counts torch's libraries too.

``--sweep``: two jobs, as forked processes and as Ray tasks, in turns: the processor time of all
processes, and the most that they hold at once: anonymous pages once however many share them, and
of each file the most that one of them has in memory.
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
    "--help", "--version", "run --help", "sweep --help", "list tasks", "list methods",
    "list coders", "list experiments", "swep", "sweep --tempral 1",
)  # fmt: skip


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
        [sys.executable, "-c", _FIRST, method], check=True, text=True, stdout=subprocess.PIPE,
        env={**os.environ, **more},
    )  # fmt: skip
    return [float(number) for number in child.stdout.split()]


def first(repeats: int) -> None:
    """Prints what a first round takes, by method and cache."""
    print("| method | compiled before | processor seconds | resident, MB | own, MB |")
    print("| --- | --- | --: | --: | --: |")
    for method in ("raw", "sbc(0.01)", "qsgd(127)"):
        found: dict[str, list[list[float]]] = {"no": [], "yes": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for rows in found.values():
                    rows.append(first_round(method, {"NUMBA_CACHE_DIR": cache}))
        for compiled, rows in found.items():
            numbers = [median(column) for column in zip(*rows, strict=True)]
            print(f"| `{method}` | {compiled} | {numbers[0]:.1f} | {numbers[1]:.0f} | "
                  f"{numbers[2]:.0f} |", flush=True)  # fmt: skip


_RAY = """
from fedsim.runs import forked
forked._run_forked = lambda work, jobs, *told: forked.run_on_ray(work, jobs, None, *told)
"""
_MAIN = "from fedsim.commands.cli import script; script()"


def sweep(arguments: str, repeats: int) -> None:
    """Prints what a sweep of two jobs takes, forked and on Ray."""
    print("| jobs are | seconds | processor seconds | MB |\n| --- | --: | --: | --: |")
    for _ in range(repeats):
        for name, before in (("forked", ""), ("Ray tasks", _RAY)):
            with tempfile.TemporaryDirectory() as out:
                command = ["sweep", *arguments.split(), "--jobs", "2", "--out", f"{out}/sweep"]
                seconds, worked, most = watched([sys.executable, "-c", before + _MAIN, *command])
            print(f"| {name} | {seconds:.0f} | {worked:.1f} | {most:.0f} |", flush=True)


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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--first", action="store_true")
    parser.add_argument("--sweep", metavar="ARGUMENTS")
    flags = parser.parse_args()
    repeats = flags.repeats
    if flags.first:
        first(repeats)
    elif flags.sweep is not None:
        sweep(flags.sweep, repeats)
    else:
        told(repeats)


def told(repeats: int) -> None:
    """Prints what commands take that say something and end."""
    print("| command | seconds | processor seconds | MB |\n| --- | --- | --- | --- |")
    for command in COMMANDS:
        runs = [once(command) for _ in range(repeats)]
        seconds, worked = (median(run[i] for run in runs) for i in (0, 1))
        memory = max(run[2] for run in runs)
        print(f"| `fedsim {command}` | {seconds:.2f} | {worked:.2f} | {memory:.0f} |", flush=True)


if __name__ == "__main__":
    main()
