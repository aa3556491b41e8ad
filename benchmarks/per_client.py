"""What a client costs in a round when its training costs nothing: calls of Python, milliseconds.

    python benchmarks/per_client.py [--clients 64] [--rounds 20] [--method "sbc(0.01)"] [--profile]

The digits, all clients in every round, one worker of the engine local. Every client's training
returns the same update and the same momentum at once; all else is what a run does: requests,
messages, masking, replies, the server's step, digests and the rows of the tables. The model is
scored after the last round, which is not counted.

A call is what ``cProfile`` counts, of Python and of C.
Numbers of calls are the same on every machine. The milliseconds are those of rounds without the
profiler: the median over the rounds. Both are divided by the number of clients.
"""

import argparse
import pstats
import time
from cProfile import Profile
from dataclasses import dataclass
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from fedsim import RunConfig
from fedsim.federation.trainer import Trainer
from fedsim.runs.stepping import Federation
from strategies import TrainResult

WARM = 3
"""Rounds before any is counted: kernels, caches, and clients' first messages."""


@dataclass(frozen=True)
class Cost:
    """What a client costs in a round.

    Attributes:
        calls: of Python and of C.
        milliseconds: of rounds without the profiler.
    """

    calls: float
    milliseconds: float


def stub(trainer: Trainer, *job: Any, **rest: Any) -> TrainResult:
    """In the place of ``Trainer.train``: the same update and momentum for every job."""
    generator = torch.Generator().manual_seed(0)
    known = _RESULTS.get(trainer)
    if known is None:
        update = {n: torch.randn(x.shape, generator=generator) for n, x in trainer.template.items()}
        momentum = {f"momentum_buffer/{n}": x.clone() for n, x in update.items()}
        known = _RESULTS[trainer] = TrainResult(update, momentum, 1.0)
    return known


_RESULTS: dict[Trainer, TrainResult] = {}


def config(clients: int, rounds: int, method: str, **settings: Any) -> RunConfig:
    """The run of so many clients; the warm rounds and the last, scored one come on top."""
    return RunConfig.of(
        task="digits",
        method=method,
        temporal=1,
        iterations=WARM + rounds + 1,
        clients=clients,
        evaluate_every=WARM + rounds + 1,
        **settings,
    )


def measure(run: RunConfig, profile: Profile | None = None) -> Cost:
    """The cost of a client in a round of ``run``.

    Args:
        run: as ``config`` makes it.
        profile: what counts the calls.
    """
    rounds, clients = run.plan.rounds - WARM - 1, run.plan.cohort
    profile = profile or Profile()

    def steps(federation: Federation, count: int) -> list[float]:
        seconds = []
        for _ in range(count):
            start = time.perf_counter()
            federation.round()
            seconds.append(time.perf_counter() - start)
        return seconds

    with patch.object(Trainer, "train", stub):
        with Federation(run) as federation:
            steps(federation, WARM)
            seconds = steps(federation, rounds)
        with Federation(run) as federation:
            steps(federation, WARM)
            with profile:
                steps(federation, rounds)
    calls = sum(entry.callcount for entry in profile.getstats())
    return Cost(calls / (rounds * clients), 1e3 * median(seconds) / clients)


def main(given: list[str] | None = None) -> None:
    """Prints the cost of a client in a round."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--method", default="sbc(0.01)")
    parser.add_argument("--profile", action="store_true", help="print where the time goes, too")
    asked = parser.parse_args(given)
    if min(asked.clients, asked.rounds) < 1:
        parser.error("--clients and --rounds are whole numbers from 1")
    profile = Profile()
    cost = measure(config(asked.clients, asked.rounds, asked.method), profile)
    print(f"| {asked.method} | calls | ms |\n| --- | ---: | ---: |")
    print(f"| per client and round | {cost.calls:.0f} | {cost.milliseconds:.3f} |")
    if asked.profile:
        stats = pstats.Stats(profile)
        stats.sort_stats("tottime").print_stats(60)
        stats.sort_stats("cumtime").print_stats(120)


if __name__ == "__main__":
    main()
