"""The nodes of clients, by their answers or by a table of keys, and a grid of a cohort's nodes.

Flower's node ids are random, and a restarted node has a new one.
"""

import json
import logging
import os
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from reprlib import repr
from typing import Any, overload

import numpy as np
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from compressors import derive
from strategies.channel.acknowledge import CHANNEL
from strategies.channel.payload import KEY
from strategies.channel.replies import TooFewReplies, error_text

TABLE = "FEDSIM_CLIENTS"


def owners() -> dict[int, int | str] | None:
    """Node id -> the client that the node's key belongs to; None where there is no table.

    Raises ``ValueError``, which names variable and file, where the table cannot be read.
    """
    path = os.environ.get(TABLE, "")
    return read(Path(path)) if path else None


def read(path: Path) -> dict[int, int | str]:
    """The table in ``path``; see ``owners``."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        if any(isinstance(who, bool) or not isinstance(who, int | str) for who in table.values()):
            raise ValueError("a client is its partition-id, a number, or its client-id, a text")
        return {int(node): who for node, who in table.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ValueError(
            f'{TABLE} is {path}: no table {{"NODE ID": CLIENT, ...}} is there: {error}'
        ) from error


CohortDraw = Callable[[int, Sequence[int] | np.ndarray, int], Sequence[int]]
"""By a round's number, the clients that can be drawn and how many are wanted: different ones."""

QUERY, FORGET = "query.partition", "query.forget"
CLIENT_ID, PARTITION_ID = "client-id", "partition-id"
"""Keys of a node's config: a client's name, and its number where shards are simulated."""

REGISTRATION_SECONDS = 60.0
STARTING_SECONDS = 600.0
"""What a node's first answer may take: its process, or Ray's, starts and imports torch first."""
FORGETTING_SECONDS = 30.0  # how long nodes are waited for when a run is done
_POLL_SECONDS = 0.1
_NONE = "No query function registered"
_OF_APPS = (
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION,
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION,
    ErrorCode.MOD_FAILED_PRECONDITION,
)
"""Errors of an app, which it makes of every message; not of a node that is gone."""


def answer_partition(app: ClientApp) -> None:
    """Makes ``app`` answer which client a node is; strategies with ``clients`` ask for it.

    The answer comes from the node's config: ``partition-id``, a number, ``client-id``, a name, or
    both.

    Example:
        >>> app = ClientApp()
        >>> answer_partition(app)
    """

    @app.query(QUERY.split(".")[1])
    def partition(message: Message, context: Context) -> Message:
        content = RecordDict({"client": ConfigRecord({"name": name_of(context)})})
        number = context.node_config.get(PARTITION_ID)
        if number is not None:
            content["partition"] = MetricRecord({PARTITION_ID: int(number)})
        return Message(content, reply_to=message)


def name_of(context: Context) -> str:
    """A client's name: ``client-id``, else ``partition-id``, else its node's id."""
    config = context.node_config
    return str(config.get(CLIENT_ID, config.get(PARTITION_ID, context.node_id)))


def forget(grid: Grid, channel: int) -> None:
    """Tells every node that is there that a channel's run is done: what clients kept is removed."""
    content = RecordDict({KEY: ConfigRecord({CHANNEL: channel})})
    messages = [Message(content, dst_node_id=n, message_type=FORGET) for n in grid.get_node_ids()]
    list(grid.send_and_receive(messages, timeout=FORGETTING_SECONDS))


def numbered_of(grid: Grid) -> range | None:
    """The nodes of a grid in this process, of which the i-th is client i; None: another grid."""
    numbered: range | None = getattr(grid, "numbered", None)
    return numbered


class Numbered(Mapping[int, int]):
    """Client -> node of a grid in this process, where client i is at the i-th node of a range.

    Nobody is asked who it is: a federation may have a million clients.

    Example:
        >>> known = Numbered(range(1, 1_000_001))
        >>> known[41], known.client_at(42), 1_000_000 in known
        (42, 41, False)
    """

    def __init__(self, nodes: range) -> None:
        self.nodes = nodes

    def __getitem__(self, client: int) -> int:
        if not 0 <= client < len(self.nodes):
            raise KeyError(client)
        return self.nodes[client]

    def get(self, client: int, default: Any = None) -> Any:
        """The node of a client; ``default`` where there is none."""
        return self.nodes[client] if 0 <= client < len(self.nodes) else default

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.nodes)))

    def __len__(self) -> int:
        return len(self.nodes)

    def client_at(self, node: int) -> int:
        """The client at a node."""
        return self.nodes.index(node)


