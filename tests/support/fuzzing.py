"""Hostile bytes for any decoder: how input number i is made, and what a reader may do with it.

Input ``i`` of a decoder follows from its name and ``i`` alone: ``made(name, cases, i)`` makes the
one that a failed test names. What there is to be read is in ``decoders``.
"""

import random
import resource
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compressors import PayloadError

SECONDS = 20.0  # of processor time, for an input that takes a millisecond
ROOM = 1 << 29  # bytes that one decoder may take in all
LEAST_BYTES = 1 << 22  # what a decoder may take for tables: ``context`` has 2**18 columns
_COUNTED = 8  # of so many inputs one is counted: that takes four times as long
_A_BYTE, _AN_ENTRY = 64, 128  # bytes that it may take for one of the payload, and for an entry


@dataclass(frozen=True)
class Case:
    """A tensor, or a message, of a known shape.

    ``payload`` is an honest one, which starts with ``frame``; ``read`` decodes any bytes and
    asserts that what it made of them is legal. ``entries``: how many numbers it may make.
    """

    payload: bytes
    read: Callable[[bytes], Any]
    entries: int
    frame: bytes = b""


@dataclass(frozen=True)
class Decoder:
    """What is to be fuzzed: a name and the cases of it."""

    name: str
    cases: Callable[[], list[Case]]


def made(name: str, cases: Sequence[Case], i: int) -> tuple[bytes, Case]:
    """Input ``i``: in turns changed, cut, and random bytes, and the case that is to read it."""
    chance = random.Random(f"{name} {i}")
    case = chance.choice(cases)
    source = case if chance.random() < 0.8 else chance.choice(cases)  # another tensor's bytes
    body = source.payload[len(source.frame) :]
    if i % 3 == 0:
        body = _changed(body, chance, cases)
    elif i % 3 == 1:
        body = body[: chance.randrange(len(body) + 1)]
        body = _changed(body, chance, cases) if chance.random() < 0.5 else body
    else:
        body = _random(chance, chance.randrange(2 * min(len(body), 400) + 20))
    keep = chance.random() < 0.95
    return (case.frame if keep else _random(chance, len(case.frame))) + body, case


def _random(chance: random.Random, length: int) -> bytes:
    """Bytes of which all, or few, are other than 0 or 255: codes with long runs, too."""
    drawn = chance.randbytes(length)
    share = chance.choice((0, 0, 50, 90, 98))
    fill = chance.choice((0, 255))
    return bytes(fill if chance.random() * 100 < share else b for b in drawn) if share else drawn


def _changed(body: bytes, chance: random.Random, cases: Sequence[Case]) -> bytes:
    """One to six edits: bits flipped, bytes replaced, left out, put in, moved, exchanged."""
    found = bytearray(body)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        at = chance.randrange(len(found) + 1)
        some = chance.choice((1, 1, 2, 8))
        way = chance.randrange(6)
        if way == 0 and at < len(found):
            found[at] ^= 1 << chance.randrange(8)
        elif way == 1:
            found[at : at + some] = _random(chance, some)
        elif way == 2:
            del found[at : at + some]
        elif way == 3:
            found[at:at] = _random(chance, some)
        elif way == 4:
            found[at:at] = found[: chance.randrange(len(found) + 1)][-64:]
        else:
            other = chance.choice(cases)
            found[at:] = other.payload[len(other.frame) + at :]
    return bytes(found)


def fuzz(decoder: Decoder, inputs: int) -> int:
    """Reads so many inputs and returns how many were refused.

    Raises ``AssertionError`` that names the input where anything but ``PayloadError`` comes out,
    what was read is not legal, or it took more memory or time than its size can explain. No
    input can take ``ROOM``; what every eighth takes is counted to the byte.
    """
    cases = decoder.cases()
    for case in cases:
        case.read(case.payload)  # what is honest is read
    with _limited():
        refused = sum(_refused(decoder.name, cases, i) for i in range(inputs) if i % _COUNTED)
        tracemalloc.start()
        try:
            return refused + sum(
                _counted(decoder.name, cases, i) for i in range(0, inputs, _COUNTED)
            )
        finally:
            tracemalloc.stop()


@contextmanager
def _limited() -> Iterator[None]:
    """While it lasts this process gets ``ROOM`` more of address space, and warnings are errors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + ROOM, hard))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _refused(name: str, cases: Sequence[Case], i: int) -> bool:
    payload, case = made(name, cases, i)
    start, refused = time.process_time(), False
    try:
        case.read(payload)
    except PayloadError:
        refused = True
    except Exception as error:
        raise AssertionError(f"{name}, input {i}: {type(error).__name__}: {error}") from error
    taken = time.process_time() - start
    assert taken <= SECONDS, f"{name}, input {i}: {taken:.1f} seconds of processor time"
    return refused


def _counted(name: str, cases: Sequence[Case], i: int) -> bool:
    payload, case = made(name, cases, i)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    refused = _refused(name, cases, i)
    peak = tracemalloc.get_traced_memory()[1] - before
    allowed = LEAST_BYTES + _A_BYTE * len(payload) + _AN_ENTRY * case.entries
    assert peak <= allowed, f"{name}, input {i}: {peak} bytes of memory, at most {allowed}"
    return refused
