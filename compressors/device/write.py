"""A message of an update on a GPU: the same bytes as the host's, made where the update lies.

The host waits for the device twice: for what was chosen and its sums, and for the finished bits. A
third time where a sum is in doubt (``compressors.device.numbers``), and where the update was joined
(``flat``), for where its tensors end. The number of tensors plays no part.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.base import ALL, Sent, SentTensor, State
from compressors.bits import Span
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.device.chosen import Choice, choose, quantized
from compressors.device.plan import Plan
from compressors.kernels.gpu.layout import fetch, upload
from compressors.kernels.gpu.stream import Rice, put_fields, put_plane, stream, to_bytes
from compressors.whole.lift import nest, recall


@dataclass(frozen=True)
class Written:
    """The bits of a message after its header, padded to a whole byte, and what goes with them."""

    stream: bytes
    spans: dict[Span, int]
    sent: Sent
    state: State


def write(plan: Plan, update: dict[str, Tensor], state: State, seed: int) -> Written:
    """What ``Compressor.write`` does for ``update``, whose tensors lie on one device.

    Raises ``UpdateError`` where a tensor, or its sum with the memory, holds NaN or infinity, and
    where the memory belongs to another model.
    """
    kept = None
    if plan.keeps:
        kept = recall("residual", state, {name: x.shape for name, x in update.items()})
        kept = {name: kept[name].to(x.device) for name, x in update.items()}
    with on(next(iter(update.values())).device):
        choice, flat = choose(plan, update, kept)
        symbols, values = quantized(plan, choice, seed)
        bits = _bits(plan, choice, symbols)
        sent = _sent(plan, update, choice, values)
    after: State = {}
    if plan.keeps:
        parts = flat.split([x.numel() for x in update.values()])
        named = zip(update.items(), parts, strict=True)
        after = nest("residual", {name: part.view(x.shape) for (name, x), part in named})
    return Written(*bits, sent, after)


@contextmanager
def on(device: torch.device) -> Iterator[None]:
    """Kernels start on torch's current device: this one is, inside."""
    if device.type != "cuda":
        yield
        return
    with torch.cuda.device(device):
        yield


class _Fields(NamedTuple):
    """What each segment has around its positions: int64 (segments,) each."""

    head: np.ndarray
    head_bits: np.ndarray
    side: np.ndarray
    side_bits: np.ndarray
    value_bits: np.ndarray


def _fields(plan: Plan, choice: Choice) -> _Fields:
    nominal, found = choice.nominal, choice.found
    head, head_bits = np.zeros_like(found), np.zeros_like(found)
    if plan.sides:
        as_told = [(1, 1) if k == n else (k + 1, 2 * (k + 1).bit_length())
                   for k, n in zip(found.tolist(), nominal.tolist(), strict=True)]  # fmt: skip
        head, head_bits = np.array(as_told, np.int64).T
        head_bits = np.where(nominal > 0, head_bits, 0)
    side = np.zeros_like(found)
    if choice.numbers is not None:
        side = choice.numbers.astype(np.float32).view(np.uint32).astype(np.int64)
    side_bits = np.where(found > 0, 32, 0) if choice.numbers is not None else np.zeros_like(found)
    return _Fields(head, head_bits, side, side_bits, found * plan.way.width)


