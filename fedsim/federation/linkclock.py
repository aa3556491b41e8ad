"""A run's links, as a controller is told of them."""

from fedsim.network.spec import Links
from fedsim.settings.config import RunConfig


class LinkClock:
    """The links of a run's clients; without a network nothing is known."""

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
