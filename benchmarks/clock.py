"""What simulated time costs: processor time of the clock beside that of the whole rounds.

    python benchmarks/clock.py [--rounds 5] [--json FILE]

The digits, sbc(0.05) up and raw down, five local iterations per round. The clock is all that
`fedsim.federation.rounds` does: who is asked and drops out, when messages arrive, what a row
says.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from fedsim import RunConfig, run
from fedsim.federation.rounds import Rounds

NETWORK = "up=lognormal(1Mbit, 1), down=5Mbit, latency=85ms, compute=lognormal(50ms, 0.5)"
CASES: dict[str, dict[str, Any]] = {
    "4 clients": {"clients": 4},
    "100 of 1,000, deadline, dropout": {
        "clients": 1000,
        "cohort": 100,
        "deadline": "1s",
        "dropout": 0.1,
        "partition": "iid",
    },
    "100 of 1,000, a shared link": {
        "clients": 1000,
        "cohort": 100,
        "partition": "iid",
        "network": f"{NETWORK}, server_up=20Mbit",
    },
}
METHODS = ("begin", "end", "row")
TARGET = 0.02


class Spent:
    """Processor seconds in methods of a class, while it is entered."""

    def __init__(self, owner: type, names: tuple[str, ...]) -> None:
        self.owner, self.names, self.seconds = owner, names, 0.0
        self._before = {name: vars(owner)[name] for name in names}

    def __enter__(self) -> "Spent":
        for name, method in self._before.items():
            setattr(self.owner, name, self._timed(method))
        return self

    def __exit__(self, *_: object) -> None:
        for name, method in self._before.items():
            setattr(self.owner, name, method)

    def _timed(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def timed(*args: Any) -> Any:
            start = time.thread_time()
            try:
                return method(*args)
            finally:
                self.seconds += time.thread_time() - start

        return timed


def measured(settings: dict[str, Any], rounds: int) -> dict[str, float]:
    """Processor milliseconds per round: of the clock, and of everything."""
    given = {"network": NETWORK, "temporal": 5, "iterations": 5 * rounds, "seed": 1} | settings
    config = RunConfig.of(method="sbc(0.05)", evaluate_every=rounds, checkpoint_every=1000, **given)
    with tempfile.TemporaryDirectory() as folder, Spent(Rounds, METHODS) as spent:
        marks: list[float] = []
        run(config, Path(folder), callbacks=[lambda row: marks.append(time.process_time())])
    whole = (marks[-2] - marks[0]) / (rounds - 2)  # the first compiles, the last evaluates
    clock = spent.seconds / rounds
    return {"clock_ms": 1e3 * clock, "round_ms": 1e3 * whole, "share": clock / whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    results = {name: measured(settings, given.rounds) for name, settings in CASES.items()}
    for name, result in results.items():
        verdict = "" if result["share"] < TARGET else f" (target: below {TARGET:.0%})"
        share = f"{result['clock_ms']:.2f} of {result['round_ms']:.0f} ms, {result['share']:.2%}"
        print(f"{name}: {share}{verdict}")
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
