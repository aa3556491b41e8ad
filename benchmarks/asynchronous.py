"""What an update costs a server that does not wait, by the number of clients at work.

    python benchmarks/asynchronous.py [--clients 50 500 1000] [--updates 200]

fedbuff on the digits, sbc(0.05) up and raw down, five local iterations per update. Milliseconds of
the processor in the server's process per update, so without the clients' training, which two others
do, and those of the links' rates alone. Updates count after as many as there are clients at work.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from clock import NETWORK, Spent

from fedsim import RunConfig, run
from fedsim.federation.concurrent import Concurrent
from fedsim.network.flows import Flows

TEMPORAL = 5


class Enough(Exception):
    """What was to be timed has come."""


class Marks:
    """Seconds of the thread and of the rates when updates come; the last ends the run."""

    def __init__(self, first: int, last: int, spent: Spent) -> None:
        self.first, self.last, self.spent = first, last, spent
        self.times: list[tuple[float, float]] = []
        self.come = Concurrent.book_arrival

    def __call__(self, server: Concurrent, *given: Any) -> None:
        """Takes the place of ``Concurrent.book_arrival``."""
        self.come(server, *given)
        self.times.append((time.thread_time(), self.spent.seconds))
        if len(self.times) == self.last:
            raise Enough

    @property
    def each(self) -> list[float]:
        """Milliseconds per update: of everything, and of the rates."""
        begin, end = self.times[self.first - 1], self.times[-1]
        count = self.last - self.first
        return [1e3 * (b - a) / count for a, b in zip(begin, end, strict=True)]


def measured(clients: int, updates: int) -> list[float]:
    """Milliseconds per update with so many clients at work: of everything, and of the rates."""
    rows = 2 + -(-updates // clients)
    config = RunConfig.of(
        task="digits",
        method="sbc(0.05)",
        strategy="fedbuff",
        network=NETWORK,
        seed=1,
        clients=clients,
        temporal=TEMPORAL,
        iterations=TEMPORAL * rows,
        partition="iid",
        evaluate_every=TEMPORAL * rows,
        workers=2,
    )
    with tempfile.TemporaryDirectory() as folder, Spent(Flows, ("_share",)) as spent:
        marks = Marks(clients, clients + updates, spent)
        setattr(Concurrent, "book_arrival", lambda server, *x: marks(server, *x))  # noqa: B010
        try:
            run(config, Path(folder) / "run", progress=False)
        except Enough:
            pass
        finally:
            setattr(Concurrent, "book_arrival", marks.come)  # noqa: B010
    return marks.each


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[50, 500, 1000])
    parser.add_argument("--updates", type=int, default=200)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print("| clients at work | ms per update | links' rates |\n| ---: | ---: | ---: |")
    for clients in given.clients:
        whole, rates = measured(clients, given.updates)
        print(f"| {clients:,} | {whole:.1f} | {rates:.2f} |", flush=True)


if __name__ == "__main__":
    main()
