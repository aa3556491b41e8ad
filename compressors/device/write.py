"""Messages of updates on a GPU: the same bytes as the host's, made where the updates lie.

The host waits for the device once, for a report with the finished bits; twice more where a sum is
in doubt (``compressors.device.numbers``). The number of tensors plays no part, nor does that of the
messages, nor that of the rules of ``by_name``, which wait together: the segments of several
messages are as many times the tensors. From the third message of a method and of sizes on, the
device's work is repeated as a graph.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, LazyPacket, Sent, SentTensor, State, tensor_seed
from compressors.bits import SPANS, BitWriter, Span
from compressors.device.encode import Report, encode_on_device, no_corrections, read_report
from compressors.device.layout import Frame, frame_of
from compressors.device.read import decode_on_device
from compressors.errors import NotFinite
from compressors.grammar import short_text
from compressors.kernels import noise
from compressors.kernels.gpu.graphs import RECORDERS, Recordings, Repeated
from compressors.kernels.gpu.join import NOT_FINITE, OVERFLOWS, addresses, join
from compressors.kernels.gpu.layout import (
    cut,
    fetch,
    on,
    packed,
    pieces,
    refill,
    send,
    unpacked,
    upload,
)
from compressors.quantize.dither import NORM_NOISE
from compressors.segments.plan import Plan, Rules, plan_of
from compressors.segments.room import Stream
from compressors.usercode import error_text
from compressors.whole.memory import nest, recall, unnest
from compressors.whole.pipeline import ROUND

RECORDINGS = Recordings()
"""The graphs of messages, by method, sizes, number of messages and device."""

_BYTES = 16  # of a graph's memory per entry, about: the vector, places, symbols, candidates
_TRIALS = 8
_COMPARED = slice(Report._fields.index("counts"), None)


class Begun(NamedTuple):
    """A message to be made of an ``update``, with the memory before, its seed and its header."""

    update: dict[str, Tensor]
    state: State
    seed: int
    header: bytes


@dataclass(frozen=True, eq=False)
class MessagePart:
    """The tensors of one message that one plan is for.

    Args:
        plan: their method.
        update: the tensors.
        residual: their residual, or None.
        seed: of their noise.
    """

    plan: Plan
    update: dict[str, Tensor]
    residual: dict[str, Tensor] | None
    seed: int


@dataclass(frozen=True, eq=False)
class Done:
    """One plan's bits of one message, and what goes with them.

    Args:
        part: whose.
        words: the bits, and more.
        spans: their account.
        counts: how many entries of each tensor travel: int64 (tensors,).
        origins: where those of each tensor start in ``positions``: int64 (tensors,).
        offsets: and in ``values``.
        positions: of all messages, within the segments; None where every entry travels.
        values: what they become.
        residual: of the tensors; of none: empty.
    """

    part: MessagePart
    words: np.ndarray
    spans: dict[Span, int]
    counts: np.ndarray
    origins: np.ndarray
    offsets: np.ndarray
    positions: Tensor | None
    values: Tensor | None
    residual: dict[str, Tensor]

    @property
    def bits(self) -> int:
        """How many bits there are."""
        return sum(self.spans.values())

    def sent(self) -> Sent:
        """What the receiver will see of tensors of which not every entry travels."""
        if self.positions is None or self.values is None:
            return {}
        counts, joined = self.counts.tolist(), self.part.plan.joined
        places = pieces(self.positions, self.origins.tolist(), counts)
        parts = pieces(self.values, self.offsets.tolist(), counts)
        sent: Sent = {}
        start = 0
        for j, (name, x) in enumerate(self.part.update.items()):
            if not (x.numel() or joined):
                sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
                continue
            sent[name] = SentTensor(parts[j], places[j] - start if joined else places[j], x.shape)
            start += x.numel()
        return sent


class DeviceMessage(LazyPacket):
    """A message of kernels, with what ``sent`` is made of."""

    compressor: Any
    update: dict[str, Tensor]
    done: list[Done]

    @property
    def counts(self) -> dict[str, int]:
        """How many entries of each tensor travel."""
        each = ((one.part.update, one.counts.tolist()) for one in self.done)
        many = {name: n for names, counts in each for name, n in zip(names, counts, strict=True)}
        return {name: many[name] for name in self.update}

    @cached_property
    def sent(self) -> Sent:
        """What the receiver will see of each tensor."""
        sent = {name: tensor for one in self.done for name, tensor in one.sent().items()}
        if len(sent) < len(self.update):
            delivery = decode_on_device(self.compressor, self.payload, self.update)
            if delivery is None:
                raise NotFinite(f"what arrives by {short_text(self.compressor)} overflows float32")
            dense = delivery[0]
            sent = {n: SentTensor(x, ALL, x.shape) for n, x in dense.items()} | sent
        return {name: sent[name] for name in self.update}


def write_messages(compressor: Any, begun: Sequence[Begun]) -> list[DeviceMessage]:
    """The messages of updates of the same names and shapes, whose tensors lie on one device.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where a memory belongs to another model.
    """
    plan = plan_of(compressor)
    with on(next(iter(begun[0].update.values())).device):
        if isinstance(plan, Plan):
            parts = [
                MessagePart(plan, update, _recalled(update, state) if plan.keeps else None, seed)
                for update, state, seed, _ in begun
            ]
            return [
                DeviceMessage(
                    compressor=compressor,
                    payload=_payload(one, header),
                    spans=one.spans,
                    state=nest("residual", one.residual),
                    update=update,
                    done=[one],
                )
                for (update, _, _, header), (one,) in zip(begun, _messages_of([parts]), strict=True)
            ]
        assert plan is not None, "a method without kernels"
        return _by_rules(compressor, plan, begun)


def _payload(done: Done, header: bytes) -> bytes:
    """The header and the bits, to a whole byte: written once, to the memory of the message."""
    size = len(header) + (done.bits + 7) // 8
    room = Stream(8 * size)
    content = room.words.view(np.uint8)
    content[: len(header)] = np.frombuffer(header, np.uint8)
    content[len(header) : size] = done.words.view(np.uint8)[: size - len(header)]
    del content
    return room.close(size)


def _by_rules(compressor: Any, rules: Rules, begun: Sequence[Begun]) -> list[DeviceMessage]:
    """Each rule's tensors by its members plan, and one message of all."""
    parts: dict[int, list[MessagePart]] = {}
    for update, state, seed, _ in begun:
        residuals = _recalled(update, state) if rules.keeps else None
        for i, (_, some) in enumerate(rules.names.parts(update)):
            plan, residual = rules.plans[i], None
            if some and plan.keeps:
                memory = residuals or _recalled(some, unnest(f"{i}", state))
                residual = {name: memory[name] for name in some}
            if some:
                part = MessagePart(plan, some, residual, tensor_seed(seed, i))
                parts.setdefault(i, []).append(part)
    messages = []
    for (update, *_, header), done in zip(begun, _messages_of([*parts.values()]), strict=True):
        out, spans = BitWriter(), dict.fromkeys(SPANS, 0)
        out.uints(np.frombuffer(header, np.uint8), 8)
        for one in done:
            whole_words, left_bits = divmod(one.bits, 32)
            words = one.words.view(">u4").astype(np.uint32)
            out.uints(words[:whole_words], 32)
            if left_bits:
                out.uint(int(words[whole_words]) >> (32 - left_bits), left_bits)
            spans = {name: spans[name] + one.spans[name] for name in SPANS}
        after: State = {}
        if rules.keeps:
            carried = {name: x for one in done for name, x in one.residual.items()}
            after = nest("residual", {name: carried[name] for name in update})
        else:
            for i, one in zip(parts, done, strict=True):
                after |= nest(f"{i}", nest("residual", one.residual))
        messages.append(
            DeviceMessage(
                compressor=compressor,
                payload=out.to_bytes(),
                spans=spans,
                state=after,
                update=update,
                done=[*done],
            )
        )
    return messages


