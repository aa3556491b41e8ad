"""Writes the golden bytes of the catalogue rows named on the command line, and of no others.

    PYTHONPATH=. python tests/compressors/write_golden.py NAME...

Golden bytes change only where a message's format changes on purpose: look at the
difference, and raise ``compressors.message.VERSION`` where messages in store would no
longer be read. No test ever writes one.
"""

import sys
from pathlib import Path

from torch import Tensor

from compressors import CATALOGUE, Packet, compress, parse
from tests.support.generators import whole_numbers

FOLDER = Path(__file__).parent / "golden"
COMMAND = "PYTHONPATH=. python tests/compressors/write_golden.py"


def golden_updates() -> list[dict[str, Tensor]]:
    """Two updates of one sender, made by integer arithmetic alone; the second is partly zero."""
    return [
        {
            "conv.weight": whole_numbers(360, salt).reshape(20, 2, 3, 3) / 256,
            "conv.bias": whole_numbers(20, salt + 10) / 256 * (salt == 1),
            "scale": whole_numbers(1, salt + 20).reshape(()) / 256,
            "nothing": whole_numbers(0, 0),
        }
        for salt in (1, 2)
    ]


def golden_packets(example: str) -> list[Packet]:
    """The messages of one sender about the golden updates."""
    packets, state = [], None
    for update in golden_updates():
        packet, state = compress(parse(example), update, state, seed=20180522)
        packets.append(packet)
    return packets


def golden_text(example: str) -> str:
    """What a golden file holds: a message is a line of its bits by span, and lines of hex."""
    lines = []
    for packet in golden_packets(example):
        lines.append("# " + " ".join(f"{name}={bits}" for name, bits in packet.spans.items()))
        digits = packet.payload.hex()
        lines += [digits[i : i + 96] for i in range(0, len(digits), 96)]
    return "\n".join(lines) + "\n"


def main(names: list[str]) -> int:
    """Writes one file a name; 2 without names, or where one of them is unknown."""
    unknown = [name for name in names if name not in CATALOGUE]
    if unknown or not names:
        print(f"usage: {COMMAND} NAME...; known names: {', '.join(CATALOGUE)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        path = FOLDER / f"{name}.hex"
        path.write_text(golden_text(CATALOGUE[name].example))
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
