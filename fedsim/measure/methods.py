"""Every method on somebody's own update: bits, errors and times."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any, TypeVar

import pandas as pd
import torch
from torch import Tensor

from compressors import Compressor, Tensors, compress, decompress, text
from fedsim.ground.threads import one_thread
from fedsim.measure.inputs import check_repeat, checked_updates, choose

Progress = Callable[[int, int, str], None]
Thing = TypeVar("Thing")


_COLUMNS = [
    "method", "expansion", "entries", "wire_bits", "bits_per_entry", "ratio", "relative_error",
    "cosine", "compress_ms", "compress_ns_per_entry", "decompress_ms", "decompress_ns_per_entry",
    "error",
]  # fmt: skip


def in_turn(
    named: Sequence[tuple[str, Thing]], progress: Progress | None
) -> Iterator[tuple[str, Thing]]:
    """The pairs (name, thing); ``progress`` is called before each pair and at the end."""
    tell = progress or (lambda done, count, name: None)
    for done, (name, work) in enumerate(named):
        tell(done, len(named), name)
        yield name, work
    tell(len(named), len(named), "")


def measure(
    updates: Tensors | Sequence[Tensors],
    methods: str | Sequence[str] = "all",
    density: float | None = None,
    repeat: int = 3,
    seed: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """What every method makes of an update.

    Every method sends each update as its first message, with an empty memory, and what is decoded
    comes from the payload alone. One run before the timed runs triggers compilation and is not
    counted; torch uses one thread meanwhile.

    Args:
        updates: names to float32 tensors of any shape, on any device; or several such updates,
            whose bits, errors and times are added up.
        methods: texts of compressors, as a list or separated by semicolons; "all": every example
            of the catalogue.
        density: the fraction of entries that published methods send, and that ``{p}`` and bare
            names such as ``sbc`` stand for; None: the fraction in each text.
        repeat: timed runs, of which the median counts.
        seed: for methods with random choices; each run makes the same choices.
        progress: called as (done, all, method) before each method and at the end.

    Returns:
        A row per method, the highest compression ratio first, a method whose decoded updates are
        all zero after all others that can be decoded; sums over all updates: method, its text;
        expansion, its compressor written out; entries of the updates; wire_bits, 8 len(payload);
        bits_per_entry; ratio, 32 entries over wire bits; relative_error, ||C(x) - x|| / ||x|| of
        what was decoded, in float64, 0 for a zero update that comes back as zero; cosine of C(x)
        and x, NaN where either is zero; compress_ms, decompress_ms, medians of the repeats, and
        compress_ns_per_entry, decompress_ns_per_entry; error, why the method could not carry the
        updates, with NaN elsewhere.

    Raises:
        UsageError: a text that is not a method, a setting out of its range, or an update that is
            empty, not float32, or holds NaN or infinity (the tensor is named).

    Example:
        >>> import fedsim
        >>> update = {"w": torch.linspace(-1, 1, 1000), "b": torch.zeros(10)}
        >>> table = fedsim.measure(update, methods="raw; topk(0.5) | float32 | golomb")
        >>> table[["method", "relative_error"]].round(3).values.tolist()
        [['topk(0.5) | float32 | golomb', 0.354], ['raw', 0.0]]
    """
    named = checked_updates(updates)
    check_repeat(repeat)
    chosen = in_turn([*choose(methods, density).items()], progress)
    with one_thread():
        rows = [_measured(name, compressor, named, repeat, seed) for name, compressor in chosen]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    # A method of which only zeros arrive has the best ratio and carries nothing: it comes last.
    silent = frame["cosine"].isna() & (frame["relative_error"] == 1)
    ranked = frame.assign(silent=silent).sort_values(
        ["silent", "ratio"], ascending=[True, False], kind="stable", ignore_index=True
    )
    return ranked[_COLUMNS]


def accuracy(pairs: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float]:
    """Relative error and cosine (see ``measure``) of pairs (x, C(x)), taken as one vector."""
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


def _measured(
    method: str, compressor: Compressor, updates: Sequence[Tensors], repeat: int, seed: int
) -> dict[str, Any]:
    entries = sum(x.numel() for update in updates for x in update.values())
    row = {"method": method, "expansion": text(compressor), "entries": entries}
    wire, compress_seconds, decompress_seconds, pairs = 0, 0.0, 0.0, []
    try:
        for update in updates:
            memory = compressor.init(update)  # made once per sender, not once per message
            send = partial(compress, compressor, update, memory, seed)
            payload = send()[0].payload
            receive = partial(decompress, compressor, payload, update)
            decoded = receive()
            wire += 8 * len(payload)
            pairs += [(x, decoded[name]) for name, x in update.items()]
            compress_seconds += median(wall_time(send) for _ in range(repeat))
            decompress_seconds += median(wall_time(receive) for _ in range(repeat))
    except Exception as error:  # a method that cannot carry these updates does not stop the others
        name = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        return row | {"error": f"{name}{error}"}
    relative, cosine = accuracy(pairs)
    per = 1 / entries if entries else float("nan")
    return row | {
        "wire_bits": wire,
        "bits_per_entry": wire * per,
        "ratio": 32 * entries / wire,
        "relative_error": relative,
        "cosine": cosine,
        "compress_ms": 1e3 * compress_seconds,
        "compress_ns_per_entry": 1e9 * compress_seconds * per,
        "decompress_ms": 1e3 * decompress_seconds,
        "decompress_ns_per_entry": 1e9 * decompress_seconds * per,
        "error": "",
    }


def wall_time(work: Callable[[], object]) -> float:
    """Wall time of one call in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
