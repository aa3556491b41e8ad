"""What the command line takes before it says anything: seconds and memory of new processes.

    python benchmarks/startup.py

Prints a row a command: the median of five times from start to end, and the largest memory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
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
