"""Messages whose Ray worker was lost again and again: they end the run."""

from collections.abc import Iterable

from flwr.app import Message
from flwr.serverapp import Grid

from fedsim.ground.errors import RunFailed
from strategies.channel.cohort_grid import CohortGrid

AGAIN = 3
"""How often a message is done again whose worker was lost; then the run ends."""

_LOST = ("RayActorError", "ActorDiedError", "ActorUnavailableError", "ObjectLostError")


class LossTellingGrid(CohortGrid):
    """The grid beneath; where Ray lost worker after worker of a message, the run ends."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, [])

    def get_node_ids(self) -> Iterable[int]:
        """As the grid beneath: all of them."""
        return self._grid.get_node_ids()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As the grid beneath; ``RunFailed`` where Ray loses worker after worker."""
        for reply in self._grid.send_and_receive(messages, timeout=timeout):
            if reply.has_error() and any(name in (reply.error.reason or "") for name in _LOST):
                raise RunFailed(
                    f"Ray lost the worker of a client {AGAIN + 1} times in a row: the clients may "
                    "need more memory than the machine has (fewer --workers need less)"
                )
            yield reply
