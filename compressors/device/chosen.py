"""What a message of an update on a GPU sends: which entries, and the number that each tensor needs.

The device selects and sums; then it waits once for the host, which looks at what is wrong with the
update, how many entries there are, and which numbers are certain.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from compressors.base import tensor_seed
from compressors.device import numbers
from compressors.device.plan import Plan
from compressors.errors import NotFinite
from compressors.kernels import noise
from compressors.kernels.gpu import codes
from compressors.kernels.gpu.codes import Entries
from compressors.kernels.gpu.join import NOT_FINITE, OVERFLOWS, join
from compressors.kernels.gpu.layout import Layout, fetch, layout_of, upload
from compressors.kernels.gpu.select import Chosen, largest
from compressors.quantize.levels import level_table
from compressors.whole.pipeline import ROUND


@dataclass(frozen=True)
class Choice:
    """The segments of a message (its tensors, or the whole of them) and what each sends.

    Args:
        entries: the entries that are sent.
        sizes: entries per segment: int64 (segments,).
        nominal: how many each segment is to send: int64 (segments,).
        found: how many it sends.
        outs: where its symbols and values start: int64 (segments,).
        origins: where its positions start.
        numbers: its number, where the quantizer sends one: float32 (segments,), else None.
    """

    entries: Entries
    sizes: np.ndarray
    nominal: np.ndarray
    found: np.ndarray
    outs: np.ndarray
    origins: np.ndarray
    numbers: np.ndarray | None


def choose(
    plan: Plan, given: dict[str, Tensor], kept: dict[str, Tensor] | None
) -> tuple[Choice, Tensor]:
    """What is sent of the tensors ``given`` plus what was ``kept``, and the vector of their sums.

    Raises ``NotFinite`` where a tensor, or its sum, holds NaN or infinity.
    """
    flat_of = [x.detach().reshape(-1).contiguous() for x in given.values()]
    kept_of = None if kept is None else [x.detach().reshape(-1).contiguous() for x in kept.values()]
    sizes, device = tuple(x.numel() for x in flat_of), flat_of[0].device
    flat, bad = join(flat_of, kept_of, layout_of(sizes, device))
    layout = layout_of((sum(sizes),), device) if plan.joined else layout_of(sizes, device)
    if plan.sides == 0:
        choice, wrong = _all(plan, flat, layout, bad)
    else:
        choice, wrong = _some(plan, flat, layout, bad)
    _check(list(given), wrong)
    return choice, flat


def _check(names: list[str], wrong: np.ndarray) -> None:
    for flag, said in (
        (NOT_FINITE, "holds NaN or infinity: no message can carry it"),
        (OVERFLOWS, "and its memory overflow float32"),
    ):
        for s in np.flatnonzero(wrong & flag).tolist():
            raise NotFinite(f"tensor {names[s]!r} {said}")


def _all(plan: Plan, flat: Tensor, layout: Layout, bad: Tensor) -> tuple[Choice, np.ndarray]:
    sizes = np.asarray(layout.sizes, np.int64)
    starts, found = layout.tables[3], layout.tables[2]
    entries = Entries(flat, starts, None, starts, found, starts, layout.sizes)
    begins, number = layout.starts[:-1], plan.way.number
    if number is None:
        (wrong,) = fetch(bad)
        return Choice(entries, sizes, sizes, sizes, begins, begins, None), wrong
    wrong, *measured = fetch(bad, *codes.measure(entries, number.norm == "2"))
    values, certain = numbers.of_sums(number, sizes, *measured)
    if not wrong.any():
        for s, x in _doubtful(flat, layout, ~certain & (sizes > 0)):
            values[s] = number.by_host(x)
    return Choice(entries, sizes, sizes, sizes, begins, begins, values), wrong


def _some(plan: Plan, flat: Tensor, layout: Layout, bad: Tensor) -> tuple[Choice, np.ndarray]:
    count = plan.pipeline.sparsify.count
    nominal = np.array([count(n) if n else 0 for n in layout.sizes], np.int64)
    most = tuple(nominal.tolist())
    selected = largest(flat, layout, nominal, plan.sides)
    base = np.cumsum(nominal) - nominal
    wrong, side, found, values = _decide(plan, flat, layout, bad, selected, base, most)
    origins = base + side * selected.room
    there, many, outs = upload(flat.device, origins, found, base)
    entries = Entries(flat, layout.tables[3], selected.positions, there, many, outs, most)
    sizes = np.asarray(layout.sizes, np.int64)
    return Choice(entries, sizes, nominal, found, base, origins, values), wrong


def _decide(
    plan: Plan, flat: Tensor, layout: Layout, bad: Tensor, selected: Chosen, base: np.ndarray,
    most: tuple[int, ...],
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:  # fmt: skip
    """What is wrong; and per segment its side, how many entries that has, and the number."""
    number, rows = plan.way.number, np.arange(len(most))
    measured: tuple[Tensor, ...] = ()
    if number is not None and number.norm != "mean":  # else the sums of magnitudes are at hand
        (origins,) = upload(flat.device, base)
        where = (selected.positions, origins, selected.found[:, 0], origins)
        measured = codes.measure(Entries(flat, layout.tables[3], *where, most), number.norm == "2")
    there = (selected.found, selected.sums, selected.edges)
    wrong, counts, sums, edges, *more = fetch(bad, *there, *measured)
    side, certain = np.zeros(len(most), np.int64), np.ones(len(most), bool)
    if plan.sides == 2:
        side, certain = numbers.stronger(sums, counts, edges)
    found, values = counts[rows, side], None
    if number is not None:
        ours = (edges[rows, side], edges[rows, side], sums[rows, side])
        values, sure = numbers.of_sums(number, found, *(more or ours))
        certain = certain & (sure | (found == 0))
        if plan.way.kind.number == codes.SHARED:
            values = np.where(side == 1, -values, values)
    if not wrong.any():
        for s, x in _doubtful(flat, layout, ~certain):
            indices, _ = plan.pipeline.sparsify.select(x, 0)
            side[s] = int(plan.sides == 2 and bool(x[indices[0]] < 0))
            if number is not None and values is not None:
                values[s] = number.by_host(x[indices])
    return wrong, side, counts[rows, side], values


def _doubtful(flat: Tensor, layout: Layout, which: np.ndarray) -> list[tuple[int, Tensor]]:
    """The segments in doubt with their entries, on the host: it waits once for all of them."""
    places = np.flatnonzero(which).tolist()
    if not places:
        return []
    parts = fetch(*(flat[layout.starts[s] : layout.starts[s + 1]] for s in places))
    return [(s, torch.from_numpy(part)) for s, part in zip(places, parts, strict=True)]


def quantized(plan: Plan, choice: Choice, seed: int) -> tuple[Tensor, Tensor]:
    """Symbols and values of what is sent; the vector becomes the residual where one is kept."""
    way, device, many = plan.way, choice.entries.flat.device, len(choice.found)
    known = np.full(many, way.known, np.float32) if choice.numbers is None else choice.numbers
    keys = np.zeros((2, many), np.int64)
    if way.kind.random:
        seeds = (tensor_seed(tensor_seed(seed, s), ROUND) for s in range(many))
        keys = np.array([noise.key(one) for one in seeds], np.int64).T
    levels = np.zeros(1, np.float32) if way.table is None else level_table(*way.table)
    floats = np.concatenate([known, levels]).view(np.int32)
    on_device, keys_there = upload(device, floats, keys)
    floats_there = on_device.to(torch.int32).view(torch.float32)
    number, table = floats_there.split([many, levels.size])
    return codes.quantize(choice.entries, way.kind, number, keys_there, table, plan.keeps)
