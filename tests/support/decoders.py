"""Every decoder of the catalogue, with honest bytes of tensors of many shapes.

Decoders come from the rows: a new one is fuzzed when its row is there.
"""

from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from compressors import ROWS, BitReader, BitWriter, Compressor, compress, decompress, parse
from compressors.coders.fixed import Fixed, check_sorted, unsigned
from compressors.parts import (
    IEEE,
    Lossy,
    Measured,
    Place,
    PositionCode,
    Quantizer,
    SymbolCode,
    Symbols,
    code_dtype,
)
from tests.support.fuzzing import Case, Decoder
from tests.support.generators import METHODS, small_update, whole_numbers
from tests.support.traits import pipelines

MORE = (
    "golomb(exact)",
    "golomb(fit)",
    "golomb(None, rice, split)",
    "golomb(None, exact, split)",
    "bloom(0.1, naive)",
    "bloom(0.1, p0)",
    "bloom(0.1, p1)",
    "bloom(0.1, leftmost)",
)
"""Position codes beside the catalogue's examples."""

SHAPES = (
    (1, 1),
    (5, 2),
    (64, 64),
    (300, 3),
    (300, 40),
    (5000, 50),
    (5000, 2000),
    (70_000, 5),
    (70_000, 1500),
    (1 << 33, 3),
    (1 << 33, 40),
)
"""Entries of a tensor and how many of them are sent."""

ALPHABETS = (
    (0, 2),
    (1, 1),
    (1, 2),
    (2, 256),
    (50, 3),
    (300, 16),
    (300, 256),
    (200, 300),
    (100, 70_000),
    (100, IEEE),
    (5000, 5),
    (70_000, 3),
)
"""Symbols and their alphabet."""


def decoders() -> Iterator[Decoder]:
    """Every position code, symbol code, quantizer and whole method there is."""
    for row in ROWS:
        pipe = (pipelines(parse(row.example)) or [None])[0]
        if row.kind in ("positions", "coder"):
            yield _positions(row.name, pipe.positions)
        if row.kind in ("symbols", "coder"):
            yield Decoder(f"symbols {row.name}", lambda code=pipe.symbols: symbol_cases(code))
        if row.kind == "quantizer":
            yield Decoder(f"values {row.name}", lambda pipe=pipe: value_cases(pipe.quantize))
    for name in MORE:
        yield _positions(name, pipelines(parse(f"topk(0.1) | float32 | {name}"))[0].positions)
    for method in METHODS:
        yield Decoder(f"whole {method}", lambda method=method: message_cases(method))


def _positions(name: str, code: PositionCode) -> Decoder:
    return Decoder(f"positions {name}", lambda: position_cases(code))


def position_cases(code: PositionCode) -> list[Case]:
    """Random and crowded positions of all ``SHAPES`` in which the code is short."""
    rng, found = np.random.default_rng(1), []
    for n, k in SHAPES:
        crowded = min(n, 3 * k)
        for top in (n, crowded) if crowded < n else (n,):
            whole = rng.permutation(top)[:k] if top < 1 << 20 else rng.integers(0, top, k)
            indices = np.unique(whole).astype(np.int64)
            short = isinstance(code, Measured) and code.position_bits(indices, n) < 1 << 14
            if n > 1 << 20 and not short:
                continue
            out = BitWriter()
            try:
                code.write_positions(indices, n, out, 7)
            except ValueError:  # raw32, where indices take more than 32 bits
                continue
            read = _position_reader(code, n, indices.size)
            entries = n if isinstance(code, Lossy) else indices.size
            found.append(Case(out.to_bytes(), read, entries))
    return found


def _position_reader(code: PositionCode, n: int, k: int) -> Callable[[bytes], None]:
    def read(payload: bytes) -> None:
        bits = BitReader(payload)
        indices = code.read_positions(bits, n, k, 7)
        assert indices.dtype == np.int64 and check_sorted(indices, n) is indices
        assert indices.size == k or isinstance(code, Lossy)
        assert bits.position <= bits.end
        bits.finish()

    return read


def symbol_cases(code: SymbolCode) -> list[Case]:
    """Skewed and even symbols of all ``ALPHABETS``."""
    rng, found = np.random.default_rng(2), []
    for k, alphabet in ALPHABETS:
        for skew in (1, 12):
            numbers = (alphabet * rng.random(k) ** skew).astype(np.int64)
            dtype = code_dtype(alphabet)
            codes = torch.from_numpy(numbers).to(dtype)
            if alphabet == IEEE:
                codes = torch.from_numpy(rng.normal(size=k).astype(np.float32)).view(dtype)
            out = BitWriter()
            code.write_symbols(codes, alphabet, out)
            found.append(Case(out.to_bytes(), _symbol_reader(code, k, alphabet), k))
    return found


def _symbol_reader(code: SymbolCode, k: int, alphabet: int) -> Callable[[bytes], None]:
    def read(payload: bytes) -> None:
        bits = BitReader(payload)
        codes = code.read_symbols(bits, k, alphabet)
        assert codes.shape == (k,) and codes.dtype == code_dtype(alphabet)
        assert k == 0 or int(unsigned(codes).max()) < alphabet
        assert bits.position <= bits.end
        bits.finish()

    return read


def value_cases(quantizer: Quantizer) -> list[Case]:
    """Values of whole tensors and of some entries, behind symbols of equal width."""
    found = []
    for shape, step in (((6, 50), 1), ((6, 50), 7), ((), 1), ((7,), 1), ((7,), 9), ((300,), 2)):
        shape = torch.Size(shape)
        indices = None if step == 1 else torch.arange(0, shape.numel(), step)
        place = Place(indices, shape)
        values = whole_numbers(place.k, step) / 64
        values = values.abs() if quantizer.one_sign else values
        out = BitWriter()
        symbols = quantizer.quantize(values, place, out, 7)
        Fixed().write_symbols(symbols.codes, symbols.alphabet, out)
        found.append(Case(out.to_bytes(), _value_reader(quantizer, place), place.k))
    return found


def _value_reader(quantizer: Quantizer, place: Place) -> Callable[[bytes], None]:
    def read(payload: bytes) -> None:
        bits = BitReader(payload)
        alphabet, side = quantizer.read_side(bits, place)
        codes = Fixed().read_symbols(bits, place.k, alphabet)
        values = quantizer.dequantize(Symbols(codes, alphabet, side), place, 7)
        assert values.shape == (place.k,) and values.dtype == torch.float32
        bits.finish()

    return read


def message_cases(method: str) -> list[Case]:
    """First and second messages of senders whose tensors have other shapes."""
    compressor, found = parse(method), []
    frame = 7 if compressor.needs_seed else 3
    for updates in (
        [small_update(1), small_update()],
        [{"w": whole_numbers(300, i).reshape(30, 10), "b": torch.zeros(4)} for i in (1, 2)],
    ):
        memory = None
        for update in updates:
            packet, memory = compress(compressor, update, memory, seed=9)
            read = _message_reader(compressor, update)
            entries = sum(x.numel() for x in update.values())
            found.append(Case(packet.payload, read, entries, packet.payload[:frame]))
    return found


def _message_reader(compressor: Compressor, template: dict[str, Tensor]) -> Callable[[bytes], None]:
    def read(payload: bytes) -> None:
        got = decompress(compressor, payload, template)
        assert list(got) == list(template)
        for name, x in template.items():
            assert got[name].shape == x.shape and bool(torch.isfinite(got[name]).all())

    return read
