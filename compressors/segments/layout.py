"""What one pass needs to know of a method and of an update's names and shapes, worked out once."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from compressors.arguments import PLAIN
from compressors.coders.golomb import Golomb, rice_parameter
from compressors.grammar import fingerprint
from compressors.kernels import kinds
from compressors.kernels.segments import choose
from compressors.kernels.segments.choose import BASE, LOW, SIZE, START
from compressors.quantize.levels import level_table
from compressors.segments import CPU_DEVICES
from compressors.segments.plan import Plan, plan_of

VERSION = 1  # of messages
HEADER = 24  # bits of a message's header

_NORMS = {"mean": choose.MEAN, "inf": choose.INF, "1": choose.ONE, "2": choose.TWO}
_rice_parameter = lru_cache(maxsize=4096)(rice_parameter)


class Inputs(NamedTuple):
    """Tensors as the loops take them: names, shapes, where the values lie, and what keeps them."""

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    addresses: list[int]
    tensors: list[Tensor]


def inputs_of(tensors: Any, values: bool = True) -> Inputs | None:
    """The tensors of an update; None where they are not plain tensors on the CPU.

    With ``values`` they are float32 too, and those that are not contiguous are copied; without,
    only names and shapes are looked at.

    Example:
        >>> inputs_of({"w": torch.zeros(2)}).shapes
        (torch.Size([2]),)
        >>> inputs_of({"w": torch.zeros(2, dtype=torch.int8)})
    """
    if not ((type(tensors) is dict or isinstance(tensors, Mapping)) and "cpu" in CPU_DEVICES):
        return None
    for name, x in tensors.items():
        if type(name) is not str or type(x) not in PLAIN or x.layout is not torch.strided:
            return None
        if not x.is_cpu or x.is_nested:
            return None
        if values and (x.dtype is not torch.float32 or x.is_neg()):
            return None
    shapes = tuple([x.shape for x in tensors.values()])
    if not values:
        return Inputs(tuple(tensors), shapes, [], [])
    owners = [x if x.is_contiguous() else x.detach().contiguous() for x in tensors.values()]
    addresses = [x.data_ptr() for x in owners]
    if 0 in addresses and any(x.numel() and not x.data_ptr() for x in owners):
        return None  # tensors without memory
    return Inputs(tuple(tensors), shapes, addresses, owners)


class Cut(NamedTuple):
    """Where a tensor lies in a vector of several: its entries from ``start`` to ``stop``."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


def cuts_of(names: Iterable[str], shapes: Sequence[torch.Size]) -> tuple[Cut, ...]:
    """Where tensors lie in a vector of all, one after the other.

    Example:
        >>> cuts_of(["a", "b"], [torch.Size([2]), torch.Size([1, 3])])[1]
        Cut(name='b', shape=(1, 3), start=2, stop=5)
    """
    stops = [*accumulate([shape.numel() for shape in shapes])]
    starts = [0, *stops]
    return tuple(map(Cut, names, map(tuple, shapes), starts, stops))


def split_vector(flat: np.ndarray, cuts: Iterable[Cut]) -> dict[str, Tensor]:
    """Tensors by name that look at their parts of a vector, each with a storage of its own.

    Args:
        flat: float32, the entries of all tensors.
        cuts: where each lies.

    Example:
        >>> split_vector(np.zeros(3, np.float32), [Cut("b", (1, 2), 1, 3)])
        {'b': tensor([[0., 0.]])}
    """
    tensors = {}
    for name, shape, start, stop in cuts:
        tensors[name] = torch.from_numpy(flat[start:stop].reshape(shape))
    return tensors


