"""A grid on a simulated clock: which replies come in time, which come later, and which never.

Clients compute at once, and the server gets each reply at its simulated time.
"""

from collections.abc import Iterable
from itertools import count

from flwr.app import Error, Message
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid

from fedsim.engines import compat
from fedsim.federation.failures import DROPPED, LATE
from fedsim.federation.simulation import Simulation
from strategies.channel.cohort_grid import CohortGrid
from strategies.channel.payload import CLIENT, settings_in

_TRAIN = "train"


class TimedGrid(CohortGrid):
    """A grid whose replies come when the simulated clock says so.

    Args:
        grid: the grid beneath, which answers as fast as it can.
        simulation: the clock.
    """

    def __init__(self, grid: Grid, simulation: Simulation) -> None:
        super().__init__(grid, [])
        self.simulation = simulation
        self.numbered: range | None = getattr(grid, "numbered", None)
        self._ids = count(1)

    def get_node_ids(self) -> Iterable[int]:
        """As the grid beneath."""
        return self._grid.get_node_ids()

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        """The replies that come in time, and an error for each client that drops out."""
        messages = list(messages)
        if messages and messages[0].metadata.message_type != _TRAIN:
            return self._grid.send_and_receive(messages, timeout=timeout)
        return self._round(messages, timeout)

    def _round(self, messages: list[Message], timeout: float | None) -> Iterable[Message]:
        simulation, rules = self.simulation, self.simulation.rules
        clients = {client_of(message): message for message in messages}
        leaves = {client: simulation.leaves[client] for client in clients}
        for client, message in clients.items():
            if leaves[client] == "before":  # nobody gets it
                compat.name(message, f"dropped-{next(self._ids)}")
        sent = [m for client, m in clients.items() if leaves[client] != "before"]
        replies: dict[int, Message | None] = dict.fromkeys(clients)
        ids: dict[str, int] = {}
        for reply in self._grid.send_and_receive(sent, timeout=timeout):
            if not ids:  # a grid gives messages their ids when it sends them
                ids = {m.metadata.message_id: client for client, m in clients.items()}
            client = ids[reply.metadata.reply_to_message_id]
            replies[client] = reply
            if not rules.late and not leaves[client]:
                yield reply  # the server decodes while others train
        in_time = simulation.end(replies)
        for client, when in leaves.items():
            if when:
                simulation.lose(client, replies[client])
                error = Error(ErrorCode.NODE_UNAVAILABLE, DROPPED[when])
                yield Message(error, reply_to=clients[client])
        if not rules.late:
            return
        # Those that come later are in flight until they have.
        for client, answer in replies.items():
            if answer is None or simulation.leaves[client] or client in in_time:
                continue
            if simulation.works[client].until != "arrived":  # an error
                yield answer
                continue
            simulation.traffic.failures[client] = LATE
        for client in in_time:
            answer = replies[client]
            assert answer is not None
            yield answer

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Replies of earlier rounds that have come by now."""
        ids, simulation = list(message_ids), self.simulation
        held = {
            x.reply.metadata.reply_to_message_id: x
            for x in simulation.clock.exchanges.values() if x.reply is not None
        }  # fmt: skip
        others = [key for key in ids if key not in held]
        real = list(self._grid.pull_messages(others)) if others else []
        late, exchanges = simulation.late, [held[key] for key in ids if key in held]
        arrived = [exchange for exchange in exchanges if exchange.client in late and exchange.over]
        return [simulation.take(exchange.client) for exchange in arrived] + real


def client_of(message: Message) -> int:
    """The number of the client that a message of the server goes to."""
    return int(str(settings_in(message.content)[CLIENT]))
