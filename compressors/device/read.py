"""A message to an update on a GPU: positions are decoded by the host, symbols where the update is.

Codes of gaps have no end that is known beforehand, so that they are read one after the other, by
the compiled loops. Everything else goes up as it came: the payload once, and one kernel unpacks the
symbols of all tensors and puts their values into place.
"""

import numpy as np
import torch
from torch import Tensor

from compressors.base import tensor_seed
from compressors.bits import BitReader
from compressors.device.plan import Plan
from compressors.device.write import on
from compressors.errors import PayloadError
from compressors.kernels.gpu.codes import Entries
from compressors.kernels.gpu.layout import fetch, layout_of, send, upload
from compressors.kernels.gpu.unpack import unpack, words_of
from compressors.quantize.levels import level_table


class _Parts:
    """What the host reads of each segment: positions, numbers, and where its symbols start."""

    def __init__(self, plan: Plan, bits: BitReader, sizes: tuple[int, ...], seed: int) -> None:
        self.positions: list[np.ndarray] = []
        self.found, self.begins = np.zeros((2, len(sizes)), np.int64)
        self.numbers = np.full(len(sizes), plan.way.known, np.float32)
        for s, n in enumerate(sizes):
            if n:
                self._read(plan, bits, s, n, tensor_seed(seed, s))

    def _read(self, plan: Plan, bits: BitReader, s: int, n: int, seed: int) -> None:
        count = n
        if plan.sides:
            count = plan.pipeline.read_count(bits, n)
            with bits.span("positions"):
                found = plan.pipeline.positions.read_positions(bits, n, count, seed)
            self.positions.append(found)
        if plan.way.number is not None and count:
            with bits.span("side"):
                self.numbers[s] = bits.float32s(1)[0]
        with bits.span("values"):
            bits.need(count * plan.way.width)
            self.begins[s] = bits.position
            bits.position += count * plan.way.width
        self.found[s] = count


def read(plan: Plan, bits: BitReader, like: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """What ``Compressor.read`` does for tensors on one device; the host waits for it once.

    Raises ``PayloadError`` where the message is cut, or decodes to NaN or infinity.
    """
    sizes = tuple(x.numel() for x in like.values())
    segments = (sum(sizes),) if plan.joined else sizes
    parts = _Parts(plan, bits, segments, seed)
    device = next(iter(like.values())).device
    with on(device):
        flat, top, bad = _values(plan, parts, segments, bits.payload, device)
        tops, wrong = fetch(top, bad)
    _check(plan, list(like), tops, wrong)
    split = zip(like.items(), flat.split(list(sizes)), strict=True)
    return {name: part.view(x.shape) for (name, x), part in split}


def _values(
    plan: Plan, parts: _Parts, segments: tuple[int, ...], payload: bytes, device: torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """The vector of all values, and of each segment its largest symbol and whether it is finite."""
    way, layout = plan.way, layout_of(segments, device)
    make = torch.zeros if plan.sides else torch.empty
    flat = make(layout.total, dtype=torch.float32, device=device)
    where = np.concatenate([np.zeros(0, np.int64), *parts.positions])
    levels = np.zeros(1, np.float32) if way.table is None else level_table(*way.table)
    origins = np.cumsum(parts.found) - parts.found
    found, begins, starts, chosen = upload(device, parts.found, parts.begins, origins, where)
    words = send(torch.from_numpy(words_of(payload)), device)
    floats = send(torch.from_numpy(np.concatenate([parts.numbers, levels])), device)
    numbers, table = floats.split([parts.numbers.size, levels.size])
    entries = Entries(
        flat, layout.tables[3], chosen if plan.sides else None, starts, found, starts,
        tuple(parts.found.tolist()),
    )  # fmt: skip
    return flat, *unpack(entries, way.kind, way.width, way.alphabet, words, begins, numbers, table)


def _check(plan: Plan, names: list[str], tops: np.ndarray, wrong: np.ndarray) -> None:
    if (tops >= plan.way.alphabet).any():
        worst = int(tops.max())
        raise PayloadError(f"symbol {worst} is outside an alphabet of {plan.way.alphabet}")
    for s in np.flatnonzero(wrong).tolist():
        what = "the update" if plan.joined else f"tensor {names[s]!r}"
        raise PayloadError(f"{what} decodes to NaN or infinity")
