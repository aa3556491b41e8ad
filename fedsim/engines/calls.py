"""What the in-process grid keeps track of: where replies go, and whose turn a node's is."""

import queue
import threading
from collections import deque
from collections.abc import Callable

from flwr.app import Message


class Call:
    """One ``send_and_receive``: where its replies go, until it is closed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.closed = False
        self.replies: queue.SimpleQueue[Message] = queue.SimpleQueue()

    def close(self) -> list[Message]:
        """Takes no more replies; returns those that came in at the last moment."""
        with self.lock:
            self.closed = True
        return taken(self.replies)


def taken(replies: "queue.SimpleQueue[Message]") -> list[Message]:
    """Everything that is in a queue now, removed from the queue."""
    taken = []
    while not replies.empty():
        taken.append(replies.get())
    return taken


class Turns:
    """Nodes that answer one message after the other, whichever threads serve them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._busy: dict[int, deque[Callable[[], None]]] = {}  # node -> what waits for it

    def claimed(self, node: int, task: Callable[[], None]) -> bool:
        """Whether the node is free, and now the caller's; else ``task`` waits for its turn."""
        with self._lock:
            if node in self._busy:
                self._busy[node].append(task)
                return False
            self._busy[node] = deque()
            return True

    def let_go(self, node: int) -> Callable[[], None] | None:
        """Frees a node that the caller claimed.

        Where something has waited for the node, it is returned instead, and the caller does it: the
        node stays claimed.
        """
        with self._lock:
            if self._busy[node]:
                return self._busy[node].popleft()
            del self._busy[node]
            return None
