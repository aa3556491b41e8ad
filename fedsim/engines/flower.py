"""Flower's simulation on Ray: the same apps, one actor per worker."""

import logging
import warnings
from collections.abc import Callable
from functools import partial
from threading import Event
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsim.engines import cluster, compat, lost
from fedsim.engines.carried import Carried, CarryingApp, CarryingGrid
from fedsim.engines.flowerlog import flower_quiet
from fedsim.ground.errors import RunFailed


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

    What ``main`` raises is raised here. All clients are one node of Flower's, for who a client is
    and what it remembers come with the message: a hundred thousand cost what ten do. A message
    whose worker is lost is done again by another, and nothing differs (``fedsim.engines.pool``).
    When ``main`` is done, nobody waits for a client that is not.

    Args:
        main: the server.
        client_app: the clients.
        clients: how many.
        workers: how many at a time.
        memories: of the clients.
        address: of a running cluster, all of whose cores serve clients; None: one is started.
        gpus_per_client: the share of a GPU that Ray sets aside for a client; it sees no other GPU.

    Raises:
        UsageError: no cluster answers at ``address``, or this process has one already.
        RunFailed: Flower's simulation ended, or a message lost its worker four times in a row.
    """
    import ray

    failures, over = list[BaseException](), Event()
    server_app = ServerApp()

    @server_app.main()
    def body(grid: Grid, context: Context) -> None:
        try:
            compat.look_often(grid)
            main(CarryingGrid(lost.LossTellingGrid(grid), clients, memories))
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            over.set()

    cluster.connect(workers, address, "--engine is 'flower'")  # here: an error ends the run at once
    try:
        from flwr.simulation import run_simulation  # takes a second, for this engine only

        from fedsim.engines.pool import Pool

        settings = {"client_resources": actor_options(gpus_per_client)}
        quiet = flower_quiet(logging.CRITICAL)  # fedsim tells failures, once
        with quiet, compat.simulate_with(partial(Pool, over)), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # run_simulation says that it is deprecated
            run_simulation(server_app, CarryingApp(client_app), 1, backend_config=settings)
    except Exception as error:
        if failures:
            raise failures[0] from None
        raise RunFailed(f"Flower's simulation ended: {error}") from error
    finally:
        ray.shutdown()
    if failures:
        raise failures[0]


def actor_options(gpus: float) -> dict[str, Any]:
    """What Flower hands to its actors as Ray's options."""
    return {"num_cpus": 1, "num_gpus": gpus, "max_restarts": -1}
