"""What an update costs a server that does not wait, by the number of clients at work.

    python benchmarks/asynchronous.py [--clients 100 1000 10000] [--updates 200]

fedbuff on the digits, sbc(0.05) up and raw down. Milliseconds of the processor in the server's
thread per update, and those of the links' rates among them. Clients do not train: each sends what
the first one has sent, from the server's process, so that no message goes to a worker. Whole rows
count, after the first, each with as many updates as there are clients at work. No checkpoints are
written, and each client has the whole training set.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from clock import NETWORK, Spent
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from fedsim import RunConfig, run
from fedsim.engines import local
from fedsim.network.flows import Flows
from strategies.channel.payload import KEY, ROUND


@contextmanager
def untrained() -> Iterator[None]:
    """Within it all clients of this process send what the first one has sent."""
    train, sent = local.call_app, list[Message]()

    def answer(app: ClientApp, message: Message, context: Context) -> Message:
        if message.metadata.message_type != "train":
            return train(app, message, context)
        if not sent:
            sent.append(train(app, message, context))
        records = RecordDict(dict(sent[0].content))
        number = {ROUND: message.content.config_records[KEY][ROUND]}
        records[KEY] = ConfigRecord(dict(records.config_records[KEY]) | number)
        return Message(records, reply_to=message)

    setattr(local, "call_app", answer)  # noqa: B010
    try:
        yield
    finally:
        setattr(local, "call_app", train)  # noqa: B010


def measured(clients: int, updates: int) -> tuple[float, float]:
    """Milliseconds per update with so many clients at work: of everything, and of the rates."""
    rows = 1 + -(-updates // clients)
    config = RunConfig.of(
        task="digits",
        method="sbc(0.05)",
        strategy="fedbuff",
        network=NETWORK,
        seed=1,
        clients=clients,
        temporal=1,
        iterations=rows,
        partition="whole",
        evaluate_every=rows,
        checkpoint_every=rows,
    )
    times = list[tuple[float, float]]()

    def mark(row: dict[str, Any]) -> None:
        times.append((time.thread_time(), spent.seconds))

    with (
        tempfile.TemporaryDirectory() as folder,
        Spent(Flows, ("_share",)) as spent,
        untrained(),
    ):
        run(config, Path(folder) / "run", callbacks=[mark], progress=False)
    count = (rows - 1) * clients
    all_seconds, rates = (b - a for a, b in zip(times[0], times[-1], strict=True))
    return 1e3 * all_seconds / count, 1e3 * rates / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, nargs="+", default=[100, 1000, 10_000])
    parser.add_argument("--updates", type=int, default=200, help="at least so many are timed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| clients at work | ms per update | links' rates | peak MB |")
    print("| ---: | ---: | ---: | ---: |")
    for clients in options.clients:
        all_ms, rates = measured(clients, options.updates)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # KiB on Linux
        print(f"| {clients:,} | {all_ms:.2f} | {rates:.2f} | {peak:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
