"""Where a client's memory lives between rounds: residuals, optimizer state, counters.

One interface, two homes. Both hold a flat mapping of names to tensors that is never
changed in place; a client hands back a new mapping as its very last act, so a client that
fails keeps the memory it had.
"""

import threading
from typing import Protocol

from flwr.app import Context

from compressors import State
from strategies.channel import memory
from strategies.channel.nodes import PARTITION_ID

_KEY = "fedsim.state"


class ClientStates(Protocol):
    """Loads and commits the memory of the client that a context belongs to."""

    def load(self, context: Context) -> State:
        """The memory as last committed; empty before the first round."""
        ...

    def commit(self, context: Context, state: State) -> None:
        """Replaces the memory."""
        ...


class InProcess:
    """Memory in this process, without copies: for the local engine, which can checkpoint it."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {}
        self._lock = threading.Lock()

    def load(self, context: Context) -> State:
        with self._lock:
            return self.states.get(int(str(context.node_config[PARTITION_ID])), {})

    def commit(self, context: Context, state: State) -> None:
        with self._lock:
            self.states[int(str(context.node_config[PARTITION_ID]))] = state

    def copy(self) -> dict[int, State]:
        """Every client's memory now, which clients that are late may replace meanwhile."""
        with self._lock:
            return dict(self.states)


class AtNode:
    """Memory at the client's node: Flower's ``Context.state``, or the node's ``state-dir``."""

    def load(self, context: Context) -> State:
        return memory.load(context, _KEY)

    def commit(self, context: Context, state: State) -> None:
        memory.commit(context, _KEY, state)
