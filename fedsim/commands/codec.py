"""``fedsim compress`` and ``decompress``: one update in a file to a message and back."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors import Compressor, Packet, PayloadError, UpdateError, compress, decompress, parse
from fedsim.commands.document import print_document
from fedsim.errors import UsageError
from fedsim.files import replacing, write_bytes
from fedsim.units import bits, ratio


def add(commands: Any) -> None:
    """Adds both commands."""
    encode = commands.add_parser("compress", help="encode an update (.npy) into a message")
    encode.add_argument("method", help="such as 'sbc(0.01)'")
    encode.add_argument("file", help="the update: a .npy file of float32")
    encode.add_argument("-o", "--output", metavar="FILE", help="where to write the message")
    encode.add_argument("--seed", type=int, default=0, help="for random methods (default: 0)")
    encode.add_argument("--json", action="store_true", help="print one JSON document")
    encode.set_defaults(command=command_compress)
    decode = commands.add_parser("decompress", help="decode a message into an update (.npy)")
    decode.add_argument("method", help="the method that made the message")
    decode.add_argument("file", help="the message")
    decode.add_argument("--like", metavar="FILE", required=True, help="a .npy of the same shape")
    decode.add_argument("-o", "--output", metavar="FILE", required=True, help="a .npy to write")
    decode.set_defaults(command=command_decompress)


def command_compress(flags: argparse.Namespace) -> int:
    """Encodes a file and says where its bits go."""
    method, update = _method(flags.method), {"update": _read(flags.file)}
    start = time.perf_counter()
    try:
        packet, _ = compress(method, update, seed=flags.seed)
    except UpdateError as error:
        raise UsageError(f"{flags.file}: {error}") from error
    row = _row(flags.method, update, packet, time.perf_counter() - start)
    if flags.output:
        _write(Path(flags.output), packet.payload)
    if flags.json:
        print_document(row)
    else:
        print(
            f"{row['entries']} entries, {row['sent']} sent: {bits(row['wire_bits'])} "
            f"({ratio(row['ratio'])}), of which header {row['header_bits']}, positions "
            f"{row['position_bits']}, values {row['value_bits']}, side {row['side_bits']} bit; "
            f"relative error {row['relative_error']:.4g}"
        )
    return 0


def command_decompress(flags: argparse.Namespace) -> int:
    """Decodes a message into a file."""
    like = {"update": _read(flags.like)}
    try:
        payload = Path(flags.file).read_bytes()
        decoded = decompress(_method(flags.method), payload, like)["update"]
    except OSError as error:
        raise UsageError(f"{flags.file} cannot be read: {error.strerror}") from error
    except PayloadError as error:
        raise UsageError(f"{flags.file}: {error}") from error
    try:
        with replacing(flags.output) as file:
            np.save(file, decoded.numpy())
    except OSError as error:
        raise UsageError(f"-o is {flags.output}: cannot be written ({error.strerror})") from error
    print(f"{decoded.numel()} entries written to {flags.output}", file=sys.stderr)
    return 0


def _method(source: str) -> Compressor:
    try:
        return parse(source)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _read(path: str) -> Tensor:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"{path} is not a .npy file of numbers: updates are float32") from error
    if not isinstance(array, np.ndarray) or array.dtype != np.float32:
        raise UsageError(f"{path} is {getattr(array, 'dtype', 'no array')}: updates are float32")
    return torch.from_numpy(array)


def _write(path: Path, payload: bytes) -> None:
    try:
        write_bytes(path, payload)
    except OSError as error:
        raise UsageError(f"-o is {path}: cannot be written ({error.strerror})") from error


def _row(
    method: str, update: dict[str, Tensor], packet: Packet, seconds: float
) -> dict[str, Any]:
    entries = sum(x.numel() for x in update.values())
    wire = 8 * len(packet.payload)
    spans = packet.spans
    difference = sum(float(((packet.sent[n].decoded - x) ** 2).sum()) for n, x in update.items())
    norm = sum(float((x**2).sum()) for x in update.values())
    return {
        "method": method,
        "entries": entries,
        "sent": sum(tensor.count for tensor in packet.sent.values()),
        "wire_bits": wire,
        "content_bits": wire - spans["header"],
        "header_bits": spans["header"],
        "position_bits": spans["positions"],
        "value_bits": spans["values"],
        "side_bits": spans["side"],
        "ratio": 32 * entries / wire,
        "relative_error": (difference / norm) ** 0.5 if norm else 0.0,
        "seconds": seconds,
        "tensors": {
            name: {"shape": list(x.shape), "entries": x.numel(), "sent": packet.sent[name].count}
            for name, x in update.items()
        },
    }