def _recalled(update: dict[str, Tensor], state: State) -> dict[str, Tensor]:
    """The residual of these tensors, where they lie."""
    residuals = recall("residual", state, {name: x.shape for name, x in update.items()})
    return {name: send(residuals[name], x.device) for name, x in update.items()}


def _messages_of(groups: Sequence[Sequence[MessagePart]]) -> list[tuple[Done, ...]]:
    """The parts of each message. A group has one plan's part of every message."""
    runs = [_Run(parts) for parts in groups]
    try:
        for run, fetched in zip(runs, fetch(*(run.encoded.report for run in runs)), strict=True):
            run.read(fetched)
        parts_of = [*zip(*(run.finished() for run in runs), strict=True)]
        for run in runs:
            run.record()
        return parts_of
    finally:
        for run in runs:
            run.close()


class _Run:
    """One plan's part of messages, in the making: started when it is built."""

    def __init__(self, parts: Sequence[MessagePart]) -> None:
        self.parts, self.plan = parts, parts[0].plan
        # Most tensors are contiguous: these are themselves.
        self.update = [x.contiguous() for one in parts for x in one.update.values()]
        memory = [x.contiguous() for one in parts for x in (one.residual or {}).values()]
        self.residual = memory if self.plan.keeps else None
        device, many = self.update[0].device, len(parts)
        sizes = tuple(x.numel() for x in self.update[: len(self.update) // many])
        self.key = (self.plan, sizes, many, device)
        self.frame: Frame = frame_of(*self.key)
        self.arrays = self._arrays()
        recorded = RECORDINGS.take(self.key)
        self.new, self.repeated = recorded is None, recorded or Repeated()
        self.corrected = set[str]()
        host_inputs = torch.from_numpy(packed(*self.arrays.values()))
        if self.repeated.inputs is None:
            self.inputs = send(host_inputs, device)
            views = unpacked(self.inputs, *self.arrays.values())
            self.tensors = dict(zip(self.arrays, views, strict=True)) | no_corrections(self.frame)
        else:
            self.inputs, self.tensors = self.repeated.inputs, self.repeated.tensors
            refill(self.inputs, host_inputs)
        self.encoded = self._carried_out()

    def _arrays(self) -> dict[str, np.ndarray]:
        """What goes to the device for these messages."""
        arrays = {"updates": addresses(self.update)}
        if self.residual is not None:
            arrays["residuals"] = addresses(self.residual)
        scheme, segments = self.plan.scheme, len(self.frame.base) // len(self.parts)
        if scheme.kind.random:
            members = [tensor_seed(one.seed, s) for one in self.parts for s in range(segments)]
            seeds = [tensor_seed(seed, ROUND) for seed in members]
            arrays["keys"] = np.array([noise.key(seed) for seed in seeds], np.int64)
            if scheme.powers:
                norms = [noise.key(tensor_seed(seed, NORM_NOISE)) for seed in seeds]
                arrays["number_keys"] = np.array(norms, np.int64)
        if scheme.factor is not None:
            arrays["factors"] = scheme.factors(self.frame.nominal_counts)
        return arrays

    def _carried_out(self) -> Any:
        if (recording := self.repeated.recording) is None:
            return encode_on_device(self.frame, self.tensors)
        recording.repeat()
        return recording.result

    def read(self, fetched: np.ndarray) -> None:
        """Takes the report; where numbers are in doubt, the host's go in their place."""
        self.report: Report = read_report(self.frame, fetched)
        self._check()
        while self._corrects():
            self.encoded = self._carried_out()
            (fetched,) = fetch(self.encoded.report)
            self.report = read_report(self.frame, fetched)

    def _corrects(self) -> bool:
        """Whether the work is to be carried out again, by what only the host could tell."""
        scheme, doubts, stale = self.plan.scheme, self.report.doubts, False
        if scheme.factor is not None:
            factors = scheme.factors(self.report.counts)
            stale = not np.array_equal(factors, self.arrays["factors"])
            self.arrays["factors"] = factors
            self.tensors["factors"].copy_(upload(self.inputs.device, factors)[0])
        if len(doubts) or len(self.report.unsure):
            self._settle(doubts, self.report.unsure)
            return True
        return stale

    def _check(self) -> None:
        """Raises ``NotFinite`` where a tensor, or its sum with the memory, is not finite."""
        names = [*self.parts[0].update]
        for flag, problem in (
            (NOT_FINITE, "holds NaN or infinity: no message can carry it"),
            (OVERFLOWS, "and its memory overflow float32"),
        ):
            for s in np.flatnonzero(self.report.wrong & flag).tolist():
                raise NotFinite(f"tensor {names[s % len(names)]!r} {problem}")

    def _settle(self, doubts: np.ndarray, unsure: np.ndarray) -> None:
        """Gives the device the numbers, and sides, that the host computes of the same values."""
        flat, number = self.encoded.flat, self.plan.scheme.number
        if self.residual is not None:  # what was the vector is the residual now
            tensors = self.tensors
            flat, _ = join(tensors["updates"], tensors["residuals"], self.frame.tensors)
        values = list[float]()
        if self.plan.sides == 2:
            places = np.union1d(doubts, unsure)
            starts, sides = self.frame.layout.starts, list[int]()
            for part in fetch(*(flat[starts[s] : starts[s + 1]] for s in places.tolist())):
                x = torch.from_numpy(part)
                indices, _ = self.plan.pipeline.sparsify.select(x, 0)
                sides.append(int(bool(x[indices[0]] < 0)))
                values += [] if number is None else [number.by_host(x[indices])]
            self._put("host_sides", places, np.array(sides))
        else:
            places = doubts
            assert number is not None
            parts = fetch(*(self._part(flat, j) for j in places.tolist()))
            values = [number.by_host(torch.from_numpy(x)) for x in parts]
        if number is not None:
            self._put("host_numbers", places, np.array(values, np.float32))

    def _put(self, name: str, places: np.ndarray, values: np.ndarray) -> None:
        tensor = self.tensors[name]
        self.corrected.add(name)
        where, some = upload(tensor.device, places, values)
        tensor.index_copy_(0, where, some[: len(places)])

    def _part(self, flat: Tensor, j: int) -> Tensor:
        """The values that the j-th number is of."""
        frame, counts, buckets = self.frame, self.report.counts, self.frame.buckets
        s, first, count = j, 0, int(counts[j]) if buckets is None else 0
        if buckets is not None:
            s, count = int(buckets.segment[j]), int(buckets.counts(counts)[j])
            first = int(buckets.rank[j]) * buckets.size
        start = int(frame.layout.starts[s])
        if self.encoded.positions is None:
            return flat[start + first : start + first + count]
        places = self.encoded.positions.narrow(0, int(frame.base[s]) + first, count)
        return flat[places + start]

    def finished(self) -> list[Done]:
        """The parts of all messages."""
        report, frame, plan, many = self.report, self.frame, self.plan, len(self.parts)
        _, flat, positions, values = self.encoded
        if self.repeated.inputs is not None:  # the next message is made in the same memory
            positions = None if positions is None else positions.clone()
            values = None if values is None else values.clone()
        residuals_after: list[dict[str, Tensor]] = [{}] * many
        if plan.keeps:
            update = self.parts[0].update
            flats = [flat]
            if many > 1 or self.repeated.inputs is not None:
                # So that no client's memory keeps another's alive.
                flats = [x.clone() for x in flat.split(flat.numel() // many)]
            parts = (cut(one, [x.shape for x in update.values()]) for one in flats)
            residuals_after = [dict(zip(update, one, strict=True)) for one in parts]
        origins = frame.base + report.sides * int(frame.nominal_counts.sum())
        done = []
        for i, (part, residual_after) in enumerate(zip(self.parts, residuals_after, strict=True)):
            members = slice(i * len(frame.base) // many, (i + 1) * len(frame.base) // many)
            counts, before = report.counts[members], np.zeros(1, np.int64)
            if plan.joined:
                ends = report.ends[i] if plan.sides else _ends(part.update)
                counts = np.diff(ends, prepend=0)
                before = ends - counts
            done.append(
                Done(
                    part=part,
                    words=report.words[i],
                    spans=report.spans(i),
                    counts=counts,
                    origins=origins[members] + before,
                    offsets=frame.base[members] + before,
                    positions=positions,
                    values=values,
                    residual=residual_after,
                )
            )
        return done

    def record(self) -> None:
        """Records the work from the second message of its kind on, and compares its first bits."""
        record = RECORDERS.get(self.inputs.device.type)
        if record is None or self.new or self.repeated.refused or self.repeated.inputs is not None:
            return
        size = _BYTES * self.frame.layout.total + self.encoded.report.nbytes
        if not RECORDINGS.takes(size, self.inputs.device):
            return
        work = partial(encode_on_device, self.frame, self.tensors)
        try:
            work()  # tables that other messages have displaced are uploaded now, not in the graph
            recording = record(work)
            recording.repeat()
            (fetched,) = fetch(recording.result.report)
        except Exception as error:
            self._refuse(error_text(error))
            return
        again, before = read_report(self.frame, fetched), self.report
        if len(again.doubts) or len(again.unsure):  # sums in another order
            self.repeated = Repeated(trials=self.repeated.trials + 1)
            if self.repeated.trials == _TRIALS:
                self._refuse("sums are in doubt each time")
            return
        if not all(map(np.array_equal, again[_COMPARED], before[_COMPARED])):
            self._refuse("its bits differ")
            return
        held = self.frame, recording.held
        recording = recording._replace(held=held)
        self.repeated = Repeated(self.inputs, self.tensors, recording, size)

    def _refuse(self, reason: str) -> None:
        self.repeated = Repeated(refused=True)
        warnings.warn(
            f"messages of {short_text(self.plan.pipeline)} are made kernel by kernel: the graph "
            f"was refused on {self.inputs.device} ({reason})",
            RuntimeWarning,
            stacklevel=2,
        )

    def close(self) -> None:
        """Puts the recording back as it was taken."""
        for name, x in no_corrections(self.frame).items() if self.corrected else ():
            self.tensors[name].copy_(x)
        RECORDINGS.put(self.key, self.repeated)


def _ends(update: dict[str, Tensor]) -> np.ndarray:
    """How many entries lie before each tensor's end: int64 (tensors,)."""
    return np.cumsum([x.numel() for x in update.values()])
