"""A few bytes that announce much, for a large model: every decoder of the catalogue stays small.

What a decoder takes is the most that the process held while it ran, torch's memory included.
"""

import ctypes
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

from compressors import BitWriter, Compressor, PayloadError, compress, decompress, parse
from compressors.grammar import fingerprint
from tests.support.generators import METHODS

SHAPE = (1 << 10, 1 << 12)
BYTES = 4 << 22
"""The model's size: it has so many bytes in float32."""

MODELS = 3.0
"""So many times the model's size a decoder may take, unless it has its own number here."""

OWN = {
    "subset": 4.0,  # which entries were drawn: their places and those of a codec among them
    "cocktailsgd": 4.0,  # the same
    "sketch": 5.0,  # signs and places of all entries
    "permk": 8.0,  # the order of all entries, in 64 bits each, and its inverse
    "count_sketch": 11.0,  # every entry is read in each of three rows
    "fetchsgd": 15.0,  # the same in five rows
}


def bodies() -> dict[str, bytes]:
    """What stands behind an honest frame."""
    announced = BitWriter()
    announced.uint(0, 1)
    announced.gamma((1 << 22) + 1)
    return {
        "ones": b"\xff" * 30,
        "zeros": bytes(30),
        "a long count": b"\x80" + b"\xff" * 59,
        "one bit": b"\x40" + bytes(59),
        "every other bit": b"\xaa" * 60,
        "as many as there are": announced.to_bytes() + bytes(30),
    }


def _status(name: str) -> int:
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def taken(work: Callable[[], object]) -> int:
    """Bytes of memory that a call takes at most, beyond what the process has."""
    ctypes.CDLL(None).malloc_trim(0)  # what was freed before is not held
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
    before = _status("VmRSS")
    work()
    return max(_status("VmHWM") - before, 0)


def allowed(method: str) -> float:
    """Times the model's size."""
    return max([MODELS, *(most for name, most in OWN.items() if f"{name}(" in method)])


def read(compressor: Compressor, payload: bytes, like: dict[str, torch.Tensor]) -> None:
    """Decodes it; a refusal is an answer, too."""
    try:
        decompress(compressor, payload, like)
    except PayloadError as error:
        assert "of another" not in str(error), "the frame is not honest"


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_it_takes_a_few_times_the_models_size(method: str) -> None:
    compressor = parse(method)
    small = {"w": torch.zeros(8, 8), "b": torch.zeros(7)}
    honest = compress(compressor, small)[0].payload
    read(compressor, honest, small)  # what is compiled, is compiled now
    like = {"w": torch.empty(SHAPE), "b": torch.empty(7)}
    frame = honest[:1] + fingerprint(compressor, like).to_bytes(2, "big")
    frame += honest[3 : 7 if compressor.needs_seed else 3]
    for body in (*bodies().values(), honest[len(frame) :]):
        decode = partial(read, compressor, frame + body, like)
        peak = min(taken(decode) for _ in range(2))  # the first may compile, or load a library
        assert peak < allowed(method) * BYTES, f"{method}: {peak / BYTES:.1f} models"


def test_memory_that_is_taken_is_seen() -> None:
    free = [torch.ones(SHAPE) for _ in range(8)]  # what the process has free is taken first
    for make in (lambda: torch.ones(SHAPE), lambda: [bytearray(b"x" * BYTES)]):
        assert 0.9 * BYTES < taken(make) < 2.2 * BYTES
    assert taken(lambda: None) < 0.1 * BYTES
    del free