@dataclass(frozen=True, eq=False)
class Part:
    """The tensors of an update that one plan is for.

    Args:
        plan: their method.
        rule: the plan's number among the rules of ``by_name``, from which its seed follows, or -1.
        tensors: which of the update's, in its order: int64 (tensors,).
        names: of them.
        cuts: of each, where it lies in a vector of all.
        sizes: entries of each: int64 (tensors,).
        total: entries of all.
        residual_cuts: the same of their residuals, by their names in the memory; none without one.
        table: the segments as ``kernels.segments.choose`` takes them: int64 (5, segments).
        k: how many entries are to be sent of all segments.
        tensor_bytes, segment_bytes, chosen_bytes: where each tensor and each segment starts in a
            vector of all, and each segment's values in one of all that is sent: int64, in bytes.
        form: bits of a symbol, bits of a number, and how many values share one.
        slots: how many numbers there can be.
        measure: which number, and at how many standard deviations it is cut off; None without one,
            or where it is the mean of what ``choose`` chooses.
        shared: whether all that is sent of a segment becomes its number, without symbols.
        as_is: whether what the receiver will see is the update itself.
        symbols: what a symbol is, as ``kernels.segments.stream`` takes it.
        alphabet: how many symbols there are.
        capacity: bits that the part takes at most, where every segment sends what is wanted.
    """

    plan: Plan
    rule: int
    tensors: np.ndarray
    names: tuple[str, ...]
    cuts: tuple[Cut, ...]
    sizes: np.ndarray
    total: int
    residual_cuts: tuple[Cut, ...]
    table: np.ndarray
    k: int
    tensor_bytes: np.ndarray
    segment_bytes: np.ndarray
    chosen_bytes: np.ndarray
    form: tuple[int, int, int]
    slots: int
    measure: tuple[int, float] | None
    shared: bool
    as_is: bool
    symbols: tuple[Any, ...]
    alphabet: int
    capacity: int


@dataclass(eq=False)
class Layout:
    """A method, and the names and shapes of an update.

    Args:
        names, shapes: of the update's tensors.
        parts: one for each plan.
        header: the first bytes of a message.
        held: of each tensor that the memory has, its name, and the update's tensor it belongs to.
        total: entries of the update.
        begun: whether the method was asked if it can begin a memory for these tensors.
    """

    names: tuple[str, ...]
    shapes: tuple[torch.Size, ...]
    parts: tuple[Part, ...]
    header: bytes
    held: tuple[tuple[str, int], ...]
    total: int
    begun: bool = False

    def residuals(self, state: Any) -> list[int] | None:
        """The addresses of the tensors' residuals in a memory: 0 for zeros, -1 for none.

        None where the memory is that of another layout.
        """
        addresses = [-1] * len(self.names)
        if state is not None and (type(state) is not dict or len(state) != len(self.held)):
            return None
        for key, i in self.held:
            if state is None:
                addresses[i] = 0
                continue
            x = state.get(key)
            if type(x) is not Tensor or x.dtype is not torch.float32 or not x.is_cpu:
                return None
            if x.shape != self.shapes[i] or not x.is_contiguous() or x.is_neg():
                return None
            addresses[i] = x.data_ptr()
        return addresses


_LAST: list[tuple[Any, Layout]] = []
"""The method and the layout of the last message: most are of the same method and tensors."""


def layout_of(
    compressor: Any, names: tuple[str, ...], shapes: tuple[torch.Size, ...]
) -> Layout | None:
    """The layout; None where the method has no plan, or the tensors have no entries.

    Example:
        >>> from compressors import parse
        >>> layout_of(parse("sbc(0.01)"), ("w",), (torch.Size([400]),)).parts[0].table.T.tolist()
        [[400, 0, 4, 0, 6]]
        >>> layout_of(parse("sketch(16)"), ("w",), (torch.Size([400]),)) is None
        True
    """
    for method, last in _LAST:  # the hash of a method takes longer than these comparisons
        if method is compressor and last.names == names and last.shapes == shapes:
            return last
    hashable = isinstance(compressor, Hashable)  # else it is no method
    layout = _layout_of(compressor, names, shapes) if hashable else None
    if layout is not None:
        _LAST[:] = [(compressor, layout)]
    return layout


