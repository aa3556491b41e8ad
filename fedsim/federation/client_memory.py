"""Where a client's memory lives between rounds: residuals, optimizer state, counters.

One interface, two homes. Both hold a flat mapping of names to tensors that is never
changed in place; a client hands back a new mapping as its very last act, so a client that
fails keeps the memory it had.
"""

import threading
from typing import Protocol, cast

import numpy as np
import torch
from flwr.app import Context

from compressors import State
from strategies.channel.payload import to_arrays

_KEY = "fedsim.state"


def number(context: Context) -> int:
    """The client's number: Flower's ``partition-id``."""
    return int(cast(int, context.node_config["partition-id"]))


class ClientStates(Protocol):
    """Loads and commits the memory of the client that a context belongs to."""

    def load(self, context: Context) -> State:
        """The memory as last committed; empty before the first round."""
        ...

    def commit(self, context: Context, state: State) -> None:
        """Replaces the memory."""
        ...


class InProcess:
    """Memory in this process, without copies: for the local engine, which can checkpoint it.

    Args:
        deferred: what a client commits counts only once its reply has been delivered
            (``settle``, called on the client's thread); a reply that came too late
            leaves the memory as it was.
    """

    def __init__(self, deferred: bool = False) -> None:
        self.states: dict[int, State] = {}
        self.deferred = deferred
        self._lock = threading.Lock()
        self._waiting = threading.local()

    def load(self, context: Context) -> State:
        """See ``ClientStates.load``."""
        with self._lock:
            return self.states.get(number(context), {})

    def commit(self, context: Context, state: State) -> None:
        """See ``ClientStates.commit``."""
        self._waiting.of_this_thread = (number(context), state)
        if not self.deferred:
            self.settle(True)

    def settle(self, kept: bool) -> None:
        """Puts what this thread's client committed in its place, or forgets it."""
        waiting = getattr(self._waiting, "of_this_thread", None)
        self._waiting.of_this_thread = None
        if kept and waiting is not None:
            client, state = waiting
            with self._lock:
                self.states[client] = state


class InContext:
    """Memory in Flower's ``Context.state``, which Flower keeps only if the client succeeded."""

    def load(self, context: Context) -> State:
        """See ``ClientStates.load``."""
        record = context.state.array_records.get(_KEY)
        if record is None:
            return {}
        return {name: torch.from_numpy(np.array(a.numpy())) for name, a in record.items()}

    def commit(self, context: Context, state: State) -> None:
        """See ``ClientStates.commit``."""
        context.state[_KEY] = to_arrays(state)
