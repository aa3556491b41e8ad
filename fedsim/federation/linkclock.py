"""A run's links and its simulated time, as a controller is told of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.federation.orders import Work
from fedsim.network.clock import round_times
from fedsim.network.spec import Links
from fedsim.settings.config import RunConfig


class LinkClock:
    """The links of a run's clients; without a network nothing is known and no time passes."""

    def __init__(self, config: RunConfig) -> None:
        plan = config.plan
        self._links: Links | None = None
        if plan.network is not None:  # its compute times are not measured: moving.check
            self._links = plan.network.links(plan.clients, config.seed, 0.0)

    @property
    def ticks(self) -> bool:
        """Whether there is a network."""
        return self._links is not None

    def link(self, client: int, now: float) -> dict[str, float]:
        """A client's rates at a time, latency and seconds per iteration, by the names of `Seen`."""
        links = self._links
        if links is None:
            return {}
        return {
            "up": links.up[client].at(now), "down": links.down[client].at(now),
            "latency": float(links.latency[client]), "compute": float(links.compute[client]),
        }  # fmt: skip

    def after(self, now: float, rows: list[dict[str, Any]], work: Mapping[int, Work]) -> float:
        """The time at the end of a round that began at `now`.

        Args:
            now: in seconds.
            rows: the round's clients, as in `clients.parquet`; those without a used reply have no
                part in the clock, as in `fedsim price`.
            work: what each client did.
        """
        used = [row for row in rows if not row["failures"] and row["samples"]]
        if self._links is None or not used:
            return now
        clients, up, down = (
            np.array([row[name] for row in used])
            for name in ("client", "up_wire_bits", "down_wire_bits")
        )
        steps: Any = np.array([work[client].n for client in clients])
        return now + round_times(self._links, clients, up, down, steps, now).seconds
