"""What the host calls for a message on a GPU, counted without one.

    python benchmarks/gpu_counts.py     # writes its table into docs/gpu.md
    python benchmarks/gpu_counts.py --time     # the host's part of messages, kernels left out

Fake tensors know their device and hold no values: every line of the host runs as on a GPU, and no
kernel does.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from targets import resnet50
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from compressors import Packet, State, arguments, compress, decompress, parse
from compressors import device as device_room
from compressors.arraycache import forget
from compressors.device import read, write
from compressors.device.encode import Report, read_report
from compressors.device.layout import Frame
from compressors.kernels.gpu import codes, join, measure, select, stream, tried, unpack
from compressors.kernels.gpu.graphs import RECORDERS, Recording
from compressors.kernels.gpu.layout import programs_of
from compressors.message import Upload, compress_all
from compressors.segments import layout
from fedsim.federation.client import Masking, mask_all

PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"
CUDA = torch.device("cuda", 0)
METHODS = ("sbc(0.01)", "ef(topk(0.01) | cnat | golomb)", "raw", "cnat", "qsgd(7, 64)")

Shapes = dict[str, tuple[int, ...]]


@dataclass
class Counts:
    """What was counted.

    Args:
        operations: torch's, as it dispatches them; a view is one.
        fills: those that start a kernel or a copy: neither views nor new memory.
        copies: pinned buffers and copies out of them or into them.
        launches: of Triton's kernels, by name.
        graphs: repeats of recorded work.
        waits: how often the host waited for the GPU.
    """

    operations: int = 0
    fills: int = 0
    copies: int = 0
    launches: Counter[str] = field(default_factory=Counter)
    graphs: int = 0
    waits: int = 0

    @property
    def calls(self) -> int:
        """Whatever the host calls."""
        return self.operations + self.copies + self.launches.total() + self.graphs + self.waits

    @property
    def kernels(self) -> int:
        """What the GPU starts, one after the other."""
        return self.launches.total() + self.fills


class Operations(TorchDispatchMode):
    """Counts what torch dispatches, but for questions about a fake tensor's device."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, op: Any, types: Any, arguments: Any = (), more: Any = None) -> Any:
        if op is not torch.ops.prim.device.default:
            self.counts.operations += 1
            self.counts.fills += not (op.is_view or "empty" in op.name())
        return op(*arguments, **(more or {}))


@contextmanager
def absent(counts: Counts) -> Iterator[None]:
    """Inside, updates on a GPU that is not there go through the kernels, which do nothing.

    What the host fetches are zeros: nothing is wrong, and all numbers are certain. Every segment
    sends one entry.
    """

    def launch(kernel: Any, programs: int, *_: Tensor, warps: int = 4, **__: Any) -> None:
        counts.launches[kernel.__name__] += programs > 0

    def fetch(*tensors: Tensor) -> list[np.ndarray]:
        counts.copies += 2 * len(tensors)
        counts.waits += 1
        kinds = [np.dtype(str(x.dtype).removeprefix("torch.")) for x in tensors]
        return [np.zeros(tuple(x.shape), kind) for x, kind in zip(tensors, kinds, strict=True)]

    def one_each(frame: Frame, fetched: np.ndarray) -> Report:
        return read_report(frame, fetched)._replace(counts=np.minimum(1, frame.nominal_counts))

    def record(work: Callable[[], Any]) -> Recording:
        return Recording(repeat, work(), None)

    def repeat() -> None:
        counts.graphs += 1

    def pinned(x: Tensor) -> Tensor:
        counts.copies += 1
        return x

    with ExitStack() as stack:
        for room in (join, codes, join, measure, select, stream, unpack):
            stack.enter_context(patch.object(room, "launch", launch))
        for room, name, made in (
            (tried, "works", lambda device: True),
            (write, "fetch", fetch),
            (write, "read_report", one_each),
            (arguments, "PLAIN", (*arguments.PLAIN, FakeTensor)),
            (read, "fetch", fetch),
            (Tensor, "data_ptr", lambda x: 0),
            (Tensor, "pin_memory", pinned),
            (torch.cuda, "mem_get_info", lambda device: (1 << 40, 1 << 40)),
            (torch.cuda, "device", lambda device: torch.inference_mode(False)),
        ):
            stack.enter_context(patch.object(room, name, made))
        stack.enter_context(patch.dict(RECORDERS, {"cuda": record, "cpu": record}))
        try:
            forgotten()
            yield
        finally:
            forgotten()


def forgotten() -> None:
    """Nothing is kept of messages before."""
    forget()
    write.RECORDINGS.forget()


def to_bytes(text: str, shapes: Shapes, clients: int = 1) -> Counts:
    """Messages of so many clients' updates, not the first of their method."""
    counts = Counts()
    with absent(counts), FakeTensorMode():
        uploads = second(text, shapes, clients)
        return only(counts, partial(compress_all, uploads))


