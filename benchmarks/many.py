"""What a round costs, and what memory, as the federation grows and the cohort does not.

    python benchmarks/many.py [--rounds 12] [--cohort 100] [--sizes 100,1000,...]

The digits, 10^2 to 10^6 clients with 20 drawn samples each, cohorts of 100, sbc(0.01) every two
iterations, one worker, 16 MiB of RAM for what clients keep. All federations are stepped in turns in
one process, so that what else the machine does hits all of them; seconds are of the processor, the
median over the rounds after the first two. The first round, with all that is made before it, and
the peak of resident memory are those of a process of their own per federation; ``of_the_run_mb`` is
what the peak is above that of a run of a hundred clients and one round before it.
"""

import argparse
import json
import subprocess
import sys
import time
from statistics import median

from measuring import memory

from fedsim import RunConfig
from fedsim.runs.stepping import Federation

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
_WARM = 2  # rounds before any is counted: kernels, caches


def config(clients: int, rounds: int, cohort: int) -> RunConfig:
    """The run of so many clients."""
    return RunConfig.of(
        task="digits",
        method="sbc(0.01)",
        temporal=2,
        iterations=2 * rounds,
        clients=clients,
        cohort=cohort,
        partition="drawn(20)",
        memory="16MiB",
        evaluate_every=rounds,
    )


def alone(clients: int, rounds: int, cohort: int) -> dict[str, float]:
    """The first round and the peak of memory, in this process."""
    with Federation(config(100, 1, cohort)) as warm:  # imports, kernels and data are nobody's
        warm.round()
    before, start = memory("VmHWM"), time.process_time()
    with Federation(config(clients, rounds, cohort)) as federation:
        federation.round()
        first = time.process_time() - start
        while not federation.done:
            federation.round()
    peak = memory("VmHWM")
    return {
        "first_round_seconds": round(first, 2),
        "peak_mb": round(peak / 1e6, 1),
        "of_the_run_mb": round((peak - before) / 1e6, 1),
    }


def in_turns(sizes: list[int], rounds: int, cohort: int) -> dict[int, float]:
    """Processor seconds of a round by number of clients, the median."""
    federations = {clients: Federation(config(clients, rounds, cohort)) for clients in sizes}
    seconds: dict[int, list[float]] = {clients: [] for clients in sizes}
    for _ in range(rounds - 1):  # the last is scored
        for clients, federation in federations.items():
            start = time.process_time()
            federation.round()
            seconds[clients].append(time.process_time() - start)
    for federation in federations.values():
        federation.close()
    return {clients: median(times[_WARM:]) for clients, times in seconds.items()}


def table(sizes: list[int], rounds: int, cohort: int) -> list[dict[str, float]]:
    """A row per number of clients; ratios are to the first."""
    times, rows = in_turns(sizes, rounds, cohort), list[dict[str, float]]()
    for clients in sizes:
        given = ["--alone", str(clients), "--rounds", str(rounds), "--cohort", str(cohort)]
        done = subprocess.run(
            [sys.executable, __file__, *given], capture_output=True, text=True, check=True
        )
        own = {"clients": clients, "cohort": cohort, "round_seconds": round(times[clients], 3)}
        rows.append({**own, **json.loads(done.stdout)})
    for row in rows:
        for name in ("round_seconds", "peak_mb"):
            row[f"{name}_ratio"] = round(row[name] / rows[0][name], 3)
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--cohort", type=int, default=100)
    parser.add_argument("--alone", type=int, default=None, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.alone is not None:
        print(json.dumps(alone(asked.alone, asked.rounds, asked.cohort)))
        return
    rows = table([int(size) for size in asked.sizes.split(",")], asked.rounds, asked.cohort)
    print(*rows[0], sep="\t")
    for row in rows:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
