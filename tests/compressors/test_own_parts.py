"""Parts of a user's own: whose bits are counted, and what is refused before a kernel sees it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from compressors import (
    ALL,
    ROWS,
    Flat,
    Float32,
    Packet,
    PartError,
    PerTensor,
    Pipeline,
    Rotate,
    SentTensor,
    TopK,
    compress,
    explain,
    parse,
)
from compressors.arguments import is_own
from compressors.parts import Symbols
from tests.support.ownparts import UPDATE, Chosen, Halves, Whole, named


@pytest.fixture(autouse=True)
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of this file under their names, for one test."""
    for kind, made in (("quantizer", Halves), ("codec", Whole)):
        named(monkeypatch, kind, made)


# ---- whose bits are counted


def spans(method: Any, update: Any = UPDATE) -> Packet:
    compressor = parse(method) if isinstance(method, str) else method
    packet, _ = compress(compressor, update)
    assert explain(compressor, packet.payload, update) == packet.spans
    return packet


def test_side_information_is_side_without_a_word() -> None:
    got = spans("topk(0.5) | halves | golomb").spans
    assert (got["side"], got["values"]) == (32, 3)
    assert got["header"] == 24 + 1 + (-sum((25, got["positions"], 32, 3))) % 8  # and padding


@pytest.mark.parametrize("lift", [PerTensor, Flat, lambda codec: PerTensor(Rotate(codec))])
def test_what_a_codec_writes_is_values_without_a_word(lift: Any) -> None:
    packet = spans(lift(Whole()))
    frame = 56 if lift not in (PerTensor, Flat) else 24
    assert packet.spans == {"header": frame, "positions": 0, "values": 6 * 32, "side": 0}


def test_the_count_of_a_pipeline_is_header_inside_anything() -> None:
    got = spans(Flat(Pipeline(TopK(0.5), Float32()))).spans
    assert got["values"] == 3 * 32
    assert got["header"] >= 25


# ---- what is refused before any kernel sees it


@dataclass(frozen=True)
class Coded(Halves):
    """A quantizer that returns what it is told to."""

    what: ClassVar[Any] = None
    back: ClassVar[Any] = None

    def quantize(self, values: Tensor, place: Any, out: Any, seed: int) -> Any:
        return self.what

    def dequantize(self, symbols: Symbols, place: Any, seed: int) -> Any:
        return self.back


def refused(method: Any, words: str) -> None:
    with pytest.raises(PartError, match=words):
        compress(parse(method) if isinstance(method, str) else method, UPDATE)


RISE = "tensor 'w': chosen.select returned positions that do not rise from entry 0 to entry 5"


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ((torch.tensor([4, 1, 0]), 1.0), RISE),
        ((torch.tensor([1, 1, 2]), 1.0), RISE),
        ((torch.tensor([0, 1, 6]), 1.0), RISE),
        ((torch.tensor([-1, 1, 2]), 1.0), RISE),
        (torch.tensor([0, 1, 2]), r"returned a torch.int64 tensor \(3,\): it returns a pair"),
        (None, "chosen.select returned None: it returns a pair"),
        ((np.arange(3), 1.0), r"returned a numpy array \(3,\) of int64 as positions"),
        ((torch.arange(3).int(), 1.0), r"a torch.int32 tensor \(3,\) as positions"),
        ((torch.ones(6, dtype=torch.bool), 1.0), r"a torch.bool tensor \(6,\) as positions"),
        ((torch.arange(3).view(3, 1), 1.0), r"int64 tensor \(3, 1\) as positions"),
        ((torch.arange(3), None), "returned None as the factor"),
    ],
)
@pytest.mark.parametrize("positions", ["golomb", "raw32", "context"])
def test_what_select_returns(
    what: Any, words: str, positions: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A position coder's kernel, given these, ends the process or writes what cannot be read."""
    named(monkeypatch, "sparsifier", Chosen)
    monkeypatch.setattr(Chosen, "what", what)
    refused(f"chosen | float32 | {positions}", words)


@pytest.mark.parametrize("nominal", [2.0, -1, 7, None])
def test_what_count_returns(nominal: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "sparsifier", Chosen)
    monkeypatch.setattr(Chosen, "what", (torch.arange(2), 1.0))
    monkeypatch.setattr(Chosen, "nominal", nominal)
    refused("chosen | float32", rf"chosen.count\(6\) returned {nominal}: give an int from 0 to 6")


BYTES = torch.tensor([0, 1, 2, 3, 0, 1], dtype=torch.uint8)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (BYTES, r"coded.quantize returned a torch.uint8 tensor \(6,\): it returns Symbols"),
        (Symbols(BYTES, 3), "codes from 0 to 3: with an alphabet of 3 they lie from 0 to 2"),
        (Symbols(BYTES.long(), 4), "with an alphabet of 4 they are a torch.uint8 tensor"),
        (Symbols(BYTES, 1 << 9), "with an alphabet of 512 they are a torch.int16 tensor"),
        (Symbols(BYTES.short() - 1, 1 << 9), "codes from -1 to 2"),
        (Symbols(BYTES[:5], 4), r"tensor \(5,\) as codes of 6 values"),
        (Symbols(BYTES, 4.0), "the alphabet 4.0"),
        (Symbols(BYTES, 0), "the alphabet 0"),
    ],
)
@pytest.mark.parametrize("symbols", ["fixed", "huffman", "elias_gamma"])
def test_what_quantize_returns(
    what: Any, words: str, symbols: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named(monkeypatch, "quantizer", Coded)
    monkeypatch.setattr(Coded, "what", what)
    refused(f"coded | {symbols}", words)


@pytest.mark.parametrize("back", [None, torch.zeros(5), torch.zeros(6).double()])
def test_what_dequantize_returns(back: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    named(monkeypatch, "quantizer", Coded)
    monkeypatch.setattr(Coded, "what", Symbols(BYTES, 4))
    monkeypatch.setattr(Coded, "back", back)
    refused("coded", "coded.dequantize returned .*: it returns a float32 tensor")


@dataclass(frozen=True)
class Says(Whole):
    """A codec that says of what it sent what it is told to."""

    what: ClassVar[Any] = None

    def write(self, x: Tensor, out: Any, seed: int) -> Any:
        return self.what


X, TWO = UPDATE["w"], torch.tensor([0, 2])


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (X, r"says.write returned a torch.float32 tensor \(2, 3\): it returns a SentTensor"),
        (SentTensor(X.view(-1), ALL, X.shape), "where indices is ALL the values have its shape"),
        (SentTensor(X.double(), ALL, X.shape), "torch.float64 tensor .* as values"),
        (SentTensor(X, ALL, torch.Size([6])), "a shape of"),
        (SentTensor(X.view(-1), TWO, X.shape), "as indices of"),
        (SentTensor(X.view(-1)[:2], TWO.flip(0), X.shape), "indices that do not rise"),
        (SentTensor(X.view(-1)[:2], TWO.int(), X.shape), "as indices of"),
    ],
)
def test_what_a_codec_says_it_sent(what: Any, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Says, "what", what)
    named(monkeypatch, "codec", Says)
    refused("says", words)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_package_trusts_its_own_parts(row: Any) -> None:
    assert not is_own(parse(row.example))


@pytest.mark.parametrize("method", ["topk(0.5) | halves", "topk(0.5) | then(cnat, halves)"])
def test_a_users_part_is_found_inside_others(method: str) -> None:
    assert is_own(parse(method))
