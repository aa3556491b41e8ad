"""What the kernels for a GPU cost, beside a copy, beside reading, and beside torch's own way.

Then what training gains there (``gpu_training.py``), and every number that was
asked for, beside what was found.

    python benchmarks/gpu.py [--entries 25600000 100000000] [--repeats 20] [--out FILE]
    python benchmarks/gpu.py --all      # also tests on the GPU and a short run: make gpu

Ours and torch's way take turns in one process; what is printed are medians, with the share of the
copy's bandwidth that ours reaches where it moves the whole vector. Results are compared before
they are timed: a selection with torch.topk, messages with those that the host writes. Without a GPU
it says so in one line.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import gpu_training
import numpy as np
import stack
import torch
from gpu_training import Target, resnet50, targets
from torch import Tensor
from turns import Pair

from compressors import compress, decompress, device, parse
from compressors.kernels.gpu.codes import Numbers, quantize
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.layout import layout_of
from compressors.kernels.gpu.select import largest
from compressors.kernels.gpu.stream import put_plane, stream
from compressors.kernels.kinds import NATURAL, Kind

ROOT = Path(__file__).parents[1]
TESTS = ("tests/compressors/device", "tests/compressors/kernels", "tests/compressors/sparsify",
         "tests/compressors/quantize", "tests/compressors/whole",
         "tests/fedsim/federation/test_masking_kernel.py")  # fmt: skip


@dataclass(frozen=True)
class Work(Pair):
    """One line of the table: our way, torch's, and how many bytes ours must move at least.

    ``key``: by which its time is found again where it is asked for.
    """

    moved: int = 0
    key: str = ""


def works(x: Tensor) -> list[Work]:
    """What is timed on the flat float32 vector ``x``."""
    n, into = x.numel(), torch.empty_like(x)
    k = round(0.01 * n)
    layout = layout_of((n,), x.device)
    cnat, update = parse("cnat"), {"x": x}
    return [
        Work("copy", lambda: into.copy_(x), moved=8 * n, key="copy"),
        Work("reading once (largest entry)", lambda: x.amax(), moved=4 * n, key="reading"),
        Work("exact top-k, p = 0.01", lambda: largest(x, layout, np.array([k]), 1),
             "torch.topk of abs(x)", lambda: torch.topk(x.abs(), k), 4 * n, "top-k"),
        Work("cnat, packed to 9 bits per entry", packed_cnat(x), moved=4 * n + 9 * n // 8,
             key="cnat"),
        Work("cnat, to a message on the host", lambda: compress(cnat, update, seed=1)),
    ]  # fmt: skip


def packed_cnat(x: Tensor) -> Callable[[], Tensor]:
    """Natural compression of ``x`` to symbols and to packed bits, all of it on the device."""
    n, layout = x.numel(), layout_of((x.numel(),), x.device)
    none, starts, table = layout.tables[3], layout.tables[3], layout.tables[2]
    entries = Entries(x, starts, None, none, table, none, (n,))
    kind, zero = Kind(NATURAL, torch.int16, True, (1, 254, 8)), x.new_zeros(1)
    numbers = Numbers(zero, zero, none, 0, None, zero)
    keys = torch.tensor([[3], [5]], device=x.device)

    def work() -> Tensor:
        symbols, _ = quantize(entries, kind, numbers, keys, keep=False)
        words = stream(9 * n, x.device)
        put_plane(symbols, none, table, words, none, (n,), 1, 8)
        put_plane(symbols, none, table, words, none + n, (n,), 8)
        return words

    return work


def messages(shapes: dict[str, tuple[int, ...]], place: torch.device) -> list[Work]:
    """A whole update by SBC, to bytes and back; torch's operations and the host are the peer."""
    update = {name: torch.randn(shape, device=place) for name, shape in shapes.items()}
    sbc = parse("sbc(0.01)")
    _, state = compress(sbc, update)
    payload = compress(sbc, update, state, 1)[0].payload
    if payload != _by_host(lambda: compress(sbc, update, state, 1))[0].payload:
        raise SystemExit("the kernels' message of sbc(0.01) is not the host's")
    entries = sum(x.numel() for x in update.values())
    what = f"{len(update)} tensors, {entries} entries, sbc(0.01)"
    return [
        Work(f"{what}: to bytes", lambda: compress(sbc, update, state, 1), "through the host",
             lambda: _by_host(lambda: compress(sbc, update, state, 1)), key="message"),
        Work(f"{what}: from bytes", lambda: decompress(sbc, payload, update), "through the host",
             lambda: _by_host(lambda: decompress(sbc, payload, update))),
    ]  # fmt: skip


def _by_host(work: Callable[[], Any]) -> Any:
    """``work`` without kernels."""
    taken = set(device.DEVICES)
    device.DEVICES.clear()
    try:
        return work()
    finally:
        device.DEVICES.update(taken)


