"""What may be asked of a compressor, read off its parts: which contract tests apply to it."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from compressors import (
    Compressor,
    Float32,
    GSpar,
    Identity,
    Mean,
    OneSided,
    Pipeline,
    Rotate,
    TopK,
    parse,
    text,
)
from compressors.contrib.dct import Cosine
from compressors.contrib.permk import PermK
from compressors.contrib.subset import Subset
from compressors.parts import Lossy

_EXACT = (Float32, Mean)
_LARGEST = (TopK, OneSided)


def parts(thing: Any) -> Iterator[Any]:
    """An object and all that it is made of."""
    yield thing
    if isinstance(thing, tuple):
        for one in thing:
            yield from parts(one)
    elif dataclasses.is_dataclass(thing):
        for field in dataclasses.fields(thing):
            yield from parts(getattr(thing, field.name))


def pipelines(compressor: Compressor) -> list[Pipeline]:
    """The pipelines inside a compressor."""
    return [part for part in parts(compressor) if isinstance(part, Pipeline)]


def rotates(compressor: Compressor) -> bool:
    """Whether a pipeline sees other values than the update's own."""
    return any(isinstance(part, Rotate | Cosine | Subset) for part in parts(compressor))


def scales_up(method: str) -> bool:
    """Whether it sends multiples of entries, so that the largest floats overflow."""
    chosen = [pipe.sparsify for pipe in pipelines(parse(method))]
    found = any(getattr(one, "scaled", False) or isinstance(one, GSpar) for one in chosen)
    return found or isinstance(parse(method), PermK)


def is_plain(pipe: Pipeline) -> bool:
    """Whether it sends exactly the largest entries, never a zero, one entry bit for bit."""
    return (
        isinstance(pipe.sparsify, _LARGEST)
        and isinstance(pipe.quantize, _EXACT)
        and getattr(pipe.sparsify, "sample", None) is None
        and not isinstance(pipe.positions, Lossy)
    )


def only_plain(method: str) -> bool:
    """Whether nothing but plain pipelines is in the method (and it is not dense)."""
    found = pipelines(parse(method))
    plain = bool(found) and all(is_plain(pipe) for pipe in found)
    return plain and "raw" not in method and not rotates(parse(method))


def keeps_single_entries(method: str) -> bool:
    """Whether a tensor of one entry arrives bit for bit."""
    compressor = parse(method)
    found = pipelines(compressor)
    dense = [pipe for pipe in found if isinstance(pipe.sparsify, Identity)]
    exact = all(isinstance(pipe.quantize, Float32) for pipe in dense)
    if text(compressor) == "raw":
        return True
    plain = all(is_plain(p) for p in found if p not in dense)
    return bool(found) and exact and plain and not rotates(compressor)


def forgets_nothing(compressor: Compressor) -> bool:
    """Whether what is not sent now is sent later: residuals, or no loss at all."""
    printed = text(compressor)
    if getattr(compressor, "decay", 1) != 1:
        return False
    return printed.startswith("ef(") or printed in ("raw", "per_tensor(float32)")


def frame_bits(compressor: Compressor) -> int:
    """Version, fingerprint, and the seed where it travels."""
    return 56 if compressor.needs_seed else 24
