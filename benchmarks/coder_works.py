"""What `coders.py` times: inputs, our coders on them, and the peers' way with the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import coder_peers as peers
import numpy as np
import torch

from compressors import (
    Ans,
    Bitmap,
    BitReader,
    BitWriter,
    Bloom,
    Context,
    DeltaHuffman,
    EliasDelta,
    EliasGamma,
    EliasOmega,
    Golomb,
    Huffman,
    RunLengthHuffman,
    SampleHuffman,
    SparseHuffman,
)
from compressors.coders.bloom import expected_answers, filter_size
from compressors.coders.golomb import rice_parameter

PEER_MOST = 100_000  # elements for plain Python
BLOOM_PEER = 1_000_000  # entries for numpy, which asks every hash of every entry
ALPHABET = 15
EPS = 0.01


@dataclass(frozen=True)
class Work:
    """One line of the table; ``count`` elements are coded by ``ours``, fewer by the peer."""

    name: str
    ours: Callable[[], Any]
    count: int
    bits: float | None = None  # an element
    target: float | None = None  # nanoseconds an element, at most
    peer_name: str = ""
    peer: Callable[[], Any] | None = None
    peer_count: int = 0


def check(same: bool, what: str) -> None:
    """Raises ``SystemExit`` where what is compared differs."""
    if not same:
        raise SystemExit(f"{what}: what is compared differs")


def random_positions(n: int, p: float) -> np.ndarray:
    """Sorted positions of entries sent with probability ``p`` each."""
    return np.flatnonzero(np.random.default_rng(1).random(n, np.float32) < p)


def crowded_positions(n: int, p: float) -> np.ndarray:
    """Positions in a matrix whose rows and columns have log-normal chances, ``p`` on average."""
    rng, width = np.random.default_rng(2), 1 << (n.bit_length() - 1) // 2
    rows, columns = rng.lognormal(0, 1, n // width), rng.lognormal(0, 1, width)
    scale = p / rows.mean() / columns.mean()
    sent = [np.flatnonzero(rng.random(width) < scale * row * columns) for row in rows]
    return np.concatenate([places + i * width for i, places in enumerate(sent)])


def skewed_symbols(count: int) -> np.ndarray:
    """Symbols (uint8) below 15 of which s comes with a chance of about 0.55 * 0.45**s."""
    drawn = np.random.default_rng(3).geometric(0.55, count) - 1
    return np.minimum(drawn, ALPHABET - 1).astype(np.uint8)


def works(entries: int) -> Iterator[Work]:
    """Every line; what is coded is decoded and compared, which also compiles."""
    for p in (0.01, 0.001):
        indices = random_positions(entries, p)
        yield from _golomb(indices, entries, p)
    indices = random_positions(entries, 0.01)
    for name, code in (
        ("golomb(exact)", Golomb("exact")),
        ("golomb, split order", Golomb(order="split")),
    ):
        yield from _positions(f"{name}, p = 0.01", code, indices, entries, 9)
    for name, code in (("delta_huffman", DeltaHuffman()), ("bitmap", Bitmap())):
        yield from _positions(f"{name}, p = 0.01", code, indices, entries, None)
    for p in (0.01, 0.001):
        for kind, draw in (("random", random_positions), ("crowded", crowded_positions)):
            yield from _positions(
                f"context, {kind}, p = {p:g}", Context(), draw(entries, p), entries, 60
            )
    yield _bloom(indices, entries)
    yield from _symbols(skewed_symbols(max(1, entries // 10)))


def _written(write: Callable[[BitWriter], Any]) -> tuple[bytes, int]:
    out = BitWriter()
    write(out)
    return out.to_bytes(), out.position


def _positions(
    name: str,
    code: Any,
    indices: np.ndarray,
    n: int,
    target: float | None,
    peer_name: str = "",
    ways: tuple[Any, Any, int] = (None, None, 0),
) -> Iterator[Work]:
    k = indices.size
    payload, bits = _written(lambda out: code.write_positions(indices, n, out, 0))

    def encode() -> np.ndarray:
        return code.write_positions(indices, n, BitWriter(), 0)

    def decode() -> np.ndarray:
        return code.read_positions(BitReader(payload), n, k, 0)

    check(np.array_equal(decode(), indices), name)
    yield Work(f"{name}, encode", encode, k, bits / k, target, peer_name, ways[0], ways[2])
    yield Work(f"{name}, decode", decode, k, None, target, peer_name, ways[1], ways[2])


def _golomb(indices: np.ndarray, n: int, p: float) -> Iterator[Work]:
    """The paper's code and order, and the same bits by plain Python and by numpy."""
    code, b, name = Golomb(p), rice_parameter(p), f"golomb, p = {p:g}"
    few = indices[:PEER_MOST]
    plain, listed = peers.rice_python(few.tolist(), b), few.tolist()
    payload, bits = _written(lambda out: code.write_positions(few, n, out, 0))
    ours = np.unpackbits(np.frombuffer(payload, np.uint8))[:bits]
    check("".join(map(str, ours.tolist())) == plain, f"{name} and plain Python")
    check(peers.rice_python_back(plain, b) == listed, "plain Python's Golomb decoder")
    check(peers.rice_numpy(few, b) == payload, f"{name} and numpy")
    works = _positions(
        name,
        code,
        indices,
        n,
        9,
        "plain Python",
        (
            lambda: peers.rice_python(listed, b),
            lambda: peers.rice_python_back(plain, b),
            few.size,
        ),
    )
    encode, decode = works
    yield from (
        encode,
        Work(
            f"{name}, encode beside numpy",
            encode.ours,
            encode.count,
            None,
            9,
            "numpy",
            lambda: peers.rice_numpy(indices, b),
            indices.size,
        ),
        decode,
    )