class Without(Sequence[int]):
    """The client numbers below ``clients`` without a few, ascending; none is looked at before.

    Example:
        >>> idle = Without(1_000_000, [3, 0])
        >>> len(idle), idle[0], idle[1], idle[2], idle[-1]
        (999998, 1, 2, 4, 999999)
        >>> idle.remove(1), idle.add(3), idle[0], 3 in idle
        (None, None, 2, True)
    """

    def __init__(self, clients: int, without: Collection[int]) -> None:
        self.clients, self.without = clients, sorted(without)

    def __len__(self) -> int:
        return self.clients - len(self.without)

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        if isinstance(place, slice):
            return [self[i] for i in range(len(self))[place]]
        number, without = range(len(self))[place], self.without
        below = bisect_right(range(len(without)), number, key=lambda i: without[i] - i)
        return number + below

    def __contains__(self, client: object) -> bool:
        return isinstance(client, int) and 0 <= client < self.clients and not self._lacks(client)

    def _lacks(self, client: int) -> bool:
        i = bisect_left(self.without, client)
        return i < len(self.without) and self.without[i] == client

    def remove(self, client: int) -> None:
        """Leaves a client out, if it is not left out already."""
        if not self._lacks(client):
            insort(self.without, client)

    def add(self, client: int) -> None:
        """Takes a client back, if it was left out."""
        if self._lacks(client):
            del self.without[bisect_left(self.without, client)]


class Roster:
    """Which node each client is at now; nodes come, go, and come back under other ids.

    A client's number is its ``partition-id``. A client without one has a name, and gets the lowest
    free number; names that arrive together get theirs in sorted order. A client is at the first
    node that claims it, as long as that node is there; another node with the same claim waits. If a
    table assigns keys to clients (``owners``), a node can only be the client of its key, and the
    table's numbers are not free for others.

    Args:
        clients: how many there are in all: numbers below it.
        timeout: seconds that new nodes have to say who they are.

    Attributes:
        nodes: client number -> node id, of those that are there now.
        names: client name -> number, of clients without a ``partition-id``.
        passed: node id -> why it is not a client, of present nodes whose answer is not used.
    """

    def __init__(self, clients: int, timeout: float) -> None:
        self.clients, self.timeout = clients, timeout
        self.nodes: dict[int, int] | Numbered = {}
        self.names: dict[str, int] = {}
        self.passed: dict[int, str] = {}
        self._claims: dict[int, int | str | None] = {}  # node -> who it says it is, the first first
        self._refused: dict[int, str] = {}  # node -> what its app raised when it was asked

    def gather(self, grid: Grid, needed: int) -> None:
        """Waits until all clients are there; goes on without some where ``needed`` are.

        Nodes that have registered have ``timeout`` seconds to answer, and where fewer than
        ``needed`` did, ten minutes: nothing is late before its process has started.

        Raises ``TimeoutError`` where fewer have registered within a minute, or answered by then,
        and at once ``TooFewReplies`` where the app of every node raises.
        """
        numbered = numbered_of(grid)
        if numbered is not None:
            self.nodes = Numbered(numbered)
            return
        until = time.monotonic() + REGISTRATION_SECONDS
        while len(list(grid.get_node_ids())) < self.clients and time.monotonic() < until:
            time.sleep(_POLL_SECONDS)
        registered, asked_at = len(list(grid.get_node_ids())), time.monotonic()
        if registered < needed:
            raise TimeoutError(
                f"{registered} nodes have registered in {REGISTRATION_SECONDS:g} s and {needed} "
                "clients are wanted: start more nodes, or set the number of clients to theirs"
            )
        self.look(grid)
        starting, patience = max(STARTING_SECONDS, self.timeout), self.timeout
        while len(self.nodes) < min(registered, self.clients):
            present = {*grid.get_node_ids()}
            if self._refused and present <= {*self._refused}:  # no node will ever say who it is
                reason = next(iter(self._refused.values()))
                raise TooFewReplies(f"no node says which client it is: {reason}")
            silent = present - {*self._claims}
            patience = starting if silent and len(self.nodes) < needed else self.timeout
            left = asked_at + patience - time.monotonic()
            if left <= 0:
                break
            time.sleep(_POLL_SECONDS)
            self.look(grid, left)
        if len(self.nodes) < needed:
            missing = sorted(set(range(self.clients)) - set(self.nodes))
            raise TimeoutError(
                f"{len(self.nodes)} of {self.clients} clients answered in {patience:g} s; no "
                f"node is partition {', '.join(map(str, missing[:5]))}"
                + "".join([f"; node {n} raised {error}" for n, error in self._refused.items()][:1])
                + "".join([f"; node {n}: {reason}" for n, reason in self.passed.items()][:1])
            )

    def present(self, grid: Grid, needed: int) -> Mapping[int, int]:
        """Client -> node of those that are there now; the first call waits as ``gather`` does."""
        if not isinstance(self.nodes, Numbered):
            if self.nodes:
                self.look(grid)
            else:
                self.gather(grid, needed)
        return self.nodes

    def look(self, grid: Grid, seconds: float | None = None) -> None:
        """Forgets nodes that have left, and asks those that are new who they are.

        ``seconds``: what they have to answer; None: ``timeout``.
        """
        if isinstance(self.nodes, Numbered):
            return
        present = set(grid.get_node_ids())
        self._claims = {node: who for node, who in self._claims.items() if node in present}
        self.nodes = {client: node for client, node in self.nodes.items() if node in present}
        self.passed = {node: reason for node, reason in self.passed.items() if node in present}
        new = sorted(present - {*self._claims})
        if new:
            asks = [Message(RecordDict(), dst_node_id=n, message_type=QUERY) for n in new]
            patience = self.timeout if seconds is None else seconds
            replies = list(grid.send_and_receive(asks, timeout=patience))
            for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
                if reply.has_content():  # a node without a valid answer is not a client
                    node = reply.metadata.src_node_id
                    self._claims[node] = None
                    try:
                        self._claims[node] = _who(reply.content)
                    except ValueError as error:
                        self._pass_over(node, str(error))
            refused = [up for up in replies if up.has_error() and up.error.code in _OF_APPS]
            self._refused = {up.metadata.src_node_id: _refusal_reason(up) for up in refused}
        self._seat()

    def client_at(self, node: int) -> int:
        """The number of the client at a node; the node's own id where none is known."""
        if isinstance(self.nodes, Numbered):
            return self.nodes.client_at(node)
        return next((client for client, at in self.nodes.items() if at == node), node)

    def _seat(self) -> None:
        """Gives every client that has none a node that says to be it, the first that did."""
        table, claims = owners(), self._claims
        if table is not None:
            for node, who in claims.items():
                if who not in (None, table.get(node)):
                    owner = f"client {repr(table[node])}'s" if node in table else "nobody's"
                    claim = repr(who)
                    reason = f"it says that it is client {claim}, and its key is {owner} in {TABLE}"
                    self._pass_over(node, reason)
            claims = {node: who for node, who in claims.items() if who == table.get(node)}
        named = sorted((who, node) for node, who in claims.items() if isinstance(who, str))
        numbered = [(who, node) for node, who in claims.items() if isinstance(who, int)]
        for who, node in numbered:
            self._assign(who, node)
        for name, node in named:
            taken = {*self.nodes, *self.names.values(), *(table or {}).values()}
            free = next((n for n in range(self.clients) if n not in taken), None)
            number = self.names.get(name, free)
            if number is not None:
                self.names[name] = number
            self._assign(number, node)  # None: no number is left

    def _assign(self, client: int | None, node: int) -> None:
        """A node is where a client is; or it is passed over, where another is that already."""
        if client is None or client >= self.clients:
            self._pass_over(node, f"the strategy is for clients={self.clients}")
            return
        assert isinstance(self.nodes, dict)
        holder = self.nodes.setdefault(client, node)
        if holder == node:
            self.passed.pop(node, None)
        else:
            self._pass_over(node, f"it says that it is client {client}, which is at node {holder}")

    def _pass_over(self, node: int, reason: str) -> None:
        """Notes and logs, once, why a node is not a client."""
        if self.passed.get(node) != reason:
            self.passed[node] = reason
            logging.getLogger("flwr").error("node %d is passed over: %s", node, reason)


