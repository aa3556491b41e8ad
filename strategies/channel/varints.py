"""Whole numbers of no fixed length in messages: 7 bits per byte, the lowest first."""

from compressors import PayloadError

LONGEST = 9
"""Bytes of a number at most: reading n of them takes n**2 steps."""


def varint(number: int) -> bytes:
    """A whole number from 0 up, of 63 bits at most.

    Example:
        >>> varint(1), varint(200).hex()
        (b'\\x01', 'c801')
    """
    parts = bytearray()
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(parts) + bytes([number])


def read_varint(data: bytes, at: int = 0) -> tuple[int, int]:
    """The number that begins at a place of ``data``, and the place behind it.

    Raises ``PayloadError`` where the data end within the number, or it is too long.

    Example:
        >>> read_varint(varint(200) + b"rest")
        (200, 2)
    """
    number = 0
    for i, byte in enumerate(data[at : at + LONGEST]):
        number |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return number, at + i + 1
    raise PayloadError(f"a whole number is cut, or has more than {LONGEST} bytes")
