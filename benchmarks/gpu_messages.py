"""Messages on a GPU: selection, to bytes, from bytes, and a mean of 64, beside what is asked for.

    python benchmarks/gpu_messages.py [--repeats 20] [--out FILE]

takes about two minutes on an H200. Medians of milliseconds, until the GPU is done; ``reads`` are
multiples of the time that one read of the same entries takes. A payload is compared with the CPU's
before it is timed. Without a GPU it prints one line.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from gpu import Steps, timed
from targets import Target, resnet50, targets
from torch import Tensor

from compressors import compress, decompress, mean_of, parse
from compressors.devicecheck import absent
from compressors.kernels.gpu.graphs import repeated
from compressors.kernels.gpu.layout import on, programs_of
from compressors.kernels.gpu.select import largest_of_segments

SELECTED = {100_000_000: 0.28, 25_600_000: 0.12, 1_000_000: 0.06}
"""Entries, and at most how many milliseconds the exact top-k of 1 % may take."""

ENCODED = {
    "sbc(0.01)": 0.8,
    "ef(topk(0.01) | cnat | golomb)": 1.0,
    "cnat": 4.0,
    "raw": 15.0,
    "qsgd(7, 64)": 3.0,
}
"""At most how many milliseconds an update of ResNet-50's tensors may take to bytes."""

DECODED = {"sbc(0.01)": 2.3}
AVERAGED, CLIENTS = 2.0, 64
LENET5 = {
    "conv1.weight": (20, 1, 5, 5), "conv1.bias": (20,),
    "conv2.weight": (50, 20, 5, 5), "conv2.bias": (50,),
    "fc1.weight": (500, 800), "fc1.bias": (500,),
    "fc2.weight": (10, 500), "fc2.bias": (10,),
}  # fmt: skip
"""Caffe's LeNet5 with its 431,080 entries."""

HEAD = [
    "| work | ms | min | max | reads |",
    "| --- | ---: | ---: | ---: | ---: |",
]


class Report:
    """Lines of the table, and what was asked for, of works on ``place``."""

    def __init__(self, place: torch.device, repeats: int, steps: Steps) -> None:
        self.place, self.repeats, self.steps = place, repeats, steps
        self.lines, self.goals = [*HEAD], list[Target]()

    def add(self, name: str, work: Callable[[], Any], bound: float | None, read: float) -> float:
        """Times ``work`` after one call that compiles; its median, or NaN where it fails.

        Args:
            name: of the line.
            work: what is timed.
            bound: milliseconds that are asked for; None: none are.
            read: milliseconds of one read; 0: no multiple is printed.
        """
        times = self.steps.do(name, lambda: self._times(work))
        if times is None:
            self.lines.append(f"| {name} | failed | | | |")
            return float("nan")
        middle = median(times)
        reads = f"{middle / read:.1f}" if read else ""
        line = f"| {name} | {middle:.3f} | {min(times):.3f} | {max(times):.3f} | {reads} |"
        self.lines.append(line)
        print(line, flush=True)
        if bound is not None:
            self.goals.append(Target(name, middle, bound, "ms"))
        return middle

    def _times(self, work: Callable[[], Any]) -> list[float]:
        work()
        return [timed(work, self.place) for _ in range(self.repeats)]