def _refusal_reason(refusal: Message) -> str:
    """The error of a node's app when it was asked for its client, and the remedy."""
    reason = error_text(refusal)
    if _NONE in reason:
        return f"{reason}: the client app lacks answer_partition(app)"
    if refusal.error.code == ErrorCode.MOD_FAILED_PRECONDITION:
        return f"{reason}: mods for training are given to @app.train, and not to ClientApp"
    return reason


def _who(content: RecordDict) -> int | str:
    """The number or the name in an answer; ``ValueError`` if it has no valid one."""
    numbered, named = content.metric_records.get("partition"), content.config_records.get("client")
    if numbered is not None and PARTITION_ID in numbered:
        value = numbered[PARTITION_ID]
        if isinstance(value, int | float) and 0 <= value < 2**53 and value == int(value):
            return int(value)
        raise ValueError(f"its {PARTITION_ID} is {repr(value)}: it is a whole number from 0")
    name = named.get("name") if named is not None else None
    if isinstance(name, str) and name.strip() and name.isprintable():
        return name
    raise ValueError(f"its name is {repr(name)}: it is a line of text, and not empty")


def cohort(
    clients: int,
    size: int,
    seed: int,
    round_number: int,
    among: Sequence[int] | np.ndarray | None = None,
) -> list[int]:
    """The sorted client numbers of one round: ``size`` of ``clients`` without replacement.

    ``among``: those that can be drawn; None: all.
    """
    available = range(clients) if among is None else among
    if size >= len(available):
        return sorted(map(int, available))
    generator = np.random.default_rng(derive(seed, "cohort", round_number))
    drawn = generator.choice(len(available), size, replace=False)
    return sorted(int(available[int(i)]) for i in drawn)


class CohortGrid(Grid):
    """A grid on which only the nodes of one round's cohort are to be seen.

    A strategy inside a wrapper then samples "all" of them, and who takes part follows
    from our own seed rather than from Flower's random node ids.
    """

    def __init__(self, grid: Grid, node_ids: list[int]) -> None:
        self._grid, self._node_ids = grid, node_ids

    def get_node_ids(self) -> Iterable[int]:
        return list(self._node_ids)

    def set_run(self, run: Any) -> None:
        self._grid.set_run(run)

    @property
    def run(self) -> Any:
        return self._grid.run

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        return self._grid.create_message(*args, **kwargs)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        return self._grid.push_messages(messages)

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return self._grid.pull_messages(message_ids)

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self._grid.send_and_receive(messages, timeout=timeout)
