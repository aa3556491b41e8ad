"""Looks whether messages made on a device are the host's, and what a device says of itself.

    python -m compressors.devicecheck [--device cuda] [--methods N]

is for a machine without Flower; ``fedsim doctor --device cuda`` does the same. Each step says what
it found, or how it failed, and the rest goes on.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from compressors import device as kernels
from compressors.base import State, Tensors
from compressors.device import read, write
from compressors.kernels.gpu.graphs import repeated
from compressors.kernels.gpu.layout import fetch, on, programs_of
from compressors.kernels.gpu.select import largest_of_segments
from compressors.kernels.gpu.tried import cause
from compressors.message import compress, decompress
from compressors.parsing import parse
from compressors.usercode import typed

METHODS = (
    "raw", "sbc(0.01)", "flat(topk(0.01) | float32)", "ef(topk(0.05) | cnat | golomb)", "cnat",
    "ef(sign)", "l1_sign", "topk(0.05) | magnitude | golomb", "qsgd(7)", "qsgd(7, 64)",
    "natural_dither(7)", "terngrad", "shrink(qsgd(7, 4))", "by_name('b', raw, '*', ef(cnat))",
)  # fmt: skip
ROUNDS, MESSAGES, REPEATS = 3, 200, 20
SHAPES = ((300, 200), (64, 3, 5, 5), (200,))
CHECKED_ENTRIES = 25_600_000


@dataclass(frozen=True)
class Step:
    """A step's name, whether it went well, and what it found or how it failed."""

    name: str
    well: bool
    result: str


def absent(device: torch.device) -> str:
    """Why torch cannot use ``device``, and what to do; empty where it can.

    Example:
        >>> absent(torch.device("cpu"))
        ''
    """
    if device.type != "cuda" or torch.cuda.is_available():
        return ""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is a build for the CPU: install one for CUDA"
    built = f"torch {torch.__version__} is a build for CUDA {torch.version.cuda} and finds no GPU"
    return f"{built}: see that `nvidia-smi` lists one and CUDA_VISIBLE_DEVICES does not hide it"


def checks(
    device: torch.device,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    messages: int = MESSAGES,
    entries: int = CHECKED_ENTRIES,
) -> Iterator[Step]:
    """Each step as it ends: versions, kernels, equal bytes, waits, pace.

    Args:
        device: where updates lie.
        shapes: of an update's tensors.
        messages: how many of one update must be equal.
        entries: of the vector whose pace is taken.
    """
    updates = []  # on the host: names to float32, with ties, zeros and both signs
    for number in range(ROUNDS):
        drawn = torch.Generator().manual_seed(number)
        plain: Any = {"generator": drawn, "dtype": torch.float32, "device": "cpu"}
        tensors = [torch.randn(shape, **plain) for shape in shapes]
        named = zip("abcdefgh", tensors, strict=False)
        updates.append({n: (64 * x).round() / 64 if n == "a" else x for n, x in named})
    steps: dict[str, Callable[[], str]] = {
        "versions": partial(_versions, device),
        "kernels": partial(_kernels, device),
    }
    for text in METHODS:
        steps[f"equal bytes: {text}"] = partial(_equal, device, updates, text)
    for text in ("sbc(0.01)", "qsgd(7)"):
        steps[f"{messages} equal messages: {text}"] = partial(
            _again, device, updates[0], text, messages
        )
    steps["waits"] = partial(_waits, device, updates[0])
    steps["pace of top-k"] = partial(_pace, device, entries)
    for name, work in steps.items():
        try:
            result, well = work(), True
        except Exception as error:  # whatever driver, compiler or kernel raise: the rest goes on
            result, well = typed(error), False
        yield Step(name, well, " ".join(result.split()))


def _on(device: torch.device, update: Tensors) -> dict[str, Tensor]:
    return {name: x.to(device) for name, x in update.items()}


@contextmanager
def by_loops() -> Iterator[None]:
    """No kernel of a GPU takes an update, inside."""
    taken = set(kernels.GPU_DEVICES)
    kernels.GPU_DEVICES.clear()
    try:
        yield
    finally:
        kernels.GPU_DEVICES.update(taken)


def _versions(device: torch.device) -> str:
    python = sys.version.split()[0]
    libraries = f"Python {python}, torch {torch.__version__}, numpy {np.__version__}"
    if device.type != "cuda":
        return f"{libraries}, {device}"
    about = torch.cuda.get_device_properties(device)
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    products, convolutions = ("on" if enabled else "off" for enabled in tf32)
    return (
        f"{libraries}, CUDA {torch.version.cuda}, {about.name}, sm_{about.major}{about.minor}, "
        f"{about.total_memory / 2**30:.0f} GiB; outside runs TF32 is {products} for matrix "
        f"products, {convolutions} for convolutions"
    )


def _kernels(device: torch.device) -> str:
    if reason := cause(device):
        raise RuntimeError(f"{reason}: the CPU makes the messages")
    return "Triton's kernels run"


