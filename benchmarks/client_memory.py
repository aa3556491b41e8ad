"""What the memory of ten thousand LeNet5 clients costs: peak memory, and seconds of checkpoints.

    python benchmarks/client_memory.py --data DIR [--memory 2GiB] [--rounds 100] [--csv FILE]

A cohort of 100 clients, each with 100 samples of MNIST, trains with Adam and sends sbc(0.01); every
client that has trained keeps a residual and Adam's two moments, 5.2 MB. A checkpoint is written
after every tenth round (--every). The run lies in a folder of its own, which is removed at the end.
"""

import argparse
import csv
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from loops import register
from measuring import memory

from fedsim import RunConfig, run
from fedsim.runs import checkpoint
from fedsim.runs.stepping import Federation


class Timed:
    """Seconds of every checkpoint that is written, beside those of the rounds."""

    def __init__(self) -> None:
        self.save, self.seconds, self.size = checkpoint.save_checkpoint, list[float](), 0
        checkpoint.save_checkpoint = self

    def __call__(self, folder: Path, *given: Any) -> None:
        """As ``checkpoint.save_checkpoint``."""
        start = time.perf_counter()
        self.save(folder, *given)
        self.seconds.append(time.perf_counter() - start)
        self.size = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def alone(clients: int, limit: str) -> tuple[int, int]:
    """How many clients have trained in a few rounds, and the peak of bytes; in a new process.

    LeNet5 with Adam on random images, cohorts of 20, clients keep ``limit`` in RAM.
    """
    child = [sys.executable, __file__, "--alone", str(clients), "--memory", limit]
    told = subprocess.run(child, capture_output=True, text=True, check=True).stdout
    seen, peak = map(int, told.split())
    return seen, peak


def peak_after(clients: int, limit: str) -> tuple[int, int]:
    """See ``alone``, in this process."""
    config = RunConfig.of(
        task=register("adam", None, 2000),
        method="sbc(0.01)",
        temporal=1,
        iterations=9,
        clients=clients,
        cohort=20,
        partition="drawn(40)",
        memory=limit,
        evaluate_every=9,
    )
    with Federation(config) as federation:
        for _ in range(8):
            federation.round()
        return federation.clients["client"].nunique(), memory("VmHWM")


def main() -> None:
    """Runs once and prints a row; ``--csv`` adds it to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--memory", default=None)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--every", type=int, default=10, help="rounds between checkpoints")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--csv", type=Path, default=None)
    asked = parser.parse_args()
    if asked.alone:
        print(*peak_after(asked.alone, asked.memory))
        return
    if not asked.data:
        parser.error("--data names the folder of MNIST")
    own = {} if asked.memory is None else {"memory": asked.memory}
    config = RunConfig.of(
        task="mnist_lenet5",
        method="sbc(0.01)",
        temporal=1,
        iterations=asked.rounds,
        clients=asked.clients,
        cohort=100,
        partition="drawn(100)",
        batch_size=32,
        data=asked.data,
        evaluate_every=asked.rounds,
        checkpoint_every=asked.every,
        **own,
    )
    timed, folder = Timed(), Path(tempfile.mkdtemp(dir=asked.out))
    try:
        result = run(config, folder)
        seen = result.clients["client"].nunique()
        seconds = result.rounds["seconds"]
    finally:
        shutil.rmtree(folder)
    peak = memory("VmHWM")
    row = {
        "clients": asked.clients,
        "rounds": asked.rounds,
        "memory": asked.memory or "",
        "seen": seen,
        "peak_gb": round(peak / 1e9, 2),
        "file_gb": round(timed.size / 1e9, 2),
        "round_seconds": round(float(seconds.median()), 2),
        "checkpoint_seconds_first": round(timed.seconds[0], 2) if timed.seconds else "",
        "checkpoint_seconds_last": round(timed.seconds[-1], 2) if timed.seconds else "",
        "seconds": round(float(seconds.sum()), 1),
    }
    print(*(f"{name} {value}" for name, value in row.items()), sep="\n")
    if asked.csv is not None:
        new = not asked.csv.exists()
        with asked.csv.open("a", newline="") as file:
            writer = csv.DictWriter(file, row)
            writer.writerows([dict(zip(row, row, strict=True)), row] if new else [row])


if __name__ == "__main__":
    main()
