"""A model in equal parts, each of which has a line of its own, and the client's end of these lines.

A message holds a record per part, as the message of a model of that part alone would; so does the
reply. Every part has a version, a memory and an acknowledgement of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from compressors import Compressor, Packet, Sent, State, Tensors, derive
from compressors.whole.memory import nest, unnest
from strategies.channel.client_end import ClientEnd, Delivery, Encoded, Encoding
from strategies.channel.payload import CLIENT, KEY, METRICS, OURS, SENT, Settings


class ModelParts:
    """A model's entries in as many runs of equal length as there are parts; they may cut a tensor.

    Args:
        template: the model's parameters; values are not read.
        count: how many parts.

    Attributes:
        spans: of each part, by name: which entries of a tensor, flat, it holds.

    Raises ``ValueError`` where the model has fewer entries than parts are wanted.

    Example:
        >>> parts = ModelParts({"a": torch.zeros(2, 2), "b": torch.zeros(2)}, 2)
        >>> [{n: len(x) for n, x in parts.cut(parts.template, i).items()} for i in (0, 1)]
        [{'a': 3}, {'a': 1, 'b': 2}]
    """

    def __init__(self, template: Tensors, count: int) -> None:
        self.template, self.count = dict(template), count
        total = sum(x.numel() for x in template.values())
        if count > total:
            raise ValueError(f"a model of {total} entries cannot be held in {count} parts")
        self.spans: list[dict[str, slice]] = [{} for _ in range(count)]
        for place, spans in enumerate(self.spans):
            low, high, start = total * place // count, total * (place + 1) // count, 0
            for name, x in template.items():
                first, last = max(low - start, 0), min(high - start, x.numel())
                if first < last:
                    spans[name] = slice(first, last)
                start += x.numel()

    def cut(self, tensors: Tensors, place: int) -> dict[str, Tensor]:
        """One part of the tensors, flat."""
        spans = self.spans[place].items()
        return {name: tensors[name].reshape(-1)[span] for name, span in spans}

    def join(self, parts: Sequence[Tensors]) -> dict[str, Tensor]:
        """The tensors of all parts, in their shapes."""
        return {
            name: torch.cat([part[name] for part in parts if name in part]).view(x.shape)
            for name, x in self.template.items()
        }


def line_seed(seed: int, place: int) -> int:
    """The seed of a part's line; the first has that of the run."""
    return derive(seed, "shard", place) if place else seed


def join_parts(contents: Sequence[RecordDict], client: int) -> RecordDict:
    """One content of those of all parts."""
    joined = RecordDict({KEY: ConfigRecord({CLIENT: client})})
    for place, content in enumerate(contents):
        for name, record in content.items():
            joined[f"{name}/{place}"] = record
    return joined


def part_of(content: RecordDict, place: int) -> RecordDict:
    """The content of one part, with the client's numbers of that part."""
    names = {f"{name}/{place}": name for name in (*OURS, METRICS)}
    return RecordDict({names[name]: x for name, x in content.items() if name in names})


@dataclass(frozen=True)
class PartsDelivery(Delivery):
    """The deliveries of all parts as one; ``each``: that of each of them."""

    each: tuple[Delivery, ...] = ()


@dataclass(frozen=True)
class PartsPacket(Packet):
    """The messages to all parts; ``each``: that to each of them, ``payload`` all of them."""

    each: tuple[Packet, ...] = ()


@dataclass(frozen=True)
class PartsEnd:
    """``ClientEnd`` to a model in ``count`` parts; ``end``: of a channel to the whole model."""

    end: ClientEnd
    count: int

    @property
    def uplink(self) -> Compressor:
        """How the client encodes its updates."""
        return self.end.uplink

    @cached_property
    def parts(self) -> ModelParts:
        """How the model is cut."""
        return ModelParts(self.end.template, self.count)

    @cached_property
    def ends(self) -> tuple[ClientEnd, ...]:
        """A line per part."""
        return tuple(
            replace(
                self.end,
                template=self.parts.cut(self.end.template, place),
                buffers={},
                seed=line_seed(self.end.seed, place),
            )
            for place in range(self.count)
        )

    @property
    def template(self) -> dict[str, Tensor]:
        """What travels, by its part: ``PART/TENSOR``."""
        ends = enumerate(self.ends)
        return {f"{i}/{name}": x for i, end in ends for name, x in end.template.items()}

    def decode(
        self,
        content: RecordDict,
        memory: State | None,
        samples: int = 1,
        settings: Settings | None = None,
    ) -> PartsDelivery:
        """As ``ClientEnd.decode``, every part with a memory of its own."""
        each = tuple(
            end.decode(part_of(content, place), unnest(f"shard-{place}", memory or {}) or None)
            for place, end in enumerate(self.ends)
        )
        weights = self.parts.join([delivery.weights for delivery in each])
        first = each[0]
        shared = first.settings, first.first, first.ack
        return PartsDelivery(weights, {}, *shared, samples=samples, each=each)

    def encode(self, client: int | str, update: Tensors, delivery: Delivery) -> Encoding:
        """As ``ClientEnd.encode``; yields a message per part."""
        assert isinstance(delivery, PartsDelivery)
        packets, memory, sent, seconds = [], State(), Sent(), 0.0
        for place, (end, part) in enumerate(zip(self.ends, delivery.each, strict=True)):
            cut = self.parts.cut(update, place)
            packet, after, part_seconds = yield from end.encode(client, cut, part)
            seconds += part_seconds
            memory |= nest(f"shard-{place}", after)
            sent |= {f"{place}/{name}": x for name, x in packet.sent.items()}
            packets.append(packet)
        payload = b"".join(packet.payload for packet in packets)
        joined = PartsPacket(payload, sent, packets[0].spans, tuple(packets))
        return Encoded(joined, memory, seconds)

    def reply(
        self,
        content: RecordDict,
        packet: Packet,
        delivery: Delivery,
        side_payloads: Mapping[str, bytes],
    ) -> None:
        """The metrics in ``content`` go to each part, with its entries."""
        assert isinstance(packet, PartsPacket) and isinstance(delivery, PartsDelivery)
        metrics = content.metric_records.pop(METRICS)
        counts = dict(zip(self.template, cast(list[int], metrics[SENT]), strict=True))
        parts = zip(self.ends, packet.each, delivery.each, strict=True)
        for place, (end, part_packet, part_delivery) in enumerate(parts):
            record = RecordDict()
            end.reply(record, part_packet, part_delivery, side_payloads)
            sent = [count for name, count in counts.items() if name.startswith(f"{place}/")]
            record[METRICS] = MetricRecord({**metrics, "sent": sum(sent), SENT: sent})
            for name, value in record.items():
                content[f"{name}/{place}"] = value


Line = ClientEnd | PartsEnd  # a client's end of the channel, to a whole model or to one in parts
