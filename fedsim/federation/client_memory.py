"""Where a client's memory lives between rounds: residuals, optimizer state, counters.

One interface, two homes: this process, or the client's node. Both hold a flat mapping of names to
tensors that is never changed in place; a client hands back a new mapping as its very last act, so a
client that fails keeps the memory it had. On Ray the memory travels between the two
(``fedsim.engines.carried``).
"""

import threading
from collections.abc import Mapping
from typing import Any, Protocol

from flwr.app import Context

from compressors import State
from fedsim.engines.carried import STATE
from strategies.channel import memory
from strategies.channel.nodes import PARTITION_ID


class Kept(Protocol):
    """The clients' memory as the server's process sees it.

    Attributes:
        here: whether a checkpoint of this process has it; else it lies at the nodes, which may be
            ahead of a server that goes on from a checkpoint.
    """

    @property
    def here(self) -> bool: ...

    def copy(self) -> dict[int, State]:
        """Every client's memory now, by client; none where it is not here."""
        ...

    def restore(self, clients: Mapping[int, State]) -> None:
        """Goes on from what ``copy`` returned."""
        ...


class ClientStates(Protocol):
    """Loads and commits the memory of the client that a context belongs to."""

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        """The memory with which a client answers a message; empty before the first round.

        Args:
            context: the client's.
            settings: what stands beside the message's payload.
        """
        ...

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        """Replaces the memory."""
        ...

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        """The run is done: its memory is not wanted any more."""
        ...


class InProcess:
    """Memory in this process, without copies: for the local engine."""

    here = True

    def __init__(self) -> None:
        self.states: dict[int, State] = {}
        self._lock = threading.Lock()

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        with self._lock:
            return self.states.get(int(str(context.node_config[PARTITION_ID])), {})

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        with self._lock:
            self.states[int(str(context.node_config[PARTITION_ID]))] = state

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        """A run that is extended goes on from it."""

    def copy(self) -> dict[int, State]:
        """Every client's memory now, which clients that are late may replace meanwhile."""
        with self._lock:
            return dict(self.states)

    def restore(self, clients: Mapping[int, State]) -> None:
        with self._lock:
            self.states.update(clients)


class AtNode:
    """Memory at the client's node: Flower's ``Context.state``, or the node's ``state-dir``."""

    here = False

    def load(self, context: Context, settings: Mapping[str, Any]) -> State:
        return memory.load(context, STATE, settings)

    def commit(self, context: Context, settings: Mapping[str, Any], state: State) -> None:
        memory.commit(context, STATE, settings, state)

    def forget(self, context: Context, settings: Mapping[str, Any]) -> None:
        memory.forget(context, settings)

    def copy(self) -> dict[int, State]:
        return {}

    def restore(self, clients: Mapping[int, State]) -> None:
        """They are where they were."""