def _bits(plan: Plan, choice: Choice, symbols: Tensor) -> tuple[bytes, dict[Span, int]]:
    """The finished stream and its account; waits for the device."""
    entries, device = choice.entries, choice.entries.flat.device
    told = _fields(plan, choice)
    low, most_bits = _remainders(plan, choice)
    low_there, *fields = upload(device, low, *told)
    head, head_bits, side, side_bits, value_bits = fields
    position_bits, code = torch.zeros_like(low_there), None
    if plan.sides and entries.chosen is not None:
        code = Rice(entries.chosen, entries.origins, entries.found, low_there, entries.most)
        position_bits = code.bits
    total = head_bits + position_bits + side_bits + value_bits
    begins = torch.cumsum(total, 0) - total
    known = sum(int(part.sum()) for part in (told.head_bits, told.side_bits, told.value_bits))
    words = stream(known + most_bits, device)
    places = begins + head_bits
    put_fields(words, torch.cat([begins, places + position_bits]), torch.cat([head, side]),
               torch.cat([head_bits, side_bits]))  # fmt: skip
    if code is not None:
        code.write(words, places)
    _planes(plan, choice, symbols, words, places + position_bits + side_bits)
    finished, lengths = fetch(words, position_bits)
    positions = int(lengths.sum())
    spans: dict[Span, int] = {
        "header": int(told.head_bits.sum()), "positions": positions,
        "values": int(told.value_bits.sum()), "side": int(told.side_bits.sum()),
    }  # fmt: skip
    return to_bytes(finished, known + positions), spans


def _remainders(plan: Plan, choice: Choice) -> tuple[np.ndarray, int]:
    """The low bits of each segment's gaps, and an upper bound of all bits of positions."""
    positions, found, sizes = plan.pipeline.positions, choice.found, choice.sizes
    low = np.zeros_like(found)
    if not plan.sides or not isinstance(positions, Golomb):
        return low, 0
    for s in np.flatnonzero(found).tolist():
        density = int(found[s]) / int(sizes[s]) if positions.p is None else positions.p
        low[s] = _low(density)
    return low, int((found * (1 + low) + (sizes >> low)).sum())


def _planes(plan: Plan, choice: Choice, symbols: Tensor, words: Tensor, begins: Tensor) -> None:
    """Symbols of up to a byte, or of 32 bits, in one plane; others in two, as ``coders.fixed``."""
    width, entries = plan.way.width, choice.entries
    given = (symbols, entries.outs, entries.found, words)
    if width <= 8 or width == 32:
        if width:
            put_plane(*given, begins, entries.most, width)
        return
    put_plane(*given, begins, entries.most, width - 8, 8)
    put_plane(*given, begins + (width - 8) * entries.found, entries.most, 8)


@lru_cache(maxsize=4096)
def _low(p: float) -> int:
    return rice_parameter(p)


def _sent(plan: Plan, update: dict[str, Tensor], choice: Choice, values: Tensor) -> Sent:
    """What the receiver will see, as views of what the kernels wrote."""
    positions = choice.entries.chosen
    if positions is None:
        parts = values.split([x.numel() for x in update.values()])
        named = zip(update.items(), parts, strict=True)
        return {name: SentTensor(part.view(x.shape), ALL, x.shape) for (name, x), part in named}
    if plan.joined:
        where = positions.narrow(0, int(choice.origins[0]), int(choice.found[0]))
        return _split(update, where, values)
    sent: Sent = {}
    rows = zip(choice.found.tolist(), choice.origins.tolist(), choice.outs.tolist(), strict=True)
    for (name, x), (found, origin, out) in zip(update.items(), rows, strict=True):
        if x.numel() == 0:
            sent[name] = SentTensor(torch.zeros_like(x), ALL, x.shape)
            continue
        where = positions.narrow(0, origin, found)
        sent[name] = SentTensor(values.narrow(0, out, found), where, x.shape)
    return sent


def _split(update: dict[str, Tensor], where: Tensor, values: Tensor) -> Sent:
    """The entries of the joined vector, tensor by tensor; waits for the device."""
    sizes = np.array([x.numel() for x in update.values()], np.int64)
    (ends,) = upload(where.device, np.cumsum(sizes))
    (until,) = fetch(torch.searchsorted(where, ends))
    begins = torch.cat([torch.zeros_like(ends[:1]), ends[:-1]])
    where = where - begins[torch.bucketize(where, ends, right=True)]
    sent, start = {}, 0
    for (name, x), stop in zip(update.items(), until.tolist(), strict=True):
        sent[name] = SentTensor(values[start:stop], where[start:stop], x.shape)
        start = stop
    return sent
