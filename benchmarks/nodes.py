"""What a message costs on each engine: in process, on Ray, and on Ray with two machines.

    python benchmarks/nodes.py [--clients 64] [--rounds 10] [--repeats 3] [--cohort 64]
        [--whole]

The digits, sbc(0.01) up and sbc(0.05) down every two iterations, one worker a machine. The runs
take turns, and ms are the median over the rounds after the first two: on the clock, which holds
what else the machine does, and of the processor, of the server's process alone (in process the
clients are in it), whose first round holds Ray's start. The two machines are two nodes of Ray on
this one (``ray.cluster_utils.Cluster``); in a fourth run the second is killed after half of the
rounds, unless ``--whole`` says not to. Digests of every message and model are compared before
anything is printed.
"""

import argparse
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from fedsim import RunConfig, run

_WARM = 2  # rounds before any is counted: kernels, workers
_DIGESTS = ["digest_payloads", "digest_model"]


class Times:
    """Milliseconds of a round per message, its training too: on the clock, and of this process."""

    def __init__(self, cohort: int, then: Callable[[int], None] = lambda number: None) -> None:
        self.cohort, self.then, self.rows = cohort, then, list[tuple[float, float]]()
        self._at = time.perf_counter(), time.process_time()

    def __call__(self, row: Mapping[str, Any]) -> None:
        """After a round."""
        now = time.perf_counter(), time.process_time()
        wall, processor = (1e3 * (b - a) / self.cohort for a, b in zip(self._at, now, strict=True))
        self.rows.append((wall, processor))
        self.then(int(row["round"]))
        self._at = time.perf_counter(), time.process_time()


def timed(config: RunConfig, nodes: int, kill_after: int) -> tuple[Times, Any]:
    """The times of a run, and the digests of its rounds.

    Args:
        config: what is run.
        nodes: of the cluster; 0: as the config says.
        kill_after: the round after which the last node is killed; 0: none.
    """
    cohort = config.plan.cohort
    if not nodes:
        times = Times(cohort)
        return times, run(config, progress=False, callbacks=[times]).rounds[_DIGESTS]
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    others = [cluster.add_node(num_cpus=1) for _ in range(nodes - 1)]

    def then(number: int) -> None:
        if number == kill_after:
            cluster.remove_node(others[-1], allow_graceful=False)

    try:
        times = Times(cohort, then)
        done = run(config, progress=False, callbacks=[times], ray_address=cluster.address)
        return times, done.rounds[_DIGESTS]
    finally:
        cluster.shutdown()


def measure(
    clients: int, cohort: int | None, rounds: int, repeats: int, whole: bool = False
) -> list[dict[str, Any]]:
    """A row per engine."""
    here = RunConfig.of(
        task="digits",
        method="sbc(0.01)",
        downlink="sbc(0.05)",
        temporal=2,
        partition="drawn(20)",
        iterations=2 * rounds,
        clients=clients,
        cohort=cohort,
        evaluate_every=1000,
    )
    ray, half = here.but(engine="ray"), rounds // 2
    ways = {
        "local": (here, 0, 0),
        "Ray, one machine": (ray, 1, 0),
        "Ray, two machines": (ray, 2, 0),
    }
    if not whole:
        ways["Ray, two machines, then one"] = ray, 2, half
    found: dict[str, list[Times]] = {name: [] for name in ways}
    wanted = None
    for _ in range(repeats):
        for name, way in ways.items():
            times, digests = timed(*way)
            wanted = digests if wanted is None else wanted
            if not digests.equals(wanted):
                raise SystemExit(f"{name}: its messages or models are others")
            found[name].append(times)
    rows = []
    for name, runs in found.items():
        counted = [row for times in runs for row in times.rows[_WARM:]]
        if "then" in name:  # the round in which the loss is noticed has its own number
            counted = [row for times in runs for row in times.rows[half + 1 :]]
        size = here.plan.cohort
        rows.append(
            {
                "engine": name,
                "message_ms": round(median(wall for wall, _ in counted), 2),
                "server_processor_ms": round(median(own for _, own in counted), 2),
                "first_processor_s": round(median(size * t.rows[0][1] for t in runs) / 1e3, 2),
                "loss_round_s": round(median(size * t.rows[half][0] for t in runs) / 1e3, 2)
                if "then" in name
                else "",
            }
        )
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--cohort", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="no machine is killed")
    asked = parser.parse_args()
    rows = measure(asked.clients, asked.cohort, asked.rounds, asked.repeats, asked.whole)
    print(*rows[0], sep="\t")
    for row in rows:
        print(*row.values(), sep="\t")


if __name__ == "__main__":
    main()
