"""A grid on which only the nodes of one round's cohort are to be seen."""

from collections.abc import Iterable
from typing import Any

from flwr.app import Message
from flwr.serverapp import Grid


class CohortGrid(Grid):
    """A grid on which only the nodes of one round's cohort are to be seen.

    A strategy inside a wrapper then samples "all" of them, and who takes part follows
    from our own seed rather than from Flower's random node ids.
    """

    def __init__(self, grid: Grid, node_ids: list[int]) -> None:
        self._grid, self._node_ids = grid, node_ids

    def get_node_ids(self) -> Iterable[int]:
        """The cohort's nodes."""
        return list(self._node_ids)

    def set_run(self, run: Any) -> None:
        """As the grid beneath."""
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        """As the grid beneath."""
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        """As the grid beneath."""
        return self._grid.create_message(*args, **kwargs)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """As the grid beneath."""
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """As the grid beneath."""
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """As the grid beneath."""
        return self._grid.send_and_receive(messages, timeout=timeout)
