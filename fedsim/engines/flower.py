"""Flower's simulation on Ray: the same apps, one actor per worker."""

import logging
import warnings
from collections.abc import Callable
from typing import Any

from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from fedsim.errors import RunFailed


def simulate(
    main: Callable[[Grid], None], client_app: ClientApp, clients: int, workers: int,
    gpus_per_client: float = 0.0,
) -> None:  # fmt: skip
    """Runs ``main`` as a ServerApp in Flower's simulation, ``workers`` clients at a time.

    Ray assigns each client its share of a GPU, ``gpus_per_client``, and shows it no other.
    What ``main`` raises is raised here; Flower itself would end the run normally.
    """
    from flwr.simulation import run_simulation  # takes a second, for this engine only

    failures: list[BaseException] = []
    server_app = ServerApp()

    @server_app.main()
    def body(grid: Grid, context: Context) -> None:
        try:
            main(grid)
        except BaseException as error:
            failures.append(error)
            raise

    logging.getLogger("flwr").setLevel(logging.CRITICAL)  # fedsim tells failures, once
    settings: dict[str, dict[str, Any]] = {
        "client_resources": {"num_cpus": 1, "num_gpus": gpus_per_client},
        # "local": a cluster of its own, whatever other clusters this machine runs
        "init_args": {"address": "local", "num_cpus": workers, "include_dashboard": False,
                      "log_to_driver": False},
    }  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # run_simulation says that it is deprecated
            run_simulation(server_app, client_app, clients, backend_config=settings)
    except Exception as error:
        if failures:
            raise failures[0] from None
        raise RunFailed(f"Flower's simulation ended: {error}") from error
    if failures:
        raise failures[0]
