"""Coders as public repositories write them: plain Python over strings of bits, or numpy alone."""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np


def rice_python(indices: Sequence[int], b: int) -> str:
    """Algorithm 3 of Sattler et al. word for word: a string of zeros and ones."""
    codes, before = [], -1
    for index in indices:
        quotient, rest = divmod(index - before - 1, 1 << b)
        codes.append("1" * quotient + "0" + (format(rest, f"0{b}b") if b else ""))
        before = index
    return "".join(codes)


def rice_python_back(bits: str, b: int) -> list[int]:
    """Algorithm 4: bit by bit."""
    indices, index, quotient, at = [], -1, 0, 0
    while at < len(bits):
        if bits[at] == "1":
            quotient, at = quotient + 1, at + 1
        else:
            index += (quotient << b) + int(bits[at + 1 : at + 1 + b] or "0", 2) + 1
            indices.append(index)
            quotient, at = 0, at + 1 + b
    return indices


def rice_numpy(indices: np.ndarray, b: int) -> bytes:
    """The same bits without a loop over indices: a byte a bit, packed at the end."""
    gaps = np.diff(indices, prepend=-1) - 1
    quotients = gaps >> b
    widths = quotients + 1 + b
    starts = np.cumsum(widths) - widths
    bits = np.zeros(int(widths.sum()), np.uint8)
    before = np.cumsum(quotients) - quotients
    bits[np.arange(quotients.sum()) + np.repeat(starts - before, quotients)] = 1
    for place in range(b):
        bits[starts + quotients + 1 + place] = gaps >> (b - 1 - place) & 1
    return np.packbits(bits).tobytes()


def huffman_book(symbols: Sequence[int]) -> dict[int, str]:
    """A Huffman code by a heap, as every tutorial has it."""
    heap = [[count, symbol, (symbol,)] for symbol, count in Counter(symbols).items()]
    book = dict.fromkeys((symbol for _, symbol, _ in heap), "")
    heapq.heapify(heap)
    while len(heap) > 1:
        low, high = heapq.heappop(heap), heapq.heappop(heap)
        for bit, (_, _, nodes) in (("0", low), ("1", high)):
            for symbol in nodes:
                book[symbol] = bit + book[symbol]
        heapq.heappush(heap, [low[0] + high[0], low[1], low[2] + high[2]])
    return book


def elias_gamma_word(v: int) -> str:
    """The Elias gamma code of v >= 1."""
    return "0" * (v.bit_length() - 1) + format(v, "b")


def elias_delta_word(v: int) -> str:
    """The Elias delta code of v >= 1."""
    return elias_gamma_word(v.bit_length()) + format(v, "b")[1:]


def elias_omega_word(v: int) -> str:
    """The Elias omega code of v >= 1."""
    word = "0"
    while v > 1:
        word, v = format(v, "b") + word, v.bit_length() - 1
    return word


def elias_book(word: Callable[[int], str], alphabet: int) -> dict[int, str]:
    """The code words of all symbols + 1."""
    return {symbol: word(symbol + 1) for symbol in range(alphabet)}


def table_python(symbols: Sequence[int], book: dict[int, str]) -> str:
    """Any prefix code by its table."""
    return "".join([book[symbol] for symbol in symbols])


def table_python_back(bits: str, book: dict[int, str]) -> list[int]:
    """Bit by bit, until what was read is a code word."""
    words = {word: symbol for symbol, word in book.items()}
    symbols, word = [], ""
    for bit in bits:
        word += bit
        if word in words:
            symbols.append(words[word])
            word = ""
    return symbols


def bloom_numpy(indices: np.ndarray, n: int, m: int, h: int) -> np.ndarray:
    """The positives of a filter of m bits and h hashes: double hashing, all entries at once."""
    filled = np.zeros(m, np.bool_)
    for place in _places(indices, m, h):
        filled[place] = True
    everything = np.arange(n)
    bits_set = np.ones(n, np.bool_)
    for place in _places(everything, m, h):
        bits_set &= filled[place]
    return np.flatnonzero(bits_set)


def _places(index: np.ndarray, m: int, h: int) -> "list[np.ndarray]":
    """h places of each index, from two multiplicative hashes."""
    wide = index.astype(np.uint64)
    a = (wide * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(33)
    b = ((wide * np.uint64(0xC2B2AE3D27D4EB4F)) >> np.uint64(33)) | np.uint64(1)
    return [((a + np.uint64(i) * b) % np.uint64(m)).astype(np.int64) for i in range(h)]