def masking(text: str, shapes: Shapes, clients: int = 1) -> Counts:
    """Clients' momentum forgotten where their messages sent entries, not the first time."""
    counts = Counts()
    with absent(counts), FakeTensorMode():
        uploads = second(text, shapes, clients)

        def work() -> None:
            mask_all(
                [
                    Masking(
                        {f"momentum_buffer/{name}": x for name, x in one.update.items()},
                        told.indices,
                    )
                    for one, told in zip(uploads, packets, strict=True)
                ]
            )

        for _ in range(2):
            packets = [packet for packet, _ in made(uploads)]
            only(counts, work)
        return counts


def second(text: str, shapes: Shapes, clients: int) -> list[Upload]:
    """Clients' updates on the GPU, with the memory of messages before; their work is recorded."""
    method = parse(text)
    updates = [
        {name: torch.empty(shape, device=CUDA) for name, shape in shapes.items()}
        for _ in range(clients)
    ]
    for _ in range(2):
        memories = [state for _, state in made([Upload(method, one) for one in updates])]
    every = zip(updates, memories, strict=True)
    return [Upload(method, one, state, 1 + i) for i, (one, state) in enumerate(every)]


def made(uploads: Sequence[Upload]) -> Iterator[tuple[Packet, State]]:
    """What ``compress_all`` returns, where nothing failed."""
    for one in compress_all(uploads):
        if isinstance(one, Exception):
            raise one
        yield one


def from_bytes(text: str, shapes: Shapes) -> Counts:
    """The same, read."""
    method, counts = parse(text), Counts()
    real = {name: torch.ones(shape) for name, shape in shapes.items()}
    payload = compress(method, real)[0].payload
    with absent(counts), FakeTensorMode():
        template = {name: torch.empty(shape, device=CUDA) for name, shape in shapes.items()}
        decompress(method, payload, template)
        return only(counts, partial(decompress, method, payload, template))


def only(counts: Counts, work: Callable[[], Any]) -> Counts:
    """``counts`` of ``work`` alone."""
    vars(counts).update(vars(Counts()))
    with Operations(counts):
        work()
    return counts


def selecting(n: int, p: float) -> Counts:
    """The selection alone, not the first of its kind."""
    counts = Counts()
    with absent(counts), FakeTensorMode():
        flat = torch.empty(n, device=CUDA)
        work = partial(
            select.largest_of_segments, flat, programs_of((n,), CUDA), np.array([round(p * n)]), 1
        )
        work()
        return only(counts, work)


def counted(shapes: Shapes) -> list[str]:
    """The table of host calls."""
    rows = []
    together = ("8 clients, to bytes", partial(to_bytes, clients=8))
    ways = [("to bytes", to_bytes), together, ("from bytes", from_bytes)]
    for text in METHODS:
        for way, count in ways:
            one = count(text, shapes)
            numbers = (
                one.operations,
                one.copies,
                one.launches.total(),
                one.graphs,
                one.waits,
                one.calls,
            )
            shown = text.replace("|", "\\|")
            rows.append(f"| `{shown}` | {way} | {' | '.join(map(str, numbers))} |")
    return [
        "| method | way | torch's operations | pinned buffers, copies | launches | graphs | waits "
        "| host calls |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
    ]


def timed(shapes: Shapes, clients: int, repeats: int = 20) -> str:
    """Milliseconds of the processor for the host's part of a message, made alone and together.

    Tensors are small and kernels left out; both ways take turns.
    """
    method, found = parse("sbc(0.01)"), []
    updates = [
        {name: torch.zeros([2] * len(shape)) for name, shape in shapes.items()}
        for _ in range(clients)
    ]
    with ExitStack() as stack:
        stack.enter_context(absent(Counts()))
        stack.enter_context(patch.object(layout, "CPU_DEVICES", set()))
        stack.enter_context(patch.object(device_room, "GPU_DEVICES", {"cpu"}))
        stack.enter_context(patch.object(torch, "zeros", torch.empty))  # a GPU fills its memory
        uploads = [Upload(method, update, compress(method, update)[1], 1) for update in updates]
        for _ in range(repeats):
            times = [time.thread_time()]
            for way in (lambda: [compress(*one) for one in uploads], lambda: [*made(uploads)]):
                way()
                times.append(time.thread_time())
            found.append(1e3 * np.diff(times) / clients)
    alone, together = np.median(found, 0)
    return (
        f"a message alone {alone:.2f} ms, one of {clients} together {together:.2f} ms "
        f"(medians of {repeats})"
    )


def page(shapes: Shapes) -> str:
    """docs/gpu.md with the table in it."""
    text, lines = PAGE.read_text(encoding="utf-8"), "\n".join(counted(shapes))
    between = re.compile(r"(<!-- counts -->\n).*?(<!-- end of counts -->)", re.DOTALL)
    return between.sub(lambda match: f"{match[1]}{lines}\n{match[2]}", text)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--time", action="store_true", help="take the host's part of a message")
    torch.set_num_threads(1)
    if parser.parse_args(arguments).time:
        print(f"161 tensors: {timed(resnet50(), 8)}")
        print(f"8 tensors: {timed({f'w{i}': (2, 2)[i % 2 :] for i in range(8)}, 64)}")
    else:
        PAGE.write_text(page(resnet50()), encoding="utf-8")


if __name__ == "__main__":
    main()