def _bloom(indices: np.ndarray, n: int) -> Work:
    """Building the filter and asking it for all n entries, as a writer does for ``p0``."""
    code = Bloom(EPS, "p0")
    payload, bits = _written(lambda out: code.write_positions(indices, n, out, 7))
    positions = code.read_positions(BitReader(payload), n, indices.size, 7)
    check(bool(np.isin(indices, positions, assume_unique=True).all()), "bloom")
    few = min(n, BLOOM_PEER)
    few_indices = indices[indices < few]
    m, h = filter_size(max(1, few_indices.size), EPS)
    positives = peers.bloom_numpy(few_indices, few, m, h)
    expected = expected_answers(few_indices.size, few, EPS)
    check(positives.size <= 1.3 * expected + 100, "numpy's Bloom filter")
    return Work(
        "bloom(0.01), build and query, an entry of d",
        lambda: code.write_positions(indices, n, BitWriter(), 7),
        n,
        bits / n,
        16,
        "numpy",
        lambda: peers.bloom_numpy(few_indices, few, m, h),
        few,
    )


_ELIAS = {
    "elias_gamma": (EliasGamma(), peers.elias_gamma_word),
    "elias_delta": (EliasDelta(), peers.elias_delta_word),
    "elias_omega": (EliasOmega(), peers.elias_omega_word),
}


def _symbols(numbers: np.ndarray) -> Iterator[Work]:
    listed = numbers[:PEER_MOST].tolist()
    yield from _prefix("huffman", Huffman(), numbers, listed, peers.huffman_book(listed))
    for name, (code, word) in _ELIAS.items():
        book = peers.elias_book(word, ALPHABET)
        few = torch.from_numpy(numbers[:PEER_MOST])
        bits = _written(lambda out, c=code, x=few: c.write_symbols(x, ALPHABET, out))[1]
        check(len(peers.table_python(listed, book)) == bits, f"{name} and plain Python")
        yield from _prefix(name, code, numbers, listed, book)
    others = {
        "ans": Ans(),
        "sh": SampleHuffman(),
        "shs(5)": SparseHuffman(5),
        "rlh": RunLengthHuffman(),
    }
    for name, code in others.items():
        yield from _coded(name, code, numbers, (None, None))


def _prefix(
    name: str, code: Any, numbers: np.ndarray, listed: list[int], book: dict[int, str]
) -> Iterator[Work]:
    """A prefix code beside plain Python with a table of code words."""
    plain = peers.table_python(listed, book)
    check(peers.table_python_back(plain, book) == listed, f"plain Python's {name} decoder")
    yield from _coded(
        name,
        code,
        numbers,
        (5, 10),
        len(listed),
        (
            lambda: peers.table_python(listed, book),
            lambda: peers.table_python_back(plain, book),
        ),
    )


def _coded(
    name: str,
    code: Any,
    numbers: np.ndarray,
    targets: tuple[float | None, float | None],
    peer_count: int = 0,
    ways: tuple[Any, Any] = (None, None),
) -> Iterator[Work]:
    codes, k = torch.from_numpy(numbers), numbers.size
    payload, bits = _written(lambda out: code.write_symbols(codes, ALPHABET, out))

    def encode() -> None:
        code.write_symbols(codes, ALPHABET, BitWriter())

    def decode() -> torch.Tensor:
        return code.read_symbols(BitReader(payload), k, ALPHABET)

    check(torch.equal(decode(), codes), name)
    peer = "plain Python" if ways[0] else ""
    yield Work(
        f"{name}, symbols, encode", encode, k, bits / k, targets[0], peer, ways[0], peer_count
    )
    yield Work(f"{name}, symbols, decode", decode, k, None, targets[1], peer, ways[1], peer_count)
