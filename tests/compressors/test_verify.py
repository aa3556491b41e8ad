"""A method that does not decode to what it sent is found: by a first message, and by verify."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from compressors import (
    ROWS,
    BitReader,
    PartError,
    SentTensor,
    check_decoded,
    compress,
    parse,
    verify,
)
from tests.support.ownparts import Chosen, Halves, Whole, named

UPDATE = {"w": torch.tensor([[3.0, -1.0, 0.5], [0.25, -4.0, 2.0]])}


@dataclass(frozen=True)
class Half(Whole):
    """Reads half of what was written."""

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        return torch.from_numpy(bits.float32s(template.numel() // 2))


@dataclass(frozen=True)
class Twice(Whole):
    """Reads twice of what was written."""

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        return 2 * super().read(bits, template, seed)


@dataclass(frozen=True)
class NoSide(Halves):
    """Reads no side information."""

    def read_side(self, bits: BitReader, place: Any) -> Any:
        return None


@dataclass(frozen=True)
class InPlace(Whole):
    """Changes the update that it is given."""

    def write(self, x: Tensor, out: Any, seed: int) -> SentTensor:
        return super().write(x.mul_(1.5), out, seed)


@dataclass(frozen=True)
class Header(Whole):
    """Books what it writes as the frame."""

    def write(self, x: Tensor, out: Any, seed: int) -> SentTensor:
        with out.span("header"):
            return super().write(x, out, seed)

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        with bits.span("header"):
            return super().read(bits, template, seed)


@dataclass(frozen=True)
class OneSpan(Whole):
    """Opens a span when it writes alone."""

    def write(self, x: Tensor, out: Any, seed: int) -> SentTensor:
        with out.span("side"):
            return super().write(x, out, seed)


@dataclass(frozen=True)
class Careless(Whole):
    """Takes what a cut payload holds."""

    def read(self, bits: BitReader, template: Tensor, seed: int) -> Tensor:
        left = min(template.numel(), (bits.end - bits.position) // 32)
        found = torch.zeros(template.numel())
        found[:left] = torch.from_numpy(bits.float32s(left).copy())
        return found.view(template.shape)


@dataclass(frozen=True)
class Chance(Whole):
    """Draws from a global generator."""

    def write(self, x: Tensor, out: Any, seed: int) -> SentTensor:
        return super().write(x + torch.rand(()), out, seed)


CODECS = {
    Half: "its own message cannot be decoded: ",
    Twice: "decoding its message does not give what write",
}


@pytest.mark.parametrize("made", CODECS, ids=lambda made: made.__name__)
def test_a_codec_whose_reading_does_not_fit(made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "codec", made)
    method = parse(made.__name__.lower())
    packet, _ = compress(method, UPDATE)
    with pytest.raises(
        PartError, match=rf"^method 'per_tensor\({made.__name__.lower()}\)'.*: " + CODECS[made]
    ):
        check_decoded(method, packet, UPDATE)
    with pytest.raises(PartError, match=f"^verify .* random values: .*{CODECS[made]}"):
        verify(made())


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (InPlace, "changes the update"),
        (Header, "no bit but the header's"),
        (OneSpan, "the writer books .* the reader .*: open the same spans"),
        (Careless, "a payload cut to [0-9]+ of [0-9]+ bytes is decoded as if it were whole"),
        (Chance, "other bytes the second time"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_verify_finds(made: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "codec", made)
    name = made.__name__.lower()
    with pytest.raises(PartError, match=rf"^verify 'per_tensor\({name}\)'.*{words}"):
        verify(name)


def test_verify_finds_parts_of_a_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, made in (("quantizer", NoSide), ("sparsifier", Chosen)):
        named(monkeypatch, kind, made)
    monkeypatch.setattr(Chosen, "what", (torch.tensor([2, 1]), 1.0))
    for method, words in {
        "noside": "its own message cannot be decoded: TypeError",
        "chosen | float32": "tensor 'matrix': chosen.select returned positions that do not rise",
    }.items():
        with pytest.raises(PartError, match=words):
            verify(method)


def test_verify_refuses_what_has_no_text() -> None:
    @dataclass(frozen=True)
    class Unnamed(Whole):
        """A class that no row has given a name: a subclass does not inherit one."""

    with pytest.raises(ValueError, match="is not in the catalogue: add a row for Unnamed"):
        verify(Unnamed())


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_stands_it(row: Any) -> None:
    verify(row.example)


def test_a_good_part_stands_it(monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "codec", Whole)
    named(monkeypatch, "quantizer", Halves)
    verify("whole")
    verify("ef(topk(0.1) | halves | golomb)")
