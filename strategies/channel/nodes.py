"""Which node is which client: Flower's node ids are random, partitions are not."""

import time
from collections.abc import Iterable
from typing import Any, cast

import numpy as np
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

from compressors import derive

QUERY = "query.partition"
REGISTRATION_SECONDS = 60.0
_POLL_SECONDS = 0.1


def answer_partition(app: ClientApp) -> None:
    """Lets the clients of ``app`` say who they are, which strategies with ``clients`` ask for.

    Example:
        >>> app = ClientApp()
        >>> answer_partition(app)
    """

    @app.query(QUERY.split(".")[1])
    def partition(message: Message, context: Context) -> Message:
        number = int(cast(int, context.node_config["partition-id"]))
        content = RecordDict({"partition": MetricRecord({"partition-id": number})})
        return Message(content, reply_to=message)


def find(grid: Grid, clients: int, timeout: float) -> dict[int, int]:
    """Asks every node for its partition until all ``clients`` have answered.

    Returns client number -> node id. Raises ``TimeoutError`` where too few nodes have
    registered within a minute, or too few answer within ``timeout`` seconds.
    """
    _wait_for_nodes(grid, clients)
    known: dict[int, int] = {}
    asked: set[int] = set()
    until = time.monotonic() + timeout
    while len(known) < clients:
        new = [node for node in grid.get_node_ids() if node not in asked]
        asks = [Message(RecordDict(), dst_node_id=n, message_type=QUERY) for n in new]
        for reply in grid.send_and_receive(asks, timeout=max(1.0, until - time.monotonic())):
            if reply.has_content():
                asked.add(reply.metadata.src_node_id)
                known.setdefault(_partition(reply), reply.metadata.src_node_id)
        known = {client: node for client, node in known.items() if 0 <= client < clients}
        if len(known) < clients and time.monotonic() > until:
            missing = sorted(set(range(clients)) - set(known))
            raise TimeoutError(
                f"{len(known)} of {clients} clients answered in {timeout:g} s; no node is "
                f"partition {', '.join(map(str, missing[:5]))}"
            )
        if len(known) < clients:
            time.sleep(_POLL_SECONDS)
    return dict(sorted(known.items()))


def _wait_for_nodes(grid: Grid, clients: int) -> None:
    until = time.monotonic() + REGISTRATION_SECONDS
    while (there := len(list(grid.get_node_ids()))) < clients:
        if time.monotonic() > until:
            raise TimeoutError(
                f"{there} nodes have registered in {REGISTRATION_SECONDS:g} s and {clients} "
                "clients are wanted: start more nodes, or set the number of clients to theirs"
            )
        time.sleep(_POLL_SECONDS)


def _partition(reply: Message) -> int:
    value = next(iter(reply.content.metric_records.values()))["partition-id"]
    if isinstance(value, list):
        raise ValueError(f"partition-id is a list: {value}")
    return int(value)


def cohort(clients: int, size: int, seed: int, round_number: int) -> list[int]:
    """The sorted client numbers of one round: ``size`` of ``clients`` without replacement."""
    if size >= clients:
        return list(range(clients))
    generator = np.random.default_rng(derive(seed, "cohort", round_number))
    return sorted(int(i) for i in generator.choice(clients, size, replace=False))


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
