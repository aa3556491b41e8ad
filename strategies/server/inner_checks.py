"""Checks of the strategy inside ``Compressed``: refused are those that would be silently wrong.

A strategy that clips sees what the server decoded, and that is right. Where the client clips, and
the server's noise rests on that clip, what arrives may not be longer than what was clipped: a
residual makes it longer, or a quantizer does.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord, Message
from flwr.serverapp.strategy import (
    Bulyan,
    FedMedian,
    FedTrimmedAvg,
    FedXgbBagging,
    FedXgbCyclic,
    Krum,
    MultiKrum,
    QFedAvg,
    Strategy,
)

from compressors import Compressor, Packet, State, Tensors, compress
from compressors.grammar import message_text
from strategies.channel.payload import OURS, lazy_arrays
from strategies.channel.traffic import Uplink
from strategies.server.base import ChannelStrategy
from strategies.server.wrappers import CLIENT_SIDE, PRIVATE, WrongOrder, layers_of

_NO_MEAN = FedMedian, FedTrimmedAvg, Krum, MultiKrum, Bulyan, QFedAvg
"""Strategies whose model is not the mean of all clients by the weights of their metrics."""

_ROUNDING = 1e-5  # of a norm: float32 holds 24 bits of every entry
_PROBE = 256  # entries of the update that shows whether a method lengthens updates


def check_inside(outer: ChannelStrategy, inner: Strategy) -> None:
    """Refuses an ``inner`` strategy that ``Compressed`` cannot have inside, when it is built.

    Raises ``WrongOrder``, which names what works.
    """
    if isinstance(inner, type) and issubclass(inner, Strategy):
        raise WrongOrder(f"{inner.__name__} is a class: give Compressed({inner.__name__}(), ...)")
    if not isinstance(inner, Strategy):
        kind = type(inner)
        raise WrongOrder(
            f"Compressed wraps a strategy of flwr.serverapp.strategy, and {kind.__module__}."
            f"{kind.__name__} is none: give Compressed(FedAvg(), uplink, downlink)"
        )
    for layer in layers_of(inner):
        name = type(layer).__name__
        least = max(getattr(layer, f"min_{what}_nodes", 0) for what in ("available", "train"))
        if outer.cohort is not None and outer.cohort < least:
            raise WrongOrder(
                f"{name} waits for {least} nodes, and clients or cohort is {outer.cohort}: give "
                f"{name}(min_available_nodes={outer.cohort}, min_train_nodes={outer.cohort})"
            )
        if isinstance(layer, FedXgbBagging | FedXgbCyclic):
            raise WrongOrder(f"{name} inside Compressed: trees are not updates; use {name} alone")
        if isinstance(layer, ChannelStrategy):
            raise WrongOrder(f"{name} inside Compressed: updates are compressed once; use one")
        if type(layer).start is not Strategy.start:
            raise WrongOrder(
                f"{name} has a start() of its own, which Compressed would never call: give it to a "
                "subclass of Compressed, whose start() is the one that runs"
            )
        if isinstance(layer, FedMedian):
            _check_share(outer.uplink)
        if isinstance(layer, PRIVATE):
            _check_replies(outer, layer.num_sampled_clients, name)
        if isinstance(layer, CLIENT_SIDE):
            _check_length(outer.uplink, name)


def _check_replies(outer: ChannelStrategy, clients: int, name: str) -> None:
    """The noise is divided by a number of clients: with fewer replies it would be too small."""
    for setting, value in (("cohort", outer.cohort), ("required", outer.required)):
        if value is not None and value != clients:
            raise WrongOrder(
                f"{setting} is {value}, and the noise of {name} is for num_sampled_clients, "
                f"{clients}: they have to be equal"
            )


def _check_share(uplink: Compressor) -> None:
    """Refuses uplinks with which most entries come from less than half of the clients: median 0."""
    sent = try_method(uplink)[0].sent["w"].count
    if 2 * sent < _PROBE:
        raise WrongOrder(
            f"FedMedian does not move if {message_text(uplink)} sends {sent / _PROBE:.0%} of the "
            "entries: use FedAvg, or an uplink that sends every entry"
        )


def _check_length(uplink: Compressor, name: str) -> None:
    """Whether updates that were clipped arrive clipped."""
    packet, memory = try_method(uplink)
    norm = float(packet.sent["w"].decoded.norm())
    if memory:
        reason = "sends what it kept of earlier updates too"
    elif norm > 1 + _ROUNDING:
        reason = f"makes an update of norm 1 one of norm {norm:.3g}"
    else:
        return
    server = name.replace("ClientSide", "ServerSide")
    raise WrongOrder(
        f"{name} has updates clipped before {message_text(uplink)}, which {reason}: "
        f"Compressed({server}(...), ...) clips what arrives"
    )


def try_method(uplink: Compressor) -> tuple[Packet, State]:
    """The message of a method for one normal update of norm 1, and its memory afterwards."""
    drawn = torch.Generator().manual_seed(0)
    x = torch.randn(_PROBE, generator=drawn, dtype=torch.float32, device="cpu")
    return compress(uplink, {"w": x / x.norm()}, seed=0)


def record_name(messages: list[Message], arrays: ArrayRecord) -> str:
    """The key under which the strategy inside sends the model.

    Raises ``WrongOrder`` where it sends more than the model, or another than ``arrays``: it is the
    shared model that all clients are sent, and nothing else.
    """
    name = "arrays"
    for message in messages:
        records = message.content.array_records
        if len(records) != 1:
            raise WrongOrder(
                f"the strategy inside sends {len(records)} ArrayRecords ({', '.join(records)}): "
                "Compressed carries one, the model; put the rest into a ConfigRecord"
            )
        ((name, record),) = records.items()
        if record is not arrays and record != arrays:
            raise WrongOrder(
                "the strategy inside sends a client another model than the shared one: "
                "Compressed sends all clients the same; use the strategy alone"
            )
    return name


def by_node(messages: Iterable[Message]) -> dict[int, Message]:
    """The messages of a strategy inside by the node that each goes to.

    Raises ``WrongOrder`` where a node has two: a client answers one message of a round.
    """
    messages_of: dict[int, Message] = {}
    for message in messages:
        node = message.metadata.dst_node_id
        if node in messages_of:
            raise WrongOrder(
                f"the strategy inside sends node {node} two messages in a round: Compressed takes "
                "one, since a client has one update of a round; send one"
            )
        messages_of[node] = message
    return messages_of


def check_model(model: Tensors, weights: Tensors) -> None:
    """Refuses a model of the strategy inside that is not of the shared model's names and shapes.

    Raises ``WrongOrder``, which names what differs.
    """
    shapes = {name: tuple(x.shape) for name, x in model.items()}
    expected = {name: tuple(x.shape) for name, x in weights.items()}
    if shapes == expected:
        return
    problem = "the strategy inside makes a model"
    if missing := [name for name in expected if name not in shapes]:
        reason = f"without {', '.join(missing)}"
    elif more := [name for name in shapes if name not in expected]:
        reason = f"with {', '.join(more)}, which clients do not have"
    else:
        name = next(name for name in expected if shapes[name] != expected[name])
        reason = f"whose {name} is of {shapes[name]}, and clients' is of {expected[name]}"
    raise WrongOrder(
        f"{problem} {reason}: give back every array that clients train; name those that nobody "
        "does (frozen=) to the strategy and to client_mod"
    )


def weighting_of(inner: object) -> str:
    """The name of the clients' metric by which the mean inside is weighted, else ``uniform``.

    It is uniform if the strategy adds noise (``shown``), or if its model is not such a mean.
    """
    layers = [*layers_of(inner)]
    if any(isinstance(layer, (*PRIVATE, *_NO_MEAN)) for layer in layers):
        return "uniform"
    keys = (getattr(layer, "weighted_by_key", "") for layer in layers)
    return next(filter(None, keys), "uniform")


def weighed(up: Uplink, reply: Message, key: str) -> Uplink:
    """An uplink with the number of its reply by which clients are weighted."""
    for record in reply.content.metric_records.values():
        if isinstance(value := record.get(key), int | float):
            return replace(up, metrics={**up.metrics, key: float(value)})
    return up


def check_clipped(inner: Strategy, updates: Mapping[int, Tensors]) -> None:
    """Refuses updates that are longer than the clip on which the server's noise rests.

    ``updates``: what clients sent, decoded, by client. Raises ``WrongOrder``: the client lacks the
    mod that clips.
    """
    for layer in layers_of(inner):
        if not isinstance(layer, CLIENT_SIDE):
            continue
        mod = "fixedclipping_mod" if "Fixed" in type(layer).__name__ else "adaptiveclipping_mod"
        for client, update in updates.items():
            norm = float(torch.stack([x.double().norm() for x in update.values()]).norm())
            if norm > layer.clipping_norm * (1 + _ROUNDING):
                raise WrongOrder(
                    f"client {client}'s update has norm {norm:.3g} and the clip allows "
                    f"{layer.clipping_norm:.3g}: the client needs mods=[client_mod(...), {mod}]"
                )


def check_number(inner: Strategy, updates: int) -> None:
    """Refuses a round of another number of ``updates`` than the noise inside is set for."""
    for layer in layers_of(inner):
        if isinstance(layer, PRIVATE) and layer.num_sampled_clients != updates:
            raise WrongOrder(
                f"{updates} clients answered, and the noise of {type(layer).__name__} is for "
                f"num_sampled_clients, {layer.num_sampled_clients}: they have to be equal"
            )


def shown(inner: Strategy, models: list[Message], base: Tensors, name: str) -> list[Message]:
    """The clients' ``models``, under ``name``, as a strategy inside that adds noise needs them.

    Its noise is for equal weights, so each client counts as one example, and its own number is
    ignored. Flower divides by the norm of an update: in one that is zero, an entry moves by what
    no float32 shows.
    """
    layers = list(layers_of(inner))
    if not any(isinstance(layer, PRIVATE) for layer in layers):
        return models
    keys = {key for layer in layers if (key := getattr(layer, "weighted_by_key", None))}
    for model in models:
        for record in model.content.metric_records.values():
            record.update({key: 1 for key in keys if key in record})
        arrays = model.content.array_records[name]
        if all(np.array_equal(arrays[n].numpy(), x.cpu().numpy()) for n, x in base.items()):
            moved = {n: x.clone() for n, x in base.items()}
            entries = next(x for x in moved.values() if x.numel()).view(-1)
            entries[0] += max(1e-100, 2**-51 * abs(float(entries[0])))
            model.content[name] = lazy_arrays(moved)
    return models


def odd_ones(
    inner: Strategy, replies: Mapping[int, Message], clients: Sequence[int]
) -> dict[int, str]:
    """Those of ``clients`` whose replies the strategy inside could not average, and why.

    Flower's strategies make no model of replies whose records differ in their names, and weight
    each reply by one of its numbers. The names that most replies have are expected of all; in a
    tie, those of the first reply.
    """
    named = {client: _named(replies[client]) for client in clients}
    usual = Counter(named.values()).most_common(1)[0][0] if named else ()
    keys = [key for layer in layers_of(inner) if (key := getattr(layer, "weighted_by_key", None))]
    odd = {}
    for client, names in named.items():
        if names != usual:
            differ = sorted({name for name, _ in {*names} ^ {*usual}})
            odd[client] = f"its reply is not like the others in {', '.join(differ)}"
        records = [*replies[client].content.metric_records.values()]
        for key in keys:
            if client not in odd and not any(key in record for record in records):
                odd[client] = (
                    f"its reply has no {key}: answer MetricRecord({{'{key}': len(data), ...}}) "
                    "beside the arrays"
                )
        for record in records:
            for key in keys:
                weight = record.get(key, 1.0)
                if not (isinstance(weight, int | float) and 0 <= weight < math.inf):
                    odd[client] = f"{key} is {weight!r}: it is a finite number, not negative"
    return odd


def _named(reply: Message) -> tuple[tuple[str, Any], ...]:
    """The names in a reply's records, with the lengths of lists."""
    listed: list[tuple[str, Any]] = []
    for name, record in reply.content.items():
        if name in OURS:
            continue
        listed += [(name, type(record).__name__)]
        for key, value in record.items():
            listed += [(f"{name}/{key}", len(value) if isinstance(value, list) else None)]
    return tuple(sorted(listed, key=str))
