"""Whether a long run stays as it began: its memory and its rounds, stretch by stretch.

    python benchmarks/soak.py [--rounds 10000] [--every 500]

The digits, four clients, sbc(0.01) after every local iteration both ways, one worker, with a folder
and a checkpoint per stretch, as ``fedsim run`` carries it out. Seconds are of the processor, the
median of a stretch's rounds and their sum, which holds checkpoints and evaluations; memory is the
process's own at the end of a stretch, without pages of libraries' files, which the kernel drops.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from measuring import memory

from fedsim import Callback, RunConfig, run


class Watch(Callback):
    """A row per stretch of ``every`` rounds."""

    def __init__(self, every: int) -> None:
        self.every, self.rows, self._seconds = every, list[dict[str, float]](), list[float]()
        self._at = time.process_time()

    def round(self, row: Mapping[str, Any]) -> None:
        now = time.process_time()
        self._seconds.append(now - self._at)
        self._at = now
        if len(self._seconds) < self.every:
            return
        self.rows.append(
            {
                "rounds": int(row["round"]),
                "round_ms": round(1e3 * median(self._seconds), 2),
                "stretch_seconds": round(sum(self._seconds), 1),
                "own_mb": round(memory("RssAnon") / 1e6, 1),
            }
        )
        print(*self.rows[-1].values(), sep="\t", flush=True)
        self._seconds.clear()


def measure(rounds: int, every: int) -> list[dict[str, float]]:
    """The rows of a run of so many rounds."""
    config = RunConfig.of(
        task="digits",
        method="sbc(0.01)",
        downlink="sbc(0.05)",
        temporal=1,
        iterations=rounds,
        evaluate_every=every,
        workers=1,
        checkpoint_every=every,
    )
    watch = Watch(every)
    with tempfile.TemporaryDirectory() as folder:
        run(config, Path(folder) / "run", progress=False, callbacks=[watch])
    return watch.rows


def main() -> None:
    """Prints the table as it grows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--every", type=int, default=500)
    asked = parser.parse_args()
    print("rounds", "round_ms", "stretch_seconds", "own_mb", sep="\t")
    measure(asked.rounds, asked.every)


if __name__ == "__main__":
    main()
