"""Changed, cut and random bytes into every decoder: ``PayloadError`` or something legal.

A nightly run (``make fuzz``) takes more inputs per decoder, and tells where a decoder hangs.
"""

import os
import resource
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from compressors import ROWS, BitReader, BitWriter, FitDExp, PayloadError
from compressors.parts import Place
from tests.support.decoders import decoders
from tests.support.fuzzing import Case, Decoder, fuzz, made

INPUTS = int(os.environ.get("FEDSIM_FUZZ", "200"))
DECODERS = list(decoders())


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Threads that wait for each other take longer than such tensors do."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.slow
@pytest.mark.parametrize("decoder", DECODERS, ids=[d.name for d in DECODERS])
def test_hostile_bytes(decoder: Decoder) -> None:
    refused = fuzz(decoder, INPUTS)
    assert INPUTS / 2 < refused < INPUTS  # a few are honest, or have changes that say nothing


def test_every_row_is_there() -> None:
    names = {decoder.name for decoder in DECODERS}
    kinds = {
        "positions": ["positions"],
        "symbols": ["symbols"],
        "quantizer": ["values"],
        "coder": ["positions", "symbols"],
    }
    for row in ROWS:
        assert f"whole {row.example}" in names
        assert {f"{kind} {row.name}" for kind in kinds.get(row.kind, [])} <= names
    assert len(names) == len(DECODERS)


def _takes(payload: bytes, size: int) -> None:
    if len(payload) > 5:
        np.ones(size, np.uint8)
    raise PayloadError("no")


def _index(payload: bytes) -> None:
    if payload[:1] == b"\xff":
        [][1]
    raise PayloadError("no")


def _legal(payload: bytes) -> None:
    assert payload[2:3] != b"s", "that is none"
    raise PayloadError("no")


BROKEN = {
    "IndexError: list index out of range": _index,
    "AssertionError: that is none": _legal,
    "bytes of memory, at most": lambda payload: _takes(payload, 6 << 20),
    "MemoryError: Unable to allocate 4.00 GiB": lambda payload: _takes(payload, 4 << 30),
}


@pytest.mark.parametrize(("why", "read"), BROKEN.items(), ids=BROKEN)
def test_what_is_wrong_is_found(why: str, read: Callable[[bytes], None]) -> None:
    """By a decoder that has it, and the message names an input that shows it again."""
    before, honest = resource.getrlimit(resource.RLIMIT_AS), b"honest"

    def reader(payload: bytes) -> None:
        if payload != honest:
            read(payload)

    cases = [Case(honest, reader, 3)]
    with pytest.raises(AssertionError, match=rf"^made up, input \d+: .*{why}") as found:
        fuzz(Decoder("made up", lambda: cases), 1000)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    number = int(str(found.value).split("input ")[1].split(":")[0])
    assert made("made up", cases, number) == made("made up", cases, number)


def test_a_curve_of_signalling_nan_is_refused() -> None:
    """Its conversion to float64 warned, which is an exception where warnings are errors."""
    place = Place(None, torch.Size([7]))
    for bad in (0x7F800001, 0x7FC00000, 0x7F800000):
        out = BitWriter()
        for word in (bad, 0, 0, 0):
            out.uint(word, 32)
        with pytest.raises(PayloadError, match="NaN or infinite"):
            FitDExp().read_side(BitReader(out.to_bytes()), place)
