"""What the lossy parts cost per entry, beside a memory copy and beside public code's way.

    python benchmarks/lossy.py [--entries 25600000] [--repeats 5] [--json FILE]

One torch thread, standard normal float32 entries. Ours and the peer's way take turns, so that
what else the machine does hits both; a ratio is the median of the repeats' ratios. Selections
are compared before they are timed: the benchmark refuses to run where magnitudes differ.
"""

import argparse
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import Pair, in_turns, machine, said
from torch import Tensor

from compressors import BitWriter, parse
from compressors.kernels import select
from compressors.parts import Place
from compressors.sparsify.topk import largest
from compressors.whole.pipeline import Pipeline


@dataclass(frozen=True)
class Work(Pair):
    """One line of the table: our way, public code's way, and what was to be reached."""

    nanoseconds: float | None = None  # target: at most so many an entry
    times: float | None = None  # target: at least so many times faster than the peer


def works(x: Tensor) -> list[Work]:
    """What is timed, on the flat float32 vector ``x``."""
    into = torch.empty_like(x)
    listed = [Work("memory copy", lambda: into.copy_(x))]
    for p, target in ((0.01, 0.8), (0.001, 0.5)):
        k = round(p * x.numel())
        listed.append(
            Work(
                f"exact top-k, p = {p:g}",
                lambda k=k: largest(x, k, select.MAGNITUDE),
                "torch.topk of abs(x)",
                lambda k=k: torch.topk(x.abs(), k),
                target,
                10,
            )
        )
    bits = x.numpy().view(np.uint32)
    listed += [
        Work(
            "cnat, packed in 9 bits",
            _packed("cnat", x),
            "torch, randint on the bits",
            lambda: _cnat_randint(x),
            1.6,
        ),
        Work(
            "sign bits, packed",
            lambda: _sign_bits(bits),
            "numpy.packbits",
            lambda: np.packbits(np.signbit(x.numpy())),
            0.3,
        ),
        Work("sign (zeros by coin), packed", _packed("sign", x)),
        Work("QSGD, 127 levels, packed", _packed("qsgd(127)", x), "torch", lambda: _qsgd(x), 2.5),
    ]
    return listed


def _packed(method: str, x: Tensor) -> Callable[[], int]:
    """Quantizes ``x`` and writes its symbols into a stream: all of a message but its frame."""
    compressor = parse(method)
    pipe: Pipeline = compressor.codec

    def work() -> int:
        out = BitWriter()
        symbols = pipe.quantize.quantize(x, Place(None, x.shape), out, 1)
        pipe.symbols.write_symbols(symbols.codes, symbols.alphabet, out)
        return out.position

    return work


def _sign_bits(bits: np.ndarray) -> int:
    out = BitWriter()
    out.uints(bits, 1, low=31)
    return out.position


def _cnat_randint(x: Tensor) -> Tensor:
    noise_bits = torch.randint(0, 1 << 23, x.shape, dtype=torch.int32)
    return ((x.view(torch.int32) + noise_bits) & -(1 << 23)).view(torch.float32)


def _qsgd(x: Tensor, levels: int = 127) -> tuple[Tensor, Tensor]:
    norm = x.norm()
    scaled = x.abs() / norm * levels
    floor = scaled.floor()
    level = floor + (torch.rand_like(x) < scaled - floor)
    return norm, (torch.sign(x) * level).to(torch.int8)


def agree(x: Tensor) -> None:
    """Raises ``SystemExit`` unless our selections have the magnitudes of torch.topk's."""
    for p in (0.01, 0.001):
        k = round(p * x.numel())
        ours = x[largest(x, k, select.MAGNITUDE)].abs().sort().values
        theirs = torch.topk(x.abs(), k).values.sort().values
        if not torch.equal(ours, theirs):
            raise SystemExit(f"exact top-k at p = {p:g} differs from torch.topk")


def measure(entries: int, repeats: int) -> dict[str, Any]:
    """Nanoseconds per entry of every work and its peer, the median of the repeats."""
    torch.set_num_threads(1)
    x = torch.randn(entries, generator=torch.Generator().manual_seed(0))
    agree(x)
    load = os.getloadavg()[0]
    rows = []
    for work in works(x):
        work.ours()  # compiles
        rows.append(
            {
                "name": work.name,
                "peer_name": work.peer_name,
                "target_ns": work.nanoseconds,
                "target_times": work.times,
                **in_turns(work.ours, work.peer, repeats, entries, entries),
            }
        )
    return {"entries": entries, "repeats": repeats, "rows": rows, "machine": machine(load)}


def markdown(result: dict[str, Any]) -> str:
    """The result as a table."""
    lines = [
        said(
            result["machine"],
            f"one thread; {result['entries']} standard normal entries, medians "
            f"of {result['repeats']}, interleaved",
        ),
        "",
        "| work | ns per entry | min | max | target | public code's way | ns per entry | times "
        "faster |",
        "| --- | ---: | ---: | ---: | --- | --- | ---: | ---: |",
    ]
    for row in result["rows"]:
        target = "" if row["target_ns"] is None else f"at most {row['target_ns']:g}"
        peer = "" if row["peer"] is None else f"{row['peer']:.2f}"
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
        if row["target_times"]:
            ratio += f" (at least {row['target_times']:g})"
        lines.append(
            f"| {row['name']} | {row['ours']:.2f} | {row['ours_min']:.2f} | {row['ours_max']:.2f} "
            f"| {target} | {row['peer_name']} | {peer} | {ratio} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=25_600_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="a file for the result")
    given = parser.parse_args(arguments)
    if min(given.entries, given.repeats) < 1:
        parser.error("--entries and --repeats are at least 1")
    result = measure(given.entries, given.repeats)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
