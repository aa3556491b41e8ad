"""One shared bit cursor for a whole message: everything writes to it, everything reads from it.

Bits are laid down most significant first and without padding between fields.
While a ``span`` is open its bits are booked under that span's name; all others
are ``header``. The four sums are the whole length, in the writer and the reader.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from compressors.errors import PayloadError
from compressors.kernels import fields, pack

if TYPE_CHECKING:
    from torch import Tensor

Span = Literal["header", "positions", "values", "side"]
SPANS: tuple[Span, ...] = ("header", "positions", "values", "side")


class _Cursor:
    """A position in a stream of words, and the account of which span its bits belong to."""

    def __init__(self) -> None:
        self.position = self._since = 0
        self._open: list[Span] = ["header"]  # the innermost span last
        self._booked: dict[Span, int] = dict.fromkeys(SPANS, 0)

    def span(self, name: Span) -> "_Cursor":
        """``with`` it, books what is written or read under ``name``; of nested ones the inner."""
        self._book()
        self._open.append(name)
        return self

    def __enter__(self) -> None:
        """The span is open: see ``span``."""

    def __exit__(self, *error: object) -> None:
        self._book()
        self._open.pop()

    def _book(self) -> None:
        self._booked[self._open[-1]] += self.position - self._since
        self._since = self.position

    def spans(self) -> dict[Span, int]:
        """Bits so far by span; they sum to ``position``."""
        self._book()
        return dict(self._booked)


class BitWriter(_Cursor):
    """Grows as it is written to; ``to_bytes`` pads the last byte with zeros.

    Example:
        >>> out = BitWriter()
        >>> out.uint(5, 3)
        >>> out.to_bytes()
        b'\\xa0'
    """

    def __init__(self) -> None:
        super().__init__()
        self.words = np.zeros(64, np.uint64)

    def reserve(self, bits: int) -> None:
        """Makes room for ``bits`` more (coders then write to ``words`` and move ``position``)."""
        need = (self.position + bits) // 64 + 2
        if need > self.words.size:
            grown = np.zeros(max(need, 2 * self.words.size), np.uint64)
            grown[: self.words.size] = self.words
            self.words = grown

    def uint(self, value: int, width: int) -> None:
        """Writes ``value`` (0 <= value < 2**width) in ``width`` bits; width 0 writes nothing."""
        if not 0 <= width <= 64 or not 0 <= value < 1 << width:
            raise ValueError(f"value {value} does not fit in {width} bits (0 to 64)")
        if width:
            self.reserve(width)
            pack.put_one(self.words, self.position, np.uint64(value), width)
            self.position += width

    def gamma(self, value: int) -> None:
        """Writes ``value`` >= 1 as an Elias gamma code: 2 floor(log2 value) + 1 bits."""
        if not 1 <= value < 1 << 63:
            raise ValueError(f"an Elias gamma code takes 1 to 2**63 - 1, not {value}")
        width = value.bit_length()
        self.uint(0, width - 1)
        self.uint(value, width)

    def uints(self, values: np.ndarray, width: int, low: int = 0) -> None:
        """Writes an array of unsigned integers, each in ``width`` bits (0 to 64).

        The bits from ``low`` upwards are written: the low ``width`` bits by default.
        """
        if width and values.size:
            self.reserve(values.size * width)
            values = np.ascontiguousarray(values)
            self.position = fields.put_fields(self.words, self.position, values, width, low)

    def float32s(self, values: np.ndarray) -> None:
        """Writes float32 values (any shape, C order) as their 32 IEEE bits."""
        bits = np.ascontiguousarray(values, np.float32).reshape(-1).view(np.uint32)
        if bits.size:
            self.reserve(32 * bits.size)
            self.position = pack.put_32(self.words, self.position, bits)

    def to_bytes(self) -> bytes:
        """Everything written, padded with zero bits to a whole byte."""
        used = (self.position + 63) // 64
        stream = self.words[:used].astype(">u8").view(np.uint8)
        return stream[: (self.position + 7) // 8].tobytes()


class BitReader(_Cursor):
    """Reads what a ``BitWriter`` wrote and never a bit more.

    Every method raises ``PayloadError`` where the payload is too short, before any
    memory is taken for what it claims to hold.

    Attributes:
        places: the sorted flat positions of what travelled of the tensor that was read last; None:
            all of it. A codec of some entries sets it.
        sent: how many entries travelled, by tensor, of those that did not travel whole.
    """

    def __init__(self, payload: bytes) -> None:
        super().__init__()
        self.end = 8 * len(payload)
        self.payload = payload
        self.places: Tensor | None = None
        self.sent: dict[str, int] = {}
        self._words: np.ndarray | None = None

    @property
    def words(self) -> np.ndarray:
        """The payload as 64-bit words with one to spare for ``pack.peek``, made when asked for."""
        if self._words is None:
            padded = self.payload + bytes(16 - len(self.payload) % 8)
            self._words = np.frombuffer(padded, ">u8").astype(np.uint64)
        return self._words

    def need(self, bits: int) -> None:
        """Raises ``PayloadError`` unless ``bits`` more can be read."""
        if bits > self.end - self.position:
            raise PayloadError(
                f"payload of {self.end // 8} bytes ends early: {bits} bits wanted at bit "
                f"{self.position}, {self.end - self.position} left"
            )

    def uint(self, width: int) -> int:
        """The next ``width`` bits (0 to 64) as an unsigned integer."""
        if width == 0:
            return 0
        self.need(width)
        value = int(pack.get_one(self.words, self.position, width))
        self.position += width
        return value

    def gamma(self) -> int:
        """The next Elias gamma code."""
        zeros = 0
        while self.uint(1) == 0:
            zeros += 1
            if zeros > 62:
                raise PayloadError("an Elias gamma code is longer than any that is written")
        return (1 << zeros) | self.uint(zeros)

    def uints(self, count: int, width: int, dtype: Any = np.uint64, low: int = 0) -> np.ndarray:
        """``count`` fields of ``width`` bits (0 to 64) as an array (count,) of ``dtype``.

        Each is shifted up by ``low`` bits: the place that ``BitWriter.uints`` took it from.
        """
        self.need(count * width)
        values = np.zeros(count, dtype)
        if width and count:
            self.position = fields.get_fields(self.words, self.position, values, width, low)
        return values

    def float32s(self, count: int) -> np.ndarray:
        """``count`` float32 values (count,)."""
        self.need(32 * count)
        if count and self.position % 8 == 0:  # whole bytes, as in a raw message: no shifts
            start = self.position // 8
            self.position += 32 * count
            stream = np.frombuffer(self.payload, np.uint8, 4 * count, start)
            return pack.from_bytes_32(stream).view(np.float32)
        bits = np.empty(count, np.uint32)
        if count:
            self.position = pack.get_32(self.words, self.position, bits)
        return bits.view(np.float32)

    def decode(self, kernel: Callable[..., int], *arguments: Any, refusals: Sequence[str]) -> None:
        """Moves on to where ``kernel`` ends, which is given the words, the position, the end, ...

        Raises ``PayloadError`` with the first of ``refusals`` where it returns -1, and so on.
        """
        position = int(kernel(self.words, self.position, self.end, *arguments))
        if position < 0:
            raise PayloadError(refusals[-1 - position])
        self.position = position

    def finish(self) -> None:
        """Raises ``PayloadError`` unless only zero padding up to the byte's end is left."""
        left = self.end - self.position
        if left >= 8:
            raise PayloadError(f"payload has {left} bits after its end: trailing data")
        if self.uint(left):
            raise PayloadError("the padding at the end of the payload is not zero")