def _same(host: Tensors, device_tensors: Tensors, what: str) -> None:
    for name, x in host.items():
        if x.numpy().tobytes() != device_tensors[name].cpu().numpy().tobytes():
            raise RuntimeError(f"{what} of {name!r} differs")


def _equal(device: torch.device, updates: Sequence[Tensors], text: str) -> str:
    """Rounds with memory: payload, memory, and what is read of it."""
    method, bits = parse(text), 0
    host_state: State | None = None
    device_state: State | None = None
    for number, update in enumerate(updates):
        with by_loops():
            expected, host_state = compress(method, update, host_state, number)
        packet, device_state = compress(method, _on(device, update), device_state, number)
        if packet.payload != expected.payload:
            raise RuntimeError(f"round {number + 1}: the message differs from the host's")
        _same(host_state, device_state, f"round {number + 1}: the memory")
        back = decompress(method, packet.payload, _on(device, update))
        sent = {name: one.decoded for name, one in expected.sent.items()}
        _same(sent, back, f"round {number + 1}: what is read")
        bits += 8 * len(packet.payload)
    return f"{len(updates)} rounds, {bits} bits"


def _again(device: torch.device, update: Tensors, text: str, messages: int) -> str:
    """A race shows as a message that differs once in a while."""
    method, placed = parse(text), _on(device, update)
    payloads = {compress(method, placed, None, 7)[0].payload for _ in range(messages)}
    if len(payloads) > 1:
        raise RuntimeError(f"{len(payloads)} different messages of one update")
    return "all of the same bytes"


def _waits(device: torch.device, update: Tensors) -> str:
    """Whatever makes the host wait is an error, but for the places that say that they wait."""
    if device.type != "cuda":
        return f"not looked at on {device}"
    sbc, placed = parse("sbc(0.01)"), _on(device, update)
    for _ in range(3):  # compiles, and records a graph
        payload = compress(sbc, placed)[0].payload

    def waiting(*tensors: Tensor) -> list[np.ndarray]:
        torch.cuda.set_sync_debug_mode("default")
        try:
            return fetch(*tensors)
        finally:
            torch.cuda.set_sync_debug_mode("error")

    rooms, before = (write, read), torch.cuda.get_sync_debug_mode()
    try:
        for room in rooms:
            vars(room)["fetch"] = waiting
        torch.cuda.set_sync_debug_mode("error")
        _, state = compress(sbc, placed)
        compress(sbc, placed, state)
        decompress(sbc, payload, placed)
    finally:
        torch.cuda.set_sync_debug_mode(before)
        for room in rooms:
            vars(room)["fetch"] = fetch
    return "none but those that are meant"


def _pace(device: torch.device, entries: int) -> str:
    """Milliseconds; no bound is set."""
    x = torch.randn(entries, dtype=torch.float32, device=device)
    layout, k = programs_of((entries,), device), max(1, entries // 100)

    def select() -> Tensor:
        return largest_of_segments(x, layout, np.array([k]), 1).positions

    with on(device):
        ours = repeated(select, device)
    chosen, theirs = x[ours()].abs(), torch.topk(x.abs(), k).values
    if not torch.equal(chosen.sort().values, theirs.sort().values):
        raise RuntimeError("top-k differs from torch.topk")
    works = {"ours": ours, "reading once": x.amax, "torch.topk": lambda: torch.topk(x.abs(), k)}
    times = []
    for name, work in works.items():
        seconds = []
        for _ in range(REPEATS):
            _finish(device)
            start = time.perf_counter()
            work()
            _finish(device)
            seconds.append(1e3 * (time.perf_counter() - start))
        times.append(f"{name} {median(seconds):.3f} ms")
    return f"{', '.join(times)} ({entries} entries, p = 0.01, medians of {REPEATS})"


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints each step; 0 where all went well, 1 where one failed, or nothing could be run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, ...")
    parser.add_argument("--methods", type=int, help="of so many methods alone, and no pace")
    options = parser.parse_args(arguments)
    kind, _, number = options.device.partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        parser.error(f"--device is {options.device!r}: give cpu, cuda, cuda:1, ...")
    device = torch.device(options.device)
    if reason := absent(device):
        print(f"There is no CUDA here: {reason}. Nothing was run.")
        return 1
    return report(device, options.methods)


def report(device: torch.device, methods: int | None = None) -> int:
    """Prints each step of ``checks`` as it ends: 0 where all went well, else 1.

    ``methods``: of how many methods the bytes are compared; the steps behind these are left out.
    """
    failed = []
    for step in islice(checks(device), None if methods is None else 2 + methods):
        print(f"{'ok    ' if step.well else 'FAILED'}  {step.name}: {step.result}", flush=True)
        failed += [] if step.well else [step.name]
    if failed:
        print(f"{len(failed)} steps failed: {', '.join(failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
