"""Flower's simulation as Flower ships it: the same apps, and Flower's own actors on Ray."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsim.engines import cluster
from fedsim.engines.flower_memory import Carried, CarryingApp, CarryingGrid
from fedsim.engines.flowerlog import flower_quiet
from fedsim.ground.errors import RunFailed

NODES = 64
"""How many nodes of Flower's the clients share at most. Flower looks for messages ten times a
second, and takes one of each node; with every node it looks through all messages that wait."""


def simulate(
    main: Callable[[Grid], None],
    client_app: ClientApp,
    clients: int,
    workers: int,
    memories: Carried,
    address: str | None = None,
    gpus_per_client: float = 0.0,
) -> None:
    """Runs ``main`` as a ServerApp in Flower's simulation, ``workers`` clients at a time.

    Exceptions of ``main`` are raised here. Clients share Flower's nodes, since a client's number
    and memory come with the message: a hundred thousand cost what a hundred do. Flower waits for a
    client that hangs, even when ``main`` is done.

    Args:
        address: of a running cluster, all of whose cores serve clients; None: one is started.
        gpus_per_client: the share of a GPU that Ray sets aside for a client; it sees no other GPU.

    Raises ``UsageError`` where no cluster answers at ``address`` or this process has one, and
    ``RunFailed`` where Flower's simulation ended, or lost a worker, which it does not replace.
    """
    import ray

    failures = list[BaseException]()
    server_app = ServerApp()

    @server_app.main()
    def body(grid: Grid, context: Context) -> None:
        try:
            main(CarryingGrid(grid, clients, memories))
        except BaseException as error:
            failures.append(error)
            raise

    cluster.connect(workers, address, "--engine is 'flower'")  # here: an error ends the run at once
    try:
        from flwr.simulation import run_simulation  # takes a second, for this engine only

        settings: dict[str, Any] = {
            "client_resources": {"num_cpus": 1, "num_gpus": gpus_per_client}
        }
        nodes = min(clients, NODES)
        quiet = flower_quiet(logging.CRITICAL)  # fedsim tells failures, once
        with quiet, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # run_simulation says that it is deprecated
            run_simulation(server_app, CarryingApp(client_app), nodes, backend_config=settings)
    except Exception as error:
        if failures:
            raise failures[0] from None
        raise RunFailed(f"Flower's simulation ended: {error}") from error
    finally:
        ray.shutdown()
    if failures:
        raise failures[0]
