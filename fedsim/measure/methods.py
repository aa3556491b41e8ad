"""Every method on somebody's own update: how many bits, how near, how quick."""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from inspect import signature
from statistics import median

import pandas as pd
import torch
from torch import Tensor

from compressors import ROWS, Compressor, Row, Tensors, compress, decompress, text
from compressors.base import finite
from fedsim.errors import UsageError
from fedsim.settings.methods import compressor_of, with_fraction

KINDS = ("method", "compressor", "codec", "sparsifier", "quantizer")
"""What "all" stands for: these kinds of the catalogue, by their examples."""

Progress = Callable[[int, int, str], None]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"


@dataclass(frozen=True)
class Measured:
    """A row: what one method makes of the updates. Sums over all of them.

    Attributes:
        method: as it was given, or the catalogue's example.
        expansion: what it stands for.
        entries: how many numbers the updates hold.
        wire_bits: 8 * len(payload).
        bits_per_entry: wire bits over entries.
        ratio: 32 * entries over wire bits.
        relative_error: ||C(x) - x|| / ||x|| of what was decoded, in float64; 0 for a zero
            update that comes back as zero.
        cosine: of C(x) and x, in float64; NaN where either is zero.
        compress_ms, decompress_ms: median of the repeats, wall time in milliseconds.
        compress_ns_per_entry, decompress_ns_per_entry: the same in nanoseconds an entry.
        error: why the method could not carry the updates; "" where it could.
    """

    method: str
    expansion: str
    entries: int
    wire_bits: float = float("nan")
    bits_per_entry: float = float("nan")
    ratio: float = float("nan")
    relative_error: float = float("nan")
    cosine: float = float("nan")
    compress_ms: float = float("nan")
    compress_ns_per_entry: float = float("nan")
    decompress_ms: float = float("nan")
    decompress_ns_per_entry: float = float("nan")
    error: str = ""


