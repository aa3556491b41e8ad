"""What a message costs beside its size: 10^4 to 10^8 entries, and a straight line.

    python benchmarks/sizes.py [--sizes 10000 100000 ...] [--repeats 3]

One tensor of normal entries, one thread; sizes take turns, the least time of all repeats counts. A
row has nanoseconds per entry to bytes and back, the same in copies of an update of that size, how
far the time to bytes lies from the straight line a + b n that is fitted to all sizes of a method
(least squares of relative errors), and the peak of memory of a first message in a process of its
own, the update included, in updates (from 10^6 entries on; below, Python's own memory hides it).
10^8 entries take 2 GB.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import timed
from message import memory_of

from compressors import compress, decompress, parse
from fedsim.show.plot import save
from fedsim.show.plot.paper import drawing

METHODS = ("raw", "sbc(0.01)", "cnat", "topk(0.01) | cnat", "qsgd(127)")
SIZES = (10**4, 10**5, 10**6, 10**7, 10**8)
COLUMNS = (
    "encode_ns",
    "encode_copies",
    "decode_ns",
    "decode_copies",
    "off_the_line",
    "peak_updates",
)
LEAST_FOR_MEMORY = 10**6
_SHORTEST = 10_000_000  # nanoseconds: shorter work is repeated until it takes as long


def times(method: str, updates: dict[int, torch.Tensor], repeats: int) -> dict[int, list[float]]:
    """Nanoseconds per entry by size, the least of all repeats: to bytes, back, and of a copy."""
    compressor, found = parse(method), {n: ([], [], []) for n in updates}
    copies = {n: x.clone() for n, x in updates.items()}  # memory that was touched before
    for repeat in range(repeats + 1):  # the first compiles
        for n, x in updates.items():
            into, update = copies[n], {"w": x}
            packet, kept = compress(compressor, update, None, 1)
            ways = (
                lambda u=update, k=kept: compress(compressor, u, k, 2),
                lambda u=update, p=packet.payload: decompress(compressor, p, u),
                lambda i=into, x=x: i.copy_(x),
            )
            for way, each in zip(ways, found[n], strict=True):
                once = timed(way)
                more = int(min(100, _SHORTEST // max(once, 1)))
                if repeat:
                    each.append(min([once, *(timed(way) for _ in range(more))]) / n)
    return {n: [min(each) for each in lists] for n, lists in found.items()}


def line_through(sizes: Sequence[float], spent: Sequence[float]) -> list[float]:
    """How far each time lies from the line a + b n, as a part of the line's."""
    n, t = np.asarray(sizes, float), np.asarray(spent, float)
    left = np.stack([1 / t, n / t], axis=1)
    (a, b), *_ = np.linalg.lstsq(left, np.ones_like(t), rcond=None)
    return (t / (a + b * n) - 1).tolist()


def measure(sizes: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """A row per method and size."""
    torch.set_num_threads(1)
    chance, rows = torch.Generator().manual_seed(0), []
    updates = {n: 0.01 * torch.randn(n, generator=chance) for n in sizes}
    for method in METHODS:
        found = times(method, updates, repeats)
        off = line_through(sizes, [found[n][0] * n for n in sizes])
        large = [str(n) for n in sizes if n >= LEAST_FOR_MEMORY]
        child = [sys.executable, __file__, "--memory", method, "--sizes", *large]
        told = subprocess.run(child, capture_output=True, text=True, check=True).stdout
        peaks = dict(zip(large, json.loads(told), strict=True))
        for n, deviation in zip(sizes, off, strict=True):
            there, back, copy = found[n]
            rows.append(
                {
                    "method": method,
                    "entries": n,
                    "encode_ns": round(there, 3),
                    "decode_ns": round(back, 3),
                    "encode_copies": round(there / copy, 2),
                    "decode_copies": round(back / copy, 2),
                    "off_the_line": round(deviation, 3),
                    "peak_updates": round(peaks[str(n)], 2) if str(n) in peaks else "",
                }
            )
            print(*rows[-1].values(), sep="\t", flush=True)
    return rows


def picture(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    """Nanoseconds per entry by size, from rows of `bench.csv`; what is in proportion is level."""
    figure = drawing(5.6, 3.4)
    axes = figure.subplots()
    found: dict[str, list[tuple[int, float]]] = {}
    for row in rows:
        if row["quantity"] == "encode_ns":
            method, _, entries = row["work"].rpartition(", ")
            found.setdefault(method, []).append((int(entries), float(row["value"])))
    for method, points in found.items():
        axes.plot(*zip(*points, strict=True), marker="o", markersize=3, label=method)
    axes.set(xscale="log", yscale="log", xlabel="entries", ylabel="ns per entry, to bytes")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the rows as they are found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", help=argparse.SUPPRESS)  # of one method, in this process
    given = parser.parse_args(arguments)
    if given.memory:
        print(json.dumps([memory_of(given.memory, {"w": (n,)}) for n in given.sizes]))
        return
    print("method", "entries", *COLUMNS, sep="\t")
    measure(given.sizes, given.repeats)


if __name__ == "__main__":
    main()
