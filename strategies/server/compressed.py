"""Compressed uplink and downlink for any Flower strategy, the way Flower's own wrappers work.

The server half wraps a strategy: models leave as payloads, updates come back as
payloads, and the strategy inside sees ordinary arrays, of float64. The client half is a mod
(``client_mod``) around any ClientApp that answers a model with a trained model, or a
client that speaks payloads itself.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvgM, Strategy
from torch import Tensor

from compressors import Compressor, Raw, State, Tensors
from compressors.whole.memory import nest, unnest
from compressors.whole.tied import pairs_of
from strategies.algorithms.base import Algorithm
from strategies.channel.acknowledge import CHANNEL
from strategies.channel.app_checks import cure
from strategies.channel.buffers import to_payload
from strategies.channel.nodes import CohortGrid
from strategies.channel.payload import (
    ARRAYS,
    EVALUATED,
    NAMED,
    OURS,
    lazy_arrays,
    to_arrays,
    to_tensors,
)
from strategies.channel.replies import TooFewReplies, error_text, wants_model
from strategies.server import inner_checks
from strategies.server.base import ChannelStrategy, with_bytes
from strategies.server.wrappers import PRIVATE, WrongOrder, layers_of


def arrays_of(inner: object) -> State:
    """Every attribute that is made of arrays, under ``attribute/kind/key``."""
    tensors: State = {}
    for name, value in vars(inner).items():
        if isinstance(value, ArrayRecord):
            copied = {k: torch.from_numpy(np.array(a.numpy())) for k, a in value.items()}
            tensors |= nest(f"{name}/record", copied)
        elif isinstance(value, dict) and value and _arrays(list(value.values())):
            tensors |= nest(f"{name}/dict", {k: _tensor(v) for k, v in value.items()})
        elif isinstance(value, list) and value and _arrays(value):
            numbered = {str(i): _tensor(v) for i, v in enumerate(value)}
            tensors |= nest(f"{name}/list", numbered)
    return tensors


def _arrays(values: list[Any]) -> bool:
    # numpy makes a scalar of what is computed from an array without dimensions
    return all(isinstance(v, np.ndarray | np.number) for v in values)


def _tensor(value: Any) -> Tensor:
    return torch.from_numpy(np.asarray(value))


def numbers_of(inner: object) -> dict[str, int | float]:
    """Every attribute that is a number: settings, and what moves (an adaptive clip's norm)."""
    return {name: x for name, x in vars(inner).items() if type(x) in (int, float)}


def put_back(inner: object, tensors: State, numbers: Mapping[str, int | float]) -> None:
    """Gives ``inner`` back what ``arrays_of`` returned, and those ``numbers`` that had moved."""
    for name, x in numbers.items():
        setattr(inner, name, x)
    for name, kind in {tuple(key.split("/")[:2]) for key in tensors}:
        part = unnest(f"{name}/{kind}", tensors)
        if kind == "record":
            setattr(inner, name, to_arrays(part))
        elif kind == "dict":
            setattr(inner, name, {k: v.numpy() for k, v in part.items()})
        else:
            setattr(inner, name, [part[str(i)].numpy() for i in range(len(part))])


class Compressed(ChannelStrategy):
    """Wraps ``strategy`` so that every model and every update travels as a payload.

        w' = w + C(A(w + u_1, ..., w + u_m) - w)

    Here A is the strategy inside, u_k the decoded update of a client, and C what clients decode;
    with a raw downlink the model is what the strategy inside returns.

    Args:
        strategy: any Message-API strategy (FedAvg, FedAdam, ...).
        uplink: how clients encode their updates.
        downlink: how the server encodes the change of the global model; raw by default.
        compress_evaluation: whether a model that clients evaluate is sent as the update of a round
            is, to clients that hold the one before. They get their ``client_mod`` at
            ``@app.evaluate`` too. Else it travels as float32 arrays.
        common: what else ``ChannelStrategy`` takes. With ``clients``, the number of clients, cohort
            and order of summation follow from partitions and ``seed``, the same on every engine,
            and the client app must answer who it is (``answer_partition``). Without, they follow
            from Flower's random node ids, as the strategy inside samples them. That strategy sees
            only the ``cohort``, so leave its fraction at 1; it does not see the ``buffers``.

    The strategy inside is given the clients' models, base plus update, as float64, so that its mean
    leaves what nobody sent as it was. Messages for evaluation pass through as it makes them.
    Where ``required`` is not given, a round goes on with the replies that came, as in Flower, and
    one without any leaves the model as it is; before the first step that raises ``TooFewReplies``,
    for then every client fails. Noise is for a whole cohort: around a strategy that adds some, and
    where ``required`` is given, fewer replies raise it, too. What would be silently wrong raises
    ``WrongOrder``: a strategy that cannot work inside, here; a wrapper around this one that clips,
    when it first calls ``configure_train``.

    Example:
        >>> from flwr.serverapp.strategy import FedAdam
        >>> from compressors import sbc
        >>> strategy = Compressed(FedAdam(), uplink=sbc(0.01))
    """

    def __init__(
        self,
        strategy: Strategy,
        uplink: Compressor,
        downlink: Compressor | None = None,
        *,
        compress_evaluation: bool = False,
        **common: Any,
    ) -> None:
        self.strategy, self._arrays = strategy, ARRAYS
        super().__init__(uplink, downlink, **common)
        inner_checks.check_inside(self, strategy)
        if compress_evaluation and isinstance(self.downlink, Raw):
            raise ValueError(
                "compress_evaluation is True and downlink is raw, which sends whole models: give "
                "a downlink, such as parse('sbc(0.05)'), here and to client_mod"
            )
        self.compress_evaluation = compress_evaluation
        self._scoring: dict[int, Message] = {}  # by node: messages for evaluation
        self._initial_numbers = {n: numbers_of(inner) for n, inner in self._inner()}
        # Noise is for all of a cohort.
        noise = any(isinstance(inner, PRIVATE) for inner in layers_of(strategy))
        self._others_go_on = self.required is None and not noise

    def weighs(self, rule: Algorithm | None) -> str:
        """As the strategy inside weighs clients."""
        return inner_checks.weighting_of(self.strategy)

    def ask(self, server_round: int, config: ConfigRecord, grid: Grid) -> list[Message]:
        """The messages of the strategy inside, with its arrays replaced by payloads."""
        channel = self.end
        arrays = lazy_arrays(channel.weights)
        for inner in layers_of(self.strategy):
            if isinstance(inner, FedAvgM):
                inner.current_arrays = arrays  # what clients hold, not what it wished they held
        self._grid = grid
        nodes, out = self.drawn(server_round, grid) if self.clients else ({}, {})
        app_config = config if channel.app is None else channel.app  # and it may change that
        if self.clients and not nodes:  # late updates may come and be enough
            # The strategy inside takes note of the model; it would wait for nodes, and is shown
            # some that are sent nothing.
            nobody = CohortGrid(grid, [*range(1, 1 + max(1, self._least()))])
            list(self.strategy.configure_train(server_round, arrays, app_config, nobody))
            channel.begin(server_round, [], out)
            return self._mail.send({})
        least = self._least()
        if self.clients and (out or not nodes) and len(nodes) < least:
            reasons = [f"; client {client}: {reason}" for client, reason in out.items()]
            raise TooFewReplies(  # the strategy inside would wait for nodes for ever
                f"{len(nodes)} clients of the cohort can be asked and the strategy inside waits "
                f"for {least} (min_available_nodes)" + "".join(reasons[:1])
            )
        inner_grid = CohortGrid(grid, [*nodes.values()]) if self.clients else grid
        messages = list(self.strategy.configure_train(server_round, arrays, app_config, inner_grid))
        self._arrays = inner_checks.record_name(messages, arrays)
        clients = {self.client_at(node): m for node, m in inner_checks.by_node(messages).items()}
        if self._arrays != ARRAYS:
            config = ConfigRecord({**config, NAMED: self._arrays})
        channel.begin(server_round, sorted(clients), out)
        for client, message in clients.items():
            records = message.content.items()  # strategies share one record between messages
            others = RecordDict({k: v for k, v in records if not isinstance(v, ArrayRecord)})
            message.content = channel.content(client, config, others)
        return self._mail.send(clients)

    def ties_of(self, weights: Tensors) -> str:
        """The arrays that begin equal: see ``compressors.whole.tied``."""
        return ",".join(f"{first} {other}" for first, other in pairs_of(weights))

    def _least(self) -> int:
        """How many nodes a strategy inside waits for."""
        return max(getattr(inner, "min_available_nodes", 0) for inner in layers_of(self.strategy))

    def advance(self, replies: Iterable[Message]) -> MetricRecord | None:
        """Moves to what the strategy inside makes of the decoded models, in client order."""
        channel = self.end
        arrived = self.collect(replies)
        odd = inner_checks.odd_ones(self.strategy, arrived, sorted(channel.traffic.uplinks))
        for client, reason in odd.items():
            channel.refuse(client, arrived[client], reason)
        if self.buffers is not None:
            channel.traffic.uplinks |= {
                c: inner_checks.weighed(up, arrived[c], self.buffers.weighting)
                for c, up in channel.traffic.uplinks.items()
            }
        least = int(channel.version == 0) if self._others_go_on else self.required
        uplinks = channel.finish(least)
        if channel.app is not None:
            for client, reason in sorted(channel.traffic.failures.items()):
                logging.getLogger("flwr").warning(  # as Flower's strategies log each that lacks
                    "round %s goes on without client %s: %s", channel.traffic.round, client, reason
                )
        if not uplinks:  # and none is required: the model stays
            return None
        inner_checks.check_number(self.strategy, len(uplinks))
        inner_checks.check_clipped(
            self.strategy, {client: up.update for client, up in uplinks.items()}
        )
        name, base = self._arrays, {n: x.double() for n, x in channel.weights.items()}
        decoded = [_as_model(arrived[c], base, up.update, name) for c, up in uplinks.items()]
        decoded = inner_checks.shown(self.strategy, decoded, base, name)
        arrays, metrics = self.strategy.aggregate_train(channel.traffic.round, decoded)
        if arrays is not None:
            target = to_tensors(arrays)
            inner_checks.check_model(target, channel.weights)
            if channel.follows:
                channel.advance({n: target[n] - x for n, x in channel.weights.items()})
            else:
                channel.replace(target)
        return metrics

    def state(self) -> tuple[State, dict[str, Any]]:
        """The channel's memory, and what the strategy inside remembers."""
        tensors, values = super().state()
        moved = {}
        for name, inner in self._inner():
            tensors |= nest(name, arrays_of(inner))
            now, initial = numbers_of(inner), self._initial_numbers[name]
            moved[name] = {key: x for key, x in now.items() if x != initial.get(key)}
        spent = {
            name: accountant.state_dict()  # of privacy
            for name, inner in self._inner()
            if (accountant := getattr(inner, "accountant", None)) is not None
        }
        return tensors, values | {"inner": moved} | ({"spent": spent} if spent else {})

    def restore(self, tensors: State, values: dict[str, Any]) -> None:
        super().restore(tensors, values)
        for name, inner in self._inner():
            numbers = values.get("inner", {}).get(name, {})
            put_back(inner, unnest(name, tensors), numbers)
            if name in values.get("spent", {}):
                inner.accountant.load_state_dict(values["spent"][name])  # type: ignore[attr-defined]

    def _inner(self) -> list[tuple[str, Strategy]]:
        """Where the memory of the strategy inside is kept, and of what that one wraps."""
        return [(f"inner{n or ''}", inner) for n, inner in enumerate(layers_of(self.strategy))]

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        """As the strategy inside; messages are counted in the round's ``traffic.wire``.

        With buffers, messages have the channel's id, so a client knows of which ``start`` its own
        buffers must be.
        """
        number = server_round + self._before
        messages = self.strategy.configure_evaluate(number, arrays, config, grid)
        if self.channel is None:
            return messages
        messages, self._grid = [*inner_checks.by_node(messages).values()], grid
        if self.compress_evaluation:
            self._arrays = inner_checks.record_name(messages, arrays)
            for message in messages:  # which share a content
                message.content = self._to_score(message)
            self._scoring = {message.metadata.dst_node_id: message for message in messages}
        elif self.buffers is not None:
            for message in messages:
                message.content[EVALUATED] = ConfigRecord({CHANNEL: self.channel.channel_id})
        return self.channel.traffic.wire.evaluating(messages)

    def aggregate_evaluate(
        self, server_round: int, replies: Iterable[Message]
    ) -> MetricRecord | None:
        """As the strategy inside, with ``bytes-up`` and ``bytes-down`` where messages travelled.

        A client that does not hold what the server believes is sent the whole model, and is waited
        for.

        Raises ``WrongOrder`` where every client fails and one lacks its ``client_mod``.
        """
        if self.channel is None:
            return self.strategy.aggregate_evaluate(server_round + self._before, replies)
        wire = self.channel.traffic.wire
        node_replies = {reply.metadata.src_node_id: reply for reply in wire.evaluated(replies)}
        again = []
        for node, reply in node_replies.items():
            if self.compress_evaluation and wants_model(reply):
                self.channel.base.pop(self.client_at(node), None)
                first = self._scoring[node]
                again.append(Message(self._to_score(first), node, first.metadata.message_type))
        if again and self._grid is not None:
            answers = self._grid.send_and_receive(wire.evaluating(again), timeout=self.timeout)
            node_replies |= {reply.metadata.src_node_id: reply for reply in wire.evaluated(answers)}
        errors = [reply for reply in node_replies.values() if reply.has_error()]
        failed = [cure(reply.error, error_text(reply), "evaluate") for reply in errors]
        if self.compress_evaluation and any(failed) and len(failed) == len(node_replies):
            raise WrongOrder(f"no client evaluates the model{max(failed)}")
        replies = [reply for reply in node_replies.values() if not wants_model(reply)]
        scores = {self.client_at(x.metadata.src_node_id): x for x in replies if not x.has_error()}
        odd = inner_checks.odd_ones(self.strategy, scores, sorted(scores))
        if len(odd) < len(scores):  # of none that it can use the strategy inside says so itself
            log = logging.getLogger("flwr")
            for client, reason in odd.items():
                log.warning("evaluation without client %s: %s", client, reason)
            refused = {id(scores[client]) for client in odd}
            replies = [reply for reply in replies if id(reply) not in refused]
        metrics = self.strategy.aggregate_evaluate(server_round + self._before, replies)
        return with_bytes(metrics, wire.scored()) if wire.evaluation else metrics

    def _to_score(self, message: Message) -> RecordDict:
        """A message for evaluation with its model as a payload."""
        records = message.content.items()
        others = RecordDict(
            {k: v for k, v in records if k not in OURS and not isinstance(v, ArrayRecord)}
        )
        settings = {} if self._arrays == ARRAYS else {NAMED: self._arrays}
        buffers = b"" if self.buffers is None else to_payload(self.buffers.values)
        client = self.client_at(message.metadata.dst_node_id)
        return self.end.scoring(client, settings, others, buffers)

    def summary(self) -> None:
        """As the strategy inside."""
        self.strategy.summary()


def _as_model(reply: Message, base: dict[str, Tensor], update: Tensors, name: str) -> Message:
    """The reply as the strategy inside expects it: one model, under ``name``, one set of metrics.

    In float64: the mean of equal float32 numbers, as Flower takes it, is often not that number.
    Rounded to float32 again, the mean of entries that nobody sent is what they were, to the bit.
    """
    model = lazy_arrays({n: x + update[n] for n, x in base.items()})
    content = RecordDict({k: v for k, v in reply.content.items() if k not in OURS})
    content[name] = model
    reply.content = content
    return reply