@lru_cache(maxsize=64)
def _layout_of(
    compressor: Any, names: tuple[str, ...], shapes: tuple[torch.Size, ...]
) -> Layout | None:
    """See ``layout_of``."""
    plan = plan_of(compressor)
    if plan is None or not any(shape.numel() for shape in shapes):
        return None
    template = {
        name: torch.empty(shape, dtype=torch.float32, device="meta")
        for name, shape in zip(names, shapes, strict=True)
    }
    if isinstance(plan, Plan):
        parts = [_part(plan, -1, template, names, "residual")]
    else:
        rules = zip(plan.plans, plan.names.parts(template), strict=True)
        parts = [
            _part(own_plan, i, some, names, "residual" if plan.keeps else f"{i}/residual")
            for i, (own_plan, (_, some)) in enumerate(rules)
            if some
        ]
    held = [
        (cut.name, i)
        for part in parts
        for cut, i in zip(part.residual_cuts, part.tensors.tolist(), strict=False)
    ]
    if plan.keeps:  # one residual around all rules
        held.sort(key=itemgetter(1))
    header = (VERSION << 16 | fingerprint(compressor, template)).to_bytes(HEADER // 8)
    total = sum(part.total for part in parts)
    return Layout(names, shapes, tuple(parts), header, tuple(held), total)


def low_bits(plan: Plan, k: int, n: int) -> int:
    """The low bits of a gap where ``k`` of ``n`` entries are sent."""
    code = plan.pipeline.positions
    if k == 0 or not plan.sides or not isinstance(code, Golomb):
        return 0
    return _rice_parameter(k / n if code.p is None else code.p)


def _part(
    plan: Plan, rule: int, template: dict[str, Tensor], names: tuple[str, ...], held: str
) -> Part:
    scheme, sizes = plan.scheme, [x.numel() for x in template.values()]
    segments = [sum(sizes)] if plan.joined else sizes
    count = plan.pipeline.sparsify.count
    counts = [count(n) if n else 0 for n in segments] if plan.sides else segments
    low = [low_bits(plan, k, n) for k, n in zip(counts, segments, strict=True)]
    table = np.array((segments, _before(segments), counts, _before(counts), low), np.int64)
    share = scheme.bucket or 0
    slots = sum(-(-k // share) for k in counts) if share else len(counts)
    gaps = (table[choose.WANTED] * (1 + table[LOW]) + (table[SIZE] >> table[LOW])).sum()
    capacity = len(counts) + int(gaps) if plan.sides else 0
    cuts = cuts_of(template, [x.shape for x in template.values()])
    place = {name: i for i, name in enumerate(names)}
    kind, number = scheme.kind.number, scheme.number
    is_level = kind in (kinds.LEVELS, kinds.POWERS)
    return Part(
        plan=plan,
        rule=rule,
        tensors=np.array([place[name] for name in template], np.int64),
        names=tuple(template),
        cuts=cuts,
        sizes=np.array(sizes, np.int64),
        total=sum(sizes),
        residual_cuts=tuple(cut._replace(name=f"{held}/{cut.name}") for cut in cuts)
        if plan.keeps
        else (),
        table=table,
        k=sum(counts),
        tensor_bytes=4 * np.array([cut.start for cut in cuts], np.int64),
        segment_bytes=4 * table[START],
        chosen_bytes=4 * table[BASE],
        form=(scheme.width, scheme.number_bits, share),
        slots=slots,
        measure=(_NORMS[number.norm], number.clip or 0.0)
        if number is not None and kind != kinds.SHARED
        else None,
        shared=kind == kinds.SHARED,
        as_is=kind == kinds.FLOAT32 and not (plan.sides or plan.keeps),
        symbols=(
            (*scheme.kind.settings, int(scheme.kind.random)) if kind == kinds.NATURAL else None,
            (int(kind == kinds.COINS),) if kind in (kinds.SIGN, kinds.COINS) else None,
            (scheme.kind.settings[0], int(kind == kinds.POWERS)) if is_level else None,
            level_table(*scheme.table) if scheme.table else None,
        ),
        alphabet=scheme.alphabet,
        capacity=capacity + sum(counts) * scheme.width + slots * scheme.number_bits,
    )


def _before(numbers: list[int]) -> list[int]:
    """The sum of all numbers before each."""
    return list(accumulate(numbers, initial=0))[:-1]
