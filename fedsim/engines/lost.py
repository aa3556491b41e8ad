"""Ray workers that are lost: the one in its place says so, and the server's grid counts them."""

import logging
from collections.abc import Iterable

from flwr.app import ConfigRecord, Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from fedsim.ground.errors import RunFailed
from strategies.channel.cohort_grid import CohortGrid

AGAIN = 3
"""How often a message is done again whose worker was lost; then the run ends."""

_REPLACED = "fedsim.replaced-worker"
_LOST = ("RayActorError", "ActorDiedError", "ActorUnavailableError")


class ReportingApp(ClientApp):
    """The clients' app; the first reply of a worker that replaces a lost one says so."""

    _answered = False  # of this process

    def __init__(self, app: ClientApp) -> None:
        super().__init__()
        self._app = app

    def __call__(self, message: Message, context: Context) -> Message:
        """As the app; a record of its own says that the worker is new."""
        import ray

        reply = self._app(message, context)
        if reply.has_content() and not ReportingApp._answered:
            ReportingApp._answered = True
            if ray.get_runtime_context().was_current_actor_reconstructed:
                reply.content[_REPLACED] = ConfigRecord({"yes": True})
        return reply


class LossCountingGrid(CohortGrid):
    """The grid beneath, whose lost workers are counted and told."""

    def __init__(self, grid: Grid) -> None:
        super().__init__(grid, [])
        self.lost = 0

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
            if reply.has_content() and reply.content.pop(_REPLACED, None) is not None:
                self.lost += 1
                logging.getLogger("fedsim").warning(
                    "Ray lost a worker (%d so far) and replaced it; its message was done again",
                    self.lost,
                )
            yield reply
