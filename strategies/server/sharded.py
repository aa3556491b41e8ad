"""A parameter server in parts, one at every worker: Aji & Heafield's asynchronous SGD."""

from dataclasses import replace
from functools import partial
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from torch import Tensor

from compressors import Compressor, Raw, State
from compressors.whole.memory import nest, unnest
from strategies.algorithms.base import RoundInfo
from strategies.algorithms.sharded import Sharded, of_part
from strategies.channel.downlinks import Differences, WholeModel
from strategies.channel.parts import ModelParts, join_parts, line_seed, part_of
from strategies.channel.server_end import ServerEnd
from strategies.channel.traffic import Arrival, RoundTraffic
from strategies.server.asynchronous import Asynchronous


class Joined:
    """The model of all parts, as the run's loop looks at it."""

    def __init__(self, parts: ModelParts, ends: list[ServerEnd]) -> None:
        self.parts, self.ends = parts, ends
        self.traffic = RoundTraffic(0)

    @property
    def weights(self) -> dict[str, Tensor]:
        """The model."""
        return self.parts.join([end.weights for end in self.ends])


class ShardedStrategy(Asynchronous):
    """Each of N workers holds 1/N of the parameters, and serves it to all.

    A worker pushes the gradient of one batch in N parts. Whoever holds a part makes a step of its
    optimizer with every push at once, and answers with how the part has changed since that worker
    pulled last:

        w_j' = w_j + delta_j             (at every push)
        v_kj' = v_kj + C(w_j - v_kj)     (worker k pulls; with a raw downlink v_kj' = w_j)

    Here w_j is part j of the model, delta_j the step of its optimizer on the push (``Sharded``),
    v_kj the copy of that part at worker k, and C(x) what the worker decodes of x. The method keeps
    no residual, because the next difference has what was left out.

    The worker goes on when all parts have come. Its messages to and from itself are compressed,
    too, and do not travel.

    Args:
        uplink: how each part of a gradient is encoded.
        downlink: how each change is encoded; raw: parts travel whole.
        rule: the algorithm, with the optimizer of the model's parameters.
        common: what ``Asynchronous`` takes.

    Source: Aji & Heafield 2017, sections 3 and 4.
    """

    rule: Sharded

    def __init__(
        self,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        rule: Sharded,
        **common: Any,
    ) -> None:
        super().__init__(uplink, downlink, rule=rule, **common)
        self.memories: list[State] = [{} for _ in range(self.clients)]
        self.ends: list[ServerEnd] = []
        self._rules: list[Sharded] = []

    def open(self, weights: dict[str, Tensor], server_round: int = 1) -> Any:
        """The lines to all parts; opened once."""
        if self.channel is None:
            parts = ModelParts(weights, self.clients)
            self.ends = [self._line(parts.cut(weights, i), i) for i in range(self.clients)]
            self._rules = [
                replace(self.rule, optimizer=partial(of_part, self.rule.optimizer, parts, place))
                for place in range(self.clients)
            ]
            self.channel: Any = Joined(parts, self.ends)
        return self.channel

    def _line(self, part: dict[str, Tensor], place: int) -> ServerEnd:
        """The line to a part of the model."""
        seed, raw = line_seed(self.seed, place), isinstance(self.downlink, Raw)
        policy = WholeModel() if raw else Differences(self.downlink, seed)
        limit = self.max_norm
        return ServerEnd(self.uplink, self.downlink, part, seed, max_norm=limit, policy=policy)

    @property
    def steps(self) -> int:
        """How often a part has moved, the least of them."""
        return min((end.version for end in self.ends), default=0)

    def pull(self, client: int, place: int, config: ConfigRecord) -> RecordDict:
        """The message with one part to a worker."""
        return self.ends[place].ask(client, config)

    def requests_to(self, client: int) -> int:
        """How many messages a worker was sent."""
        return self.ends[0].count.get(client, 0)

    def loses(self, client: int) -> None:
        for end in self.ends:
            end.in_flight[client].traffic.dropped += [client] * end.loses(client)
            end.forget(client)

    def push(
        self, client: int, place: int, reply: Message, overdue: bool = False, number: int = 0
    ) -> Arrival:
        """Takes in a worker's reply as far as it is of one part, which moves at once.

        ``overdue``: as ``arrive``; ``number``: of the round, from 1; 0: N pushes are a round.
        """
        end = self.ends[place]
        if reply.has_content():
            reply = Message(part_of(reply.content, place), reply_to=reply)
        arrival = end.arrive(client, reply, self.late_of(overdue))
        if arrival.uplink is not None:
            number = number or end.version // self.clients + 1
            now = RoundInfo(number, line_seed(self.seed, place), self.clients, self.uplink)
            uplinks, memory = {client: arrival.uplink}, self.memories[place]
            delta, self.memories[place] = self._rules[place].step(uplinks, memory, end.weights, now)
            assert delta is not None
            end.advance(delta)
        arrival.traffic.place = f"-shard-{place:02d}-step-{end.version:06d}"
        return arrival

    def message(self, client: int, config: ConfigRecord) -> RecordDict:
        """All parts as they are now."""
        return join_parts([self.pull(client, i, config) for i in range(len(self.ends))], client)

    def arrive(self, client: int, reply: Message, overdue: bool = False) -> Arrival:
        """Takes in all parts of a reply; returns that of the first."""
        return [self.push(client, i, reply, overdue) for i in range(len(self.ends))][0]

    def state(self) -> tuple[State, dict[str, Any]]:
        """The state of the channel to each part, and of its optimizer."""
        tensors, ends = dict[str, Tensor](), list[dict[str, Any]]()
        for place, (end, memory) in enumerate(zip(self.ends, self.memories, strict=True)):
            end_state, values = end.state()
            tensors |= nest(f"end-{place}", end_state) | nest(f"rule-{place}", memory)
            ends.append(values)
        return tensors, {"ends": ends} | ({"names": self.roster.names} if self.roster else {})

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        if self.roster is not None:
            self.roster.names = values["names"]
        for place, (end, values_of_end) in enumerate(zip(self.ends, values["ends"], strict=True)):
            end.restore(unnest(f"end-{place}", tensors), values_of_end)
            self.memories[place] = unnest(f"rule-{place}", tensors)
