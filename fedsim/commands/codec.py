"""``fedsim compress`` and ``decompress``: one update in a file to a message and back."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.commands.output import print_document
from fedsim.ground.errors import UsageError, writable
from fedsim.ground.units import bits, ratio

if TYPE_CHECKING:
    from compressors import Tensors
    from fedsim.measure.tensorfiles import TensorFile

_FORMATS = "float32 in .npy, .pt, .pth or .safetensors"


def add_codec(commands: Any) -> None:
    """Adds both commands."""
    encode = commands.add_parser(
        "compress",
        help="encode an update in a file into a message",
        description="Encodes an update into the message that a client would send, and prints its "
        "bits, what they are made of, and the error.",
    )
    encode.add_argument("method", help="such as 'sbc(0.01)'")
    encode.add_argument("file", help=f"the update: {_FORMATS}")
    encode.add_argument("-o", "--output", metavar="FILE", help="where to write the message")
    encode.add_argument("--seed", type=int, default=0, help="for random methods (default: 0)")
    add_shared(encode)
    encode.set_defaults(command=command_compress)
    decode = commands.add_parser(
        "decompress",
        help="decode a message into an update in a file",
        description="Decodes a message that compress wrote, and writes the update that the server "
        "would see.",
    )
    decode.add_argument("method", help="the method that made the message")
    decode.add_argument("file", help="the message")
    decode.add_argument(
        "--like",
        metavar="FILE",
        required=True,
        help=f"tensors of the same names and shapes, values unread: {_FORMATS}",
    )
    decode.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        help="what to write: .npy, .pt, .pth or .safetensors",
    )
    add_shared(decode)
    decode.set_defaults(command=command_decompress)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Adds the flags of every command that reads tensors from files."""
    parser.add_argument(
        "--as-float32",
        action="store_true",
        help="convert tensors of other float types, and leave integer tensors out",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def command_compress(flags: argparse.Namespace) -> int:
    """Encodes a file and prints the bits of each part of the message."""
    from compressors import compress
    from fedsim.ground.files import write_bytes
    from fedsim.measure.methods import accuracy
    from fedsim.settings.methods import compressor_of

    method = compressor_of(flags.method)
    check_place(flags.output, "-o")
    update = read_tensors(flags.file, flags).tensors
    start = time.perf_counter()
    try:
        packet, _ = compress(method, update, seed=flags.seed)
    except ValueError as error:  # an overflow, a tensor that no rule fits
        raise UsageError(f"{flags.file}: {error}") from error
    seconds = time.perf_counter() - start
    entries = sum(x.numel() for x in update.values())
    wire, spans = 8 * len(packet.payload), packet.spans
    distance, _ = accuracy((x, packet.sent[name].decoded) for name, x in update.items())
    tensors = {n: row | {"sent": packet.sent[n].count} for n, row in _shapes(update).items()}
    row = {
        "method": flags.method,
        "entries": entries,
        "sent": sum(tensor.count for tensor in packet.sent.values()),
        "wire_bits": wire,
        "content_bits": wire - spans["header"],
        "header_bits": spans["header"],
        "position_bits": spans["positions"],
        "value_bits": spans["values"],
        "side_bits": spans["side"],
        "ratio": 32 * entries / wire,
        "relative_error": distance,
        "seconds": seconds,
        "tensors": tensors,
    }
    if flags.output:
        with writable("-o", flags.output):
            write_bytes(flags.output, packet.payload)
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
    from compressors import decompress
    from fedsim.measure import tensorfiles
    from fedsim.settings.methods import compressor_of

    method = compressor_of(flags.method)
    template = read_tensors(flags.like, flags, values=False)
    tensorfiles.check_output(flags.output, len(template.tensors))
    check_place(flags.output, "-o")
    try:
        decoded = decompress(method, Path(flags.file).read_bytes(), template.tensors)
    except OSError as error:
        raise UsageError(f"{flags.file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{flags.file}: {error}") from error
    ordered = {name: decoded[name] for name in template.tensors}
    with writable("-o", flags.output):
        tensorfiles.write_tensors(flags.output, ordered, template.bare)
    entries = sum(x.numel() for x in ordered.values())
    if flags.json:
        print_document({"entries": entries, "tensors": _shapes(ordered), "output": flags.output})
    else:
        print(f"{entries} entries written to {flags.output}", file=sys.stderr)
    return 0


def read_tensors(path: str, flags: argparse.Namespace, values: bool = True) -> TensorFile:
    """The tensors of a file, by ``--as-float32``; those left out are named on stderr."""
    from fedsim.measure import tensorfiles

    file = tensorfiles.load_tensors(path, flags.as_float32, values)
    if file.left_out:
        names = ", ".join(map(repr, file.left_out))
        print(f"{path}: left out, not floats: {names}", file=sys.stderr)
    return file


def check_place(path: str | None, flag: str) -> None:
    """Raises ``UsageError`` where a file surely cannot be written, before any work is done."""
    if path is None:
        return
    folder = Path(path).parent
    if Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        cause = "it is a directory" if Path(path).is_dir() else f"no folder to write to: {folder}"
        raise UsageError(f"{flag} is {path}: cannot be written ({cause})")


def _shapes(tensors: Tensors) -> dict[str, dict[str, Any]]:
    return {n: {"shape": list(x.shape), "entries": x.numel()} for n, x in tensors.items()}