def agree(x: Tensor) -> None:
    """Raises ``SystemExit`` unless our selection has the magnitudes of torch.topk's."""
    k = round(0.01 * x.numel())
    places = largest(x, layout_of((x.numel(),), x.device), np.array([k]), 1)
    ours = x[places.positions].abs().sort().values
    if not torch.equal(ours, torch.topk(x.abs(), k).values.sort().values):
        raise SystemExit("exact top-k differs from torch.topk")


def timed(work: Callable[[], Any], place: torch.device) -> float:
    """Milliseconds until the device has done the work."""
    _wait(place)
    start = time.perf_counter()
    work()
    _wait(place)
    return 1e3 * (time.perf_counter() - start)


def _wait(place: torch.device) -> None:
    if place.type == "cuda":
        torch.cuda.synchronize(place)


@dataclass(frozen=True)
class Timed:
    """Medians of milliseconds by key: ours, and torch's way."""

    ours: dict[str, float]
    peers: dict[str, float]


def table(works: list[Work], place: torch.device, repeats: int) -> tuple[list[str], Timed]:
    """Lines of the table, shares in the bandwidth of the first line, and the times by key."""
    lines, times, copy = [], Timed({}, {}), 0.0
    for work in works:
        work.ours()  # compiles
        ours, peers = [], []
        for _ in range(repeats):
            ours.append(timed(work.ours, place))
            if work.peer is not None:
                peers.append(timed(work.peer, place))
        times.ours[work.key] = median(ours)
        bandwidth = work.moved / (median(ours) * 1e6)
        copy = copy or bandwidth
        share = f"{bandwidth:.0f} | {bandwidth / copy:.0%}" if work.moved else " | "
        peer, faster = " | ", ""
        if peers:
            times.peers[work.key] = median(peers)
            peer = f"{work.peer_name} | {median(peers):.3f}"
            faster = f"{median(peers) / median(ours):.1f}"
        lines.append(
            f"| {work.name} | {median(ours):.3f} | {min(ours):.3f} | {max(ours):.3f} | {share} | "
            f"{peer} | {faster} |"
        )
    return lines, times


def asked(n: int, times: Timed) -> list[Target]:
    """What was asked of a vector of ``n`` entries."""
    ours, what = times.ours, f"{n} entries: "
    return [
        Target(f"{what}exact top-k against torch.topk", times.peers["top-k"] / ours["top-k"], 5.0,
               least=True),
        Target(f"{what}exact top-k against reading once", ours["top-k"] / ours["reading"], 2.0),
        Target(f"{what}cnat to packed 9 bits against a copy", ours["cnat"] / ours["copy"], 2.0),
    ]  # fmt: skip


def report(
    place: torch.device, entries: Sequence[int], repeats: int, shapes: Any
) -> tuple[str, list[Target]]:
    """The tables of the kernels, with the device's name, and what was asked for."""
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else str(place)
    text = [f"{name}, torch {torch.__version__}; milliseconds, medians of {repeats}, in turns.", "",
            "| work | ms | min | max | GB per s | of the copy | torch's way | ms | times faster |",
            "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |"]  # fmt: skip
    goals: list[Target] = []
    for n in entries:
        x = torch.randn(n, device=place)
        agree(x)
        rows, times = table(works(x), place, repeats)
        text += [row.replace("| ", f"| {n} entries, ", 1) for row in rows]
        goals += asked(n, times)
        del x
    rows, times = table(messages(shapes, place), place, repeats)
    what = f"an update of {len(shapes)} tensors by sbc(0.01) to bytes"
    return "\n".join(text + rows) + "\n", [*goals, Target(what, times.ours["message"], 2.0, "ms")]


def everything() -> None:
    """The tests whose tensors lie on the GPU, and short runs with their updates there."""
    every = ["-m", "slow or not slow", "-n", "0", "-q"]
    subprocess.run([sys.executable, "-m", "pytest", *every, *TESTS], cwd=ROOT, check=True)
    run = ["run", "--task", "digits", "--method", "sbc", "--gradient", "0.01", "--device", "cuda",
           "--iterations", "200"]  # fmt: skip
    for many in ("1", "auto"):
        more = ["--stack", many, "--out", f"fedsim-results/gpu-stack-{many}"]
        subprocess.run([sys.executable, "-m", "fedsim", *run, *more], cwd=ROOT, check=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[25_600_000, 100_000_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a file for the tables")
    parser.add_argument("--all", action="store_true", help="tests and a training run as well")
    given = parser.parse_args(arguments)
    if min(*given.entries, given.repeats) < 1:
        parser.error("--entries and --repeats are at least 1")
    if not torch.cuda.is_available():
        print("There is no GPU here: torch.cuda.is_available() is false. Nothing was run.")
        return
    if given.all:
        everything()
    text, goals = report(torch.device("cuda"), given.entries, given.repeats, resnet50())
    gains = stack.report((16, 64), "cuda", given.repeats)
    spent, more = gpu_training.report("cuda", given.repeats)
    text += "\n".join(["", "Times faster with --stack:", "", *gains, "", spent, "",
                       *targets([*goals, *more]), ""])  # fmt: skip
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
