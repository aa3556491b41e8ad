"""What a message costs: an update to bytes and back, in memory copies; Python per tensor; memory.

    python benchmarks/message.py [--repeats 9] [--json FILE]

One torch thread. The update is that of ResNet-50, 161 tensors of 25.6 million normal entries; each
time is taken beside a copy of the update, and a ratio is the median of the repeats' ratios. Six
small tensors with 2,490 entries together tell what is paid per tensor. The memory is that of a
first message in a new process, the update included, in updates. Compiling is the processor seconds
of a first message in a process whose cache of compiled code is empty, less those of a second
process that finds the cache filled.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measuring import forget_peak, machine, memory, said, timed
from targets import resnet50
from torch import Tensor

from compressors import compress, decompress, parse

METHODS = (
    "raw",
    "sbc(0.01)",
    "topk(0.01) | cnat",
    "cnat",
    "qsgd(127)",
    "stc(0.01)",
    "gradient_dropping(0.01)",
    "sign(0.01)",
    "ef_sign()",
)
SMALL = {
    "conv.weight": (8, 1, 3, 3),
    "conv.bias": (8,),
    "hidden.weight": (32, 64),
    "hidden.bias": (32,),
    "out.weight": (10, 32),
    "out.bias": (10,),
}
MOST_COPIES = {
    "raw": 1.1,
    "sbc(0.01)": 2.5,
    "topk(0.01) | cnat": 1.5,
    "cnat": 2.0,
    "qsgd(127)": 2.5,
}
MOST_MEMORY = {"raw": 2, "sbc(0.01)": 2}
ROOT = Path(__file__).parents[1]
_TIMES = 200  # messages of small tensors that are timed together


def update_of(shapes: dict[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """Normal entries, as small as those of an update."""
    chance = torch.Generator().manual_seed(0)
    return {name: 0.01 * torch.randn(shape, generator=chance) for name, shape in shapes.items()}


def measured(method: str, update: dict[str, Tensor], repeats: int) -> dict[str, Any]:
    """Copies per message each way, and microseconds per small tensor."""
    compressor, whole = parse(method), torch.cat([x.flatten() for x in update.values()])
    into = torch.empty_like(whole)
    packet, memory = compress(compressor, update, None, 1)
    payload, encode, decode, copies = packet.payload, [], [], []
    del packet
    for _ in range(repeats + 1):  # the first compiles
        copies.append(timed(lambda: into.copy_(whole)))
        encode.append(timed(lambda: compress(compressor, update, memory, 2)) / copies[-1])
        decode.append(timed(lambda: decompress(compressor, payload, update)) / copies[-1])
    small = update_of(SMALL)
    packet, memory = compress(compressor, small, None, 1)
    per_tensor = 1e-3 / (_TIMES * len(small))

    def there() -> None:
        for _ in range(_TIMES):
            compress(compressor, small, memory, 2)

    def back() -> None:
        for _ in range(_TIMES):
            decompress(compressor, packet.payload, small)

    return {
        "method": method,
        "encode": median(encode[1:]),
        "decode": median(decode[1:]),
        "encode_us": median(timed(there) for _ in range(repeats)) * per_tensor,
        "decode_us": median(timed(back) for _ in range(repeats)) * per_tensor,
        "copy_ns": median(copies) / whole.numel(),
        "bits": 8 * len(payload),
    }


def memory_of(method: str, shapes: dict[str, tuple[int, ...]]) -> float:
    """The most memory that a first message has taken, the update included, in updates."""
    update, compressor = update_of(shapes), parse(method)
    compress(compressor, {"w": torch.randn(20_000)})  # what is compiled and imported is not counted
    size = 4 * sum(x.numel() for x in update.values())
    forget_peak()
    before = memory()
    compress(compressor, update)
    return 1 + (memory("VmHWM") - before) / size


def memory_alone(method: str) -> float:
    """``memory_of`` of ResNet-50's update in a process of its own."""
    return _child([__file__, "--memory", method], {})


_FIRST = """
import sys, time
import torch
from compressors import compress, parse
method, update = parse(sys.argv[1]), {"w": torch.randn(200, 300), "b": torch.randn(30)}
start = time.process_time()
compress(method, update)
print(time.process_time() - start)
"""


def compiling(method: str) -> float:
    """Processor seconds that a first message takes to compile, in a new process."""
    with tempfile.TemporaryDirectory() as cache:
        both = [_child(["-c", _FIRST, method], {"NUMBA_CACHE_DIR": cache}) for _ in range(2)]
    return both[0] - both[1]


def _child(arguments: Sequence[str], more: dict[str, str]) -> float:
    place = os.pathsep.join([str(ROOT), str(ROOT / "benchmarks")])
    child = subprocess.run(
        [sys.executable, *arguments],
        text=True,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": place, **more},
    )
    return float(child.stdout)


def measure(methods: Sequence[str], repeats: int) -> dict[str, Any]:
    """All rows, and the machine."""
    torch.set_num_threads(1)
    load, update, rows = os.getloadavg()[0], update_of(resnet50()), []
    for method in methods:
        row = measured(method, update, repeats)
        row["memory"] = memory_alone(method)
        rows.append(row | {"compile": compiling(method)})
    fresh = into_new_memory(update, repeats)
    return {"repeats": repeats, "rows": rows, "fresh": fresh, "machine": machine(load)}


def into_new_memory(update: dict[str, Tensor], repeats: int) -> dict[str, float]:
    """A copy of the update into new memory, in copies: an array's, and bytes'."""
    whole = torch.cat([x.flatten() for x in update.values()])
    into, values = torch.empty_like(whole), whole.numpy()
    ways = {"array": values.copy, "bytes": values.tobytes}
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        copy = timed(lambda: into.copy_(whole))
        for name, way in ways.items():
            found[name].append(timed(way) / copy)
    return {name: median(many) for name, many in found.items()}


def markdown(result: dict[str, Any]) -> str:
    """The result as a table; targets stand in parentheses."""
    rows = result["rows"]
    copy = median(row["copy_ns"] for row in rows)
    lines = [
        said(
            result["machine"],
            f"one thread; medians of {result['repeats']}, beside a copy ({copy:.2f} ns per entry)",
        ),
        f"A copy into new memory: {result['fresh']['array']:.2f} copies as an array, "
        f"{result['fresh']['bytes']:.2f} as bytes.",
        "",
        "| method | to bytes, copies | back, copies | to bytes, us per tensor | back, us per "
        "tensor | memory, updates | compiling, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        most, room = (table.get(row["method"]) for table in (MOST_COPIES, MOST_MEMORY))
        copies = f"{row['encode']:.2f}" + (f" ({most})" if most else "")
        memory = f"{row['memory']:.2f}" + (f" ({room})" if room else "")
        lines.append(
            f"| {row['method'].replace('|', chr(92) + '|')} | {copies} | {row['decode']:.2f} | "
            f"{row['encode_us']:.1f} | {row['decode_us']:.1f} | {memory} | {row['compile']:.1f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--json", type=Path, help="a file for the result")
    parser.add_argument("--memory", help=argparse.SUPPRESS)  # of one method, in this process
    given = parser.parse_args(arguments)
    if given.memory:
        print(memory_of(given.memory, resnet50()))
        return
    if given.repeats < 1:
        parser.error("--repeats is at least 1")
    result = measure(given.methods, given.repeats)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
