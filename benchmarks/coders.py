"""What a coder costs an index or a symbol, beside plain Python and numpy in the same run.

    python benchmarks/coders.py [--entries 25600000] [--repeats 5] [--json FILE]

One thread. Positions are random with p = 0.01 and 0.001 of the entries, and for ``context`` also
those of a matrix whose rows and columns send unlike amounts ("crowded"); symbols are a tenth as
many as the entries. Ours and the peer's way take turns, so that what else the machine does hits
both. Plain Python gets at most 10^5 of the same. Everything is decoded and compared before it is
timed, and bits with the peer's where both write the same code: the benchmark refuses to run where
they differ. At the end two new processes encode once each, the first with an empty cache.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from coder_works import check, skewed_symbols, works
from measuring import in_turns, machine, said

_FIRST = """
import json, time
import numpy as np
from compressors import BitWriter, Golomb
from compressors.kernels import golomb
indices = np.arange(0, 1 << 20, 100)
def encode():
    start = time.process_time()
    Golomb().write_positions(indices, 1 << 20, BitWriter(), 0)
    return 1e3 * (time.process_time() - start)
first, again = encode(), encode()
compiled = sum(golomb.encode_rice.stats.cache_misses.values())
print(json.dumps({"first_ms": first, "again_ms": again, "compiled": compiled}))
"""


def first_encodes() -> list[dict[str, float]]:
    """The first encode of two processes: with an empty cache of compiled code, and with its."""
    with tempfile.TemporaryDirectory() as folder:
        places = [place for place in sys.path if place] + [str(Path(__file__).parents[1])]
        given = {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": os.pathsep.join(places)}
        times = []
        for _ in range(2):
            child = subprocess.run(
                [sys.executable, "-c", _FIRST],
                env=os.environ | given,
                check=True,
                capture_output=True,
                text=True,
            )
            times.append(json.loads(child.stdout))
    check(
        times[0]["compiled"] > 0 == times[1]["compiled"], "the cache of compiled code is not used"
    )
    return times


def measure(entries: int, repeats: int) -> dict[str, Any]:
    """Nanoseconds an element of every work and its peer, the median of the repeats."""
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    rows = [
        {
            "name": work.name,
            "count": work.count,
            "bits": work.bits,
            "peer_name": work.peer_name,
            "peer_count": work.peer_count,
            "target_ns": work.target,
            **in_turns(work.ours, work.peer, repeats, work.count, work.peer_count),
        }
        for work in works(entries)
    ]
    counts = np.bincount(skewed_symbols(max(1, entries // 10)))
    shares = counts[counts > 0] / counts.sum()
    return {
        "entries": entries,
        "repeats": repeats,
        "rows": rows,
        "machine": machine(load),
        "symbol_entropy": float(-(shares * np.log2(shares)).sum()),
        "first_encodes": first_encodes(),
    }


def markdown(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        said(
            result["machine"],
            f"one thread; {result['entries']} entries, medians of {result['repeats']}, interleaved",
        ),
        f"Symbols are geometric, below 15, of {result['symbol_entropy']:.3f} bits entropy.",
        "",
        "| work | elements | bits each | ns each | min | max | target | public code's way "
        "| ns each | times faster |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: |",
    ]
    for row in result["rows"]:
        bits = "" if row["bits"] is None else f"{row['bits']:.3f}"
        target = "" if row["target_ns"] is None else f"at most {row['target_ns']:g}"
        peer = "" if row["peer"] is None else f"{row['peer']:.1f}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
        lines.append(
            f"| {row['name']} | {row['count']} | {bits} | {row['ours']:.2f} | "
            f"{row['ours_min']:.2f} | {row['ours_max']:.2f} | {target} | {row['peer_name']} | "
            f"{peer} | {ratio} |"
        )
    first, second = result["first_encodes"]
    lines += [
        "",
        f"The first encode of a process (`golomb`, 10486 indices) takes "
        f"{first['first_ms']:.0f} ms of processor time with an empty cache on disk, "
        f"{second['first_ms']:.0f} ms where the process before it has left one (nothing is "
        f"compiled), and the next {second['again_ms']:.2f} ms.",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=25_600_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file for the result")
    given = parser.parse_args(arguments)
    if given.entries < 10_000 or given.repeats < 1:
        parser.error("--entries is at least 10000, --repeats at least 1")
    result = measure(given.entries, given.repeats)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