def measure(
    updates: Tensors | Sequence[Tensors],
    methods: str | Sequence[str] = "all",
    density: float | None = None,
    repeat: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """A row a method (the columns of ``Measured``), the highest compression ratio first.

    A method of which nothing but zeros arrives stands below all others that arrive.

    Every method sends each update as its first message, with an empty memory. What was decoded
    comes from the payload alone. One run before the timed ones compiles what is compiled on
    first use and is not counted; torch uses one thread meanwhile.

    Args:
        updates: names to float32 tensors of any shape, on any device; or several such updates,
            whose bits, errors and times are added up.
        methods: texts of compressors, as a list or separated by semicolons; "all" for the
            examples of the whole catalogue.
        density: the fraction of entries that published methods send, in place of their
            example's, and what ``{p}`` and bare names such as ``sbc`` take; None: as they are.
        repeat: timed runs, of which the median counts.
        seed: for methods with random choices; each run makes the same.
        progress: called as (done, all, method) before a method and at the end.

    Raises:
        UsageError: a text that is no method, a setting out of its range, or an update that is
            empty, not float32, or holds NaN or infinity (the tensor is named).

    Example:
        >>> import fedsim
        >>> update = {"w": torch.linspace(-1, 1, 1000), "b": torch.zeros(10)}
        >>> table = fedsim.measure(update, methods="raw; sbc(0.01); topk(0.5) | float32 | golomb")
        >>> list(table["method"])
        ['sbc(0.01)', 'topk(0.5) | float32 | golomb', 'raw']
        >>> list(table["relative_error"].round(3))
        [0.985, 0.354, 0.0]
    """
    named = checked_updates(updates)
    check_repeat(repeat)
    chosen = choose(methods, density)
    rows = []
    with one_thread():
        for i, (method, compressor) in enumerate(chosen.items()):
            if progress:
                progress(i, len(chosen), method)
            rows.append(_measured(method, compressor, named, repeat, seed))
    if progress:
        progress(len(chosen), len(chosen), "")
    return _table(rows)


def _table(rows: "list[Measured]") -> pd.DataFrame:
    columns = [f.name for f in fields(Measured)]
    frame = pd.DataFrame([asdict(row) for row in rows], columns=columns)
    # What decodes to zeros alone saves most and says nothing: after all that says something.
    silent = frame["cosine"].isna() & (frame["relative_error"] == 1)
    ranked = frame.assign(silent=silent).sort_values(
        ["silent", "ratio"], ascending=[True, False], kind="stable", ignore_index=True
    )
    return ranked[columns]


def choose(
    methods: str | Sequence[str] = "all", density: float | None = None
) -> dict[str, Compressor]:
    """The compressors that ``measure`` takes, by their texts; arguments and errors as there."""
    check_density(density)
    if isinstance(methods, str) and methods.strip() == "all":
        return _all(density)
    texts = split_texts(methods) if isinstance(methods, str) else list(methods)
    if not texts:
        raise UsageError(f"methods is {methods!r}: it takes 'all' or texts such as 'sbc(0.01)'")
    if density is not None:
        texts = [with_fraction(t, density) for t in texts]
    return {t: compressor_of(t, "or give a density") for t in texts}


def accuracy(pairs: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Relative error and cosine (see ``Measured``) of pairs (x, C(x)), taken as one vector."""
    error = norm = other = dot = 0.0
    for x, decoded in pairs:
        a, b = (t.detach().cpu().to(torch.float64).flatten() for t in (x, decoded))
        error += float((b - a).square().sum())
        norm, other = norm + float((a * a).sum()), other + float((b * b).sum())
        dot += float((a * b).sum())
    relative = (error / norm) ** 0.5 if norm else float("inf") if error else 0.0
    if not norm or not other:
        return relative, float("nan")
    return relative, max(-1.0, min(1.0, dot / (norm * other) ** 0.5))


def _all(density: float | None) -> dict[str, Compressor]:
    """The catalogue's examples, one of those that stand for the same."""
    found: dict[str, tuple[str, Compressor]] = {}
    for row in ROWS:
        if row.kind in KINDS:
            method = row.example if density is None else _at(row, density)
            compressor = compressor_of(method)
            found.setdefault(text(compressor), (method, compressor))
    return dict(found.values())


def _at(row: Row, density: float) -> str:
    """A published method's example with ``density`` for its setting p; others as they are."""
    names = list(signature(row.make).parameters) if row.kind == "method" else []
    if "p" not in names:
        return row.example
    before = rf"\b{row.name}\(\s*" if names[0] == "p" else r"\bp\s*=\s*"
    return re.sub(rf"({before}(?:p\s*=\s*)?){_NUMBER}", rf"\g<1>{density!r}", row.example, count=1)


def check_density(density: float | None) -> None:
    """Raises ``UsageError`` unless it is a fraction, or not given."""
    if density is not None and not 0 < density <= 1:
        raise UsageError(f"density is {density:g}: a fraction of entries in (0, 1]")


def check_repeat(repeat: int) -> None:
    """Raises ``UsageError`` unless it is a number of runs."""
    if isinstance(repeat, bool) or not isinstance(repeat, int) or repeat < 1:
        raise UsageError(f"repeat is {repeat!r}: a whole number above 0")


def split_texts(methods: str) -> list[str]:
    """The texts between semicolons; one inside quotes is part of a pattern."""
    parts = re.findall(r"(?:'[^']*'|\"[^\"]*\"|[^;])+", methods)
    return [part.strip() for part in parts if part.strip()]


def checked_updates(updates: Tensors | Sequence[Tensors]) -> list[Tensors]:
    """Every update, checked; one alone is a list of one."""
    found = [updates] if isinstance(updates, Mapping) else list(updates)
    for update in found:
        for name, x in update.items():
            if x.dtype != torch.float32:
                raise UsageError(f"tensor {name!r} is {x.dtype}: updates are float32")
            if not finite(x):
                raise UsageError(f"tensor {name!r} holds NaN or infinity: no message carries it")
    if not any(update for update in found):
        raise UsageError("updates hold no tensor: there is nothing to measure")
    return found


def _measured(
    method: str, compressor: Compressor, updates: Sequence[Tensors], repeat: int, seed: int
) -> Measured:
    entries = sum(x.numel() for update in updates for x in update.values())
    row = Measured(method, text(compressor), entries)
    try:
        runs = [_run(compressor, update, repeat, seed) for update in updates]
    except Exception as error:  # one method that cannot do it does not stop the others
        name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return replace(row, error=f"{name}{error}")
    wire = sum(run.bits for run in runs)
    relative, cosine = accuracy(
        (x, run.decoded[name])
        for update, run in zip(updates, runs, strict=True)
        for name, x in update.items()
    )
    there, back = sum(run.compress for run in runs), sum(run.decompress for run in runs)
    per = 1 / entries if entries else float("nan")
    return replace(
        row, wire_bits=wire, bits_per_entry=wire * per, ratio=32 * entries / wire,
        relative_error=relative, cosine=cosine,
        compress_ms=1e3 * there, compress_ns_per_entry=1e9 * there * per,
        decompress_ms=1e3 * back, decompress_ns_per_entry=1e9 * back * per,
    )  # fmt: skip


@dataclass(frozen=True)
class _Run:
    """One update there and back; times in seconds."""

    bits: int
    decoded: dict[str, Tensor]
    compress: float
    decompress: float


def _run(compressor: Compressor, update: Tensors, repeat: int, seed: int) -> _Run:
    memory = compressor.init(update)  # made once a sender, not once a message
    packet, _ = compress(compressor, update, memory, seed)
    decoded = decompress(compressor, packet.payload, update)
    there = [timed(lambda: compress(compressor, update, memory, seed)) for _ in range(repeat)]
    back = [timed(lambda: decompress(compressor, packet.payload, update)) for _ in range(repeat)]
    return _Run(8 * len(packet.payload), decoded, median(there), median(back))


def timed(work: Callable[[], object]) -> float:
    """Wall time of one call in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def one_thread() -> Iterator[None]:
    """While it lasts torch uses one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
