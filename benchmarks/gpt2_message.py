"""What a message of GPT-2's size costs: bits, seconds to bytes and back, memory.

    python benchmarks/gpt2_message.py [--methods 'raw; sbc(0.01)'] [--repeats 3]

The update has the names and shapes of GPT-2 (Radford et al. 2019, the smallest: 124,439,808 entries
in 148 tensors) and independent normal entries of mean 0 and deviation 0.01. Each method runs in a
process of its own with one torch thread. Seconds are of the processor in that thread, the median of
the repeats after a message that compiles. Memory is the most that the process had during a first
message or its decoding, the update included.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import forget_peak, memory, timed
from torch import Tensor

from compressors import compress, decompress, parse

METHODS = ("raw", "cnat", "qsgd(127)", "sbc(0.01)")
ROOT = Path(__file__).parents[1]
WIDTH, LAYERS, TOKENS, PLACES = 768, 12, 50_257, 1_024
HEADING = (
    "method",
    "bits",
    "bits per entry",
    "encode (s)",
    "decode (s)",
    "peak encoding (GB)",
    "peak decoding (GB)",
)


def gpt2() -> dict[str, tuple[int, ...]]:
    """The shapes of GPT-2's parameters by name; the last layer shares the embedding's weights.

    Example:
        >>> import math
        >>> sum(map(math.prod, gpt2().values()))
        124439808
    """
    shapes: dict[str, tuple[int, ...]] = {
        "wte.weight": (TOKENS, WIDTH),
        "wpe.weight": (PLACES, WIDTH),
    }
    layers = {
        "attn.c_attn": (WIDTH, 3 * WIDTH),
        "attn.c_proj": (WIDTH, WIDTH),
        "mlp.c_fc": (WIDTH, 4 * WIDTH),
        "mlp.c_proj": (4 * WIDTH, WIDTH),
    }
    for number in range(LAYERS):
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"h.{number}.{norm}.{part}": (WIDTH,) for part in ("weight", "bias")}
        for name, shape in layers.items():
            shapes[f"h.{number}.{name}.weight"] = shape
            shapes[f"h.{number}.{name}.bias"] = shape[1:]
    return shapes | {f"ln_f.{part}": (WIDTH,) for part in ("weight", "bias")}


def update_of(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Normal entries of deviation 0.01."""
    generator = torch.Generator().manual_seed(0)
    return {name: 0.01 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def measured(method: str, repeats: int) -> dict[str, Any]:
    """A row of the table, measured in this process: bits, seconds, bytes of memory."""
    torch.set_num_threads(1)
    compressor, small = parse(method), {"w": torch.randn(200, 300), "b": torch.randn(30)}
    decompress(compressor, compress(compressor, small)[0].payload, small)  # compiles
    update = update_of(gpt2())
    forget_peak()
    packet, _ = compress(compressor, update)
    encoding, payload = memory("VmHWM"), packet.payload
    del packet, _
    forget_peak()
    decompress(compressor, payload, update)
    decoding = memory("VmHWM")
    encode = [timed(lambda: compress(compressor, update)) for _ in range(repeats)]
    decode = [timed(lambda: decompress(compressor, payload, update)) for _ in range(repeats)]
    return {
        "method": method,
        "bits": 8 * len(payload),
        "entries": sum(x.numel() for x in update.values()),
        "encode": median(encode) / 1e9,
        "decode": median(decode) / 1e9,
        "encoding": encoding,
        "decoding": decoding,
    }


def alone(method: str, repeats: int) -> dict[str, Any]:
    """``measured`` in a process of its own."""
    place = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    child = subprocess.run(
        [sys.executable, __file__, "--child", "--methods", method, "--repeats", str(repeats)],
        text=True,
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "PYTHONPATH": place},
    )
    row: dict[str, Any] = json.loads(child.stdout)
    return row


def line(row: dict[str, Any]) -> str:
    """A row in Markdown."""
    cells = [
        f"`{row['method']}`",
        f"{row['bits']:,}",
        f"{row['bits'] / row['entries']:.3f}",
        f"{row['encode']:.2f}",
        f"{row['decode']:.2f}",
        f"{row['encoding'] / 1e9:.2f}",
        f"{row['decoding'] / 1e9:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table, or with --child one row as JSON."""
    parser = argparse.ArgumentParser(description="What a message of GPT-2's size costs.")
    parser.add_argument("--methods", default="; ".join(METHODS), metavar="TEXT;...")
    parser.add_argument("--repeats", type=int, default=3, help="timed messages (default: 3)")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    flags = parser.parse_args()
    methods = [text.strip() for text in flags.methods.split(";")]
    if flags.child:
        print(json.dumps(measured(methods[0], flags.repeats)))
        return
    print(f"| {' | '.join(HEADING)} |\n|{' --- |' * len(HEADING)}")
    for method in methods:
        print(line(alone(method, flags.repeats)), flush=True)


if __name__ == "__main__":
    main()