def select(report: Report, entries: int, bound: float) -> None:
    """Exact top-k of 1 %, beside one read and torch.topk."""
    x = torch.randn(entries, device=report.place)
    layout, k = programs_of((entries,), report.place), np.array([entries // 100])

    with on(report.place):
        ours = repeated(lambda: largest_of_segments(x, layout, k, 1).positions, report.place)

    theirs = torch.topk(x.abs(), int(k[0])).values.sort().values
    if not torch.equal(x[ours()].abs().sort().values, theirs):
        raise SystemExit("exact top-k differs from torch.topk")
    read = report.add(f"{entries} entries: reading once", x.amax, None, 0)
    report.add(f"{entries} entries: exact top-k", ours, bound, read)
    report.add(f"{entries} entries: torch.topk", lambda: torch.topk(x.abs(), int(k[0])), None, read)


def messages(report: Report, shapes: dict[str, tuple[int, ...]]) -> None:
    """One update to bytes and back by each method of ``ENCODED``, with its memory."""
    host = {name: torch.randn(shape) for name, shape in shapes.items()}
    update = {name: x.to(report.place) for name, x in host.items()}
    flat = torch.cat([x.flatten() for x in update.values()])
    read = report.add(f"{len(update)} tensors: reading once", flat.amax, None, 0)
    for text, bound in ENCODED.items():
        what = f"{len(update)} tensors, `{text}`"
        report.steps.do(what, partial(_message, report, what, text, bound, host, update, read))


def _message(
    report: Report,
    what: str,
    text: str,
    bound: float,
    host: dict[str, Tensor],
    update: dict[str, Tensor],
    read: float,
) -> None:
    """One method's lines; ``host`` has the tensors of ``update`` on the CPU."""
    method = parse(text)
    for _ in range(2):  # the third message repeats a graph
        compress(method, update)
    packet, state = compress(method, update)
    if packet.payload != compress(method, host)[0].payload:
        raise SystemExit(f"the message of {text} is not the CPU's")
    report.add(f"{what}: to bytes", lambda: compress(method, update, state, 1), bound, read)
    decode = partial(decompress, method, packet.payload, update)
    report.add(f"{what}: from bytes", decode, DECODED.get(text), read)


def means(report: Report) -> None:
    """Messages of a round of LeNet5 clients, decoded and averaged on the host."""
    for text in ENCODED:
        method = parse(text)
        updates = [{n: torch.randn(s) for n, s in LENET5.items()} for _ in range(CLIENTS)]
        payloads = [compress(method, one, seed=i)[0].payload for i, one in enumerate(updates)]
        average = lambda m=method, p=payloads, u=updates: mean_of(m, p, [1.0] * CLIENTS, u[0])  # noqa: E731
        name = f"{CLIENTS} messages of LeNet5, `{text}`: decoded and averaged"
        report.add(name, average, AVERAGED if text == "sbc(0.01)" else None, 0)


def run(
    place: torch.device,
    repeats: int,
    steps: Steps,
    written: Callable[[list[str], list[Target]], None] = lambda lines, goals: None,
    entries: dict[int, float] = SELECTED,
    shapes: dict[str, tuple[int, ...]] | None = None,
) -> tuple[list[str], list[Target]]:
    """The lines of the table and its goals; ``written`` is called with both after each part."""
    if shapes is None:
        shapes = steps.do("torchvision's ResNet-50", resnet50) or {"w": (25_000_000,), "b": (1000,)}
    report = Report(place, repeats, steps)
    parts: dict[str, Callable[[], None]] = {
        "messages": partial(messages, report, shapes),
        "means": partial(means, report),
    }
    for count, bound in entries.items():
        parts[f"top-k of {count}"] = partial(select, report, count, bound)
    for name, work in parts.items():
        steps.do(name, work)
        written(report.lines, report.goals)
    return report.lines, report.goals


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a file for the tables")
    options = parser.parse_args(arguments)
    if options.repeats < 1:
        parser.error(f"--repeats is {options.repeats}: it is at least 1")
    if reason := absent(torch.device("cuda")):
        print(f"There is no GPU: {reason}. Nothing was run.")
        return 1
    steps = Steps()
    lines, goals = run(torch.device("cuda"), options.repeats, steps)
    head = f"{torch.cuda.get_device_name()}, torch {torch.__version__}; milliseconds, medians of "
    failed = f"\n{len(steps.failed)} failed: {', '.join(steps.failed)}\n" if steps.failed else ""
    text = "\n".join([f"{head}{options.repeats}.", "", *lines, "", *targets(goals), failed])
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    print(text)
    return int(bool(steps.failed))


if __name__ == "__main__":
    raise SystemExit(main())
