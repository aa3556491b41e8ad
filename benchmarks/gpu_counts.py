"""What messages and steps cost on a GPU, counted without one: host calls, launches, bytes moved.

    python benchmarks/gpu_counts.py     # writes its tables into docs/gpu.md
    python benchmarks/gpu_counts.py --time     # the host's part of messages, kernels left out

Fake tensors know their device and hold no values: every line of the host runs as on a GPU, and no
kernel does. An estimate is what was counted times the rates below, which are assumed.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import torch
from targets import resnet50
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from compressors import State, compress, decompress, message, parse
from compressors.device import plan, read, write
from compressors.kernels.gpu import clear, codes, join, measure, select, stream, unpack
from compressors.kernels.gpu.entries import buckets_of
from compressors.kernels.gpu.layout import layout_of
from compressors.message import Packet, Upload, compress_all
from compressors.segments import layout
from fedsim.federation.masking import Masking, mask_all

if TYPE_CHECKING:
    from stack import Model

PAGE = Path(__file__).parents[1] / "docs" / "gpu.md"
CUDA = torch.device("cuda", 0)
METHODS = ("sbc(0.01)", "ef(topk(0.01) | cnat | golomb)", "raw", "cnat", "qsgd(7, 64)")
MEMORY, LINK = 3.35e12, 50e9
"""Bytes per second: of an H100's memory (its data sheet), and over PCIe 5 from pinned memory."""
CALL, LAUNCH, KERNEL = 5e-6, 20e-6, 3e-6
"""Seconds of the host for a torch operation and for one of Triton's launches; of the GPU between
two kernels."""

Shapes = dict[str, tuple[int, ...]]


@dataclass
class Counts:
    """What was counted.

    Args:
        operations: torch's, as it dispatches them; a view is one.
        fills: those that start a kernel or a copy: neither views nor new memory.
        copies: pinned buffers and copies out of them or into them.
        launches: of Triton's kernels, by name.
        waits: how often the host waited for the GPU.
        down: bytes that came to the host; those of a message alone are a bound of its size.
    """

    operations: int = 0
    fills: int = 0
    copies: int = 0
    launches: Counter[str] = field(default_factory=Counter)
    waits: int = 0
    down: int = 0

    @property
    def calls(self) -> int:
        """Whatever the host calls."""
        return self.operations + self.copies + self.launches.total() + self.waits

    @property
    def host(self) -> float:
        """Milliseconds that the host takes at the assumed rates."""
        calls = self.operations + self.copies + self.waits
        return 1e3 * (CALL * calls + LAUNCH * self.launches.total())

    @property
    def kernels(self) -> int:
        """What the GPU starts, one after the other."""
        return self.launches.total() + self.fills


class Operations(TorchDispatchMode):
    """Counts what torch dispatches, but for questions about a fake tensor's device."""

    def __init__(self, counts: Counts) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, op: Any, types: Any, given: Any = (), more: Any = None) -> Any:
        if op is not torch.ops.prim.device.default:
            self.counts.operations += 1
            self.counts.fills += not (op.is_view or "empty" in op.name())
        return op(*given, **(more or {}))


@contextmanager
def absent(counts: Counts) -> Iterator[None]:
    """Inside, updates on a GPU that is not there go through the kernels, which do nothing.

    What the host fetches is made up: nothing is wrong, every segment sends one entry, and the side
    above zero is the stronger.
    """
    made_up = {torch.int32: 0, torch.int64: 1, torch.float64: 1.0}

    def launch(kernel: Any, programs: int, *_: Tensor, warps: int = 4, **__: Any) -> None:
        counts.launches[kernel.__name__] += programs > 0

    def fetch(*tensors: Tensor) -> list[np.ndarray]:
        counts.copies += 2 * len(tensors)
        counts.waits += 1
        counts.down += sum(x.numel() * x.element_size() for x in tensors)
        kinds = [np.dtype(str(x.dtype).removeprefix("torch.")) for x in tensors]
        made = [np.full(tuple(x.shape), made_up[x.dtype], kind)
                for x, kind in zip(tensors, kinds, strict=True)]  # fmt: skip
        if len(made) > 2 and made[2].ndim == 2:
            made[2][:, 0] = 2.0
        return made

    def pinned(x: Tensor) -> Tensor:
        counts.copies += 1
        return x

    with ExitStack() as stack:
        for room in (clear, codes, join, measure, select, stream, unpack):
            stack.enter_context(patch.object(room, "launch", launch))
        for room, name, made in (
            (plan, "works", lambda device: True), (write, "fetch", fetch),
            (read, "fetch", lambda *many: [0 * x for x in fetch(*many)]),
            (Tensor, "data_ptr", lambda x: 0), (Tensor, "pin_memory", pinned),
            (torch.cuda, "device", lambda device: torch.inference_mode(False)),
        ):  # fmt: skip
            stack.enter_context(patch.object(room, name, made))
        caches = (layout_of, buckets_of, select._wanted)
        for one in caches:
            one.cache_clear()
        try:
            yield
        finally:
            for one in caches:
                one.cache_clear()


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
            mask_all([
                Masking({f"momentum_buffer/{name}": x for name, x in one.update.items()}, told.sent)
                for one, told in zip(uploads, packets, strict=True)
            ])  # fmt: skip

        for _ in range(2):
            packets = [packet for packet, _ in made(uploads)]
            only(counts, work)
        return counts


def second(text: str, shapes: Shapes, clients: int) -> list[Upload]:
    """Clients' updates on the GPU, with the memory that a message before has left."""
    method = parse(text)
    updates = [{name: torch.empty(shape, device=CUDA) for name, shape in shapes.items()}
               for _ in range(clients)]  # fmt: skip
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
        like = {name: torch.empty(shape, device=CUDA) for name, shape in shapes.items()}
        decompress(method, payload, like)
        return only(counts, partial(decompress, method, payload, like))


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
        work = partial(select.largest, flat, layout_of((n,), CUDA), np.array([round(p * n)]), 1)
        work()
        return only(counts, work)


SECTOR = 32  # bytes that a GPU reads of its memory at least


def candidates(sizes: np.ndarray, p: float, sides: int) -> float:
    """How many entries of normal tensors reach the key that their samples give.

    Its leading 16 bits stand for it.
    """
    lanes = select._SAMPLE
    total = 0.0
    for n, many in zip(*np.unique(sizes, return_counts=True), strict=True):
        rank = select.ranks((n,), np.array([max(1.0, p * n)]))[0] / min(n, lanes)
        least = np.float32(NormalDist().inv_cdf(max(0.5, 1 - rank * sides / 2)))
        key = (least.view(np.uint32) >> 15 << 15).view(np.float32)
        total += float(many * n) * 2 * (1 - NormalDist().cdf(float(key)))
    return total


def top_k(sizes: Sequence[int], p: float, sides: int = 1) -> dict[str, float]:
    """Bytes that each kernel moves to choose ``p`` of tensors with normal entries, on each side.

    What all programs of a tensor read again, such as its histogram, counts as often as it is read.
    """
    n, every = sum(sizes), np.asarray(sizes)
    c, k = candidates(every, p, sides), sides * p * n
    groups, both = int((-(-every // select._GROUP)).sum()), sides * len(sizes)
    bins = 4 * sides << select._BITS  # bytes of a histogram
    tables = 60 * groups  # what a program looks up
    far = max(0.0, c - select._ROOM * groups)  # whose words are not kept
    words = 4 * (c - far) + (2 + SECTOR) * far
    return {
        "sample": sides * float(np.minimum(4 * every, SECTOR * select._SAMPLE).sum())
                  + (80 + (4 * select._LEVELS << select._BITS)) * both,
        "candidates": 4 * n + 2 * c + 4 * (c - far) + tables,
        "counts": select._LEVELS * (words + tables + 3 * bins * groups),
        "tally": sides * words + tables + bins * groups, "share": 24 * sides * groups,
        "compact": sides * (words + 2 * c) + tables + 8 * k,
    }  # fmt: skip


def nine_bits(n: int) -> dict[str, float]:
    """Bytes that each kernel moves to round ``n`` entries to powers of two, and to pack them."""
    packed = 9 * n / 8
    return {"quantize": 6 * n, "zeros": packed, "signs": 2 * n + n / 8, "exponents": 3 * n}


def sbc_to_bytes(sizes: Sequence[int], p: float) -> dict[str, float]:
    """Bytes that each kernel moves for messages of so many entries with a residual."""
    n = sum(sizes)
    k, chosen = p * n, top_k(sizes, p, sides=2)
    bits = k * (2 + NormalDist().inv_cdf(0.75) + np.log2(1 / p))  # about, of Rice codes
    return {"join": 12 * n, **chosen, "quantize": k * (8 + 4 + 3 * SECTOR),
            "rice": 2 * 8 * k + bits / 4}  # fmt: skip


def steps(model: "Model", clients: int, iterations: int) -> tuple[int, int]:
    """Torch's operations of clients that train one after the other, and at once.

    They grow by as many with each client and each iteration: few of both are counted.
    """
    import stack

    found = {}
    for k, many in ((2, 1), (2, 2), (3, 1), (3, 2)):
        trainer, whole, jobs = stack.made(model, k, "cpu")
        jobs = [job._replace(iterations=many) for job in jobs]
        for job in jobs:  # whose first step is watched
            trainer.train(*job)
        one = only(Counts(), lambda: trainer.train(*jobs[0]))  # noqa: B023 - called at once
        every = only(Counts(), lambda: whole.train(jobs))  # noqa: B023
        found[k, many] = np.array([k * one.operations, every.operations])
    more = found[2, 2] - found[2, 1]
    each = found[3, 1] - found[2, 1]
    both = found[3, 2] - found[3, 1] - more
    k, many = clients - 2, iterations - 1
    alone, at_once = found[2, 1] + k * each + many * more + k * many * both
    return int(alone), int(at_once)


def device_ms(moved: dict[str, float], kernels: int) -> float:
    """Milliseconds of the GPU at the assumed rates."""
    return 1e3 * (sum(moved.values()) / MEMORY + kernels * KERNEL)


def counted(shapes: Shapes) -> list[str]:
    """The table of host calls."""
    rows = []
    together = ("32 clients, to bytes", partial(to_bytes, clients=32))
    ways = [("to bytes", to_bytes), together, ("from bytes", from_bytes)]
    for text in METHODS:
        for way, count in ways:
            one = count(text, shapes)
            numbers = (one.operations, one.copies, one.launches.total(), one.waits, one.calls)
            shown = text.replace("|", "\\|")
            rows.append(f"| `{shown}` | {way} | {' | '.join(map(str, numbers))} |")
    return ["| method | way | torch's operations | pinned buffers, copies | launches | waits | "
            "host calls |", "| --- | --- | ---: | ---: | ---: | ---: | ---: |", *rows]  # fmt: skip


def estimated(shapes: Shapes, n: int = 100_000_000) -> list[str]:
    """The table of targets: what was counted, and what follows at the assumed rates."""
    read, copy = 4e3 * n / MEMORY, 8e3 * n / MEMORY  # milliseconds
    top, nine, kernels = top_k((n,), 0.01), nine_bits(n), selecting(n, 0.01).kernels
    chosen, packed = device_ms(top, kernels), device_ms(nine, 4)
    sbc, sizes = to_bytes("sbc(0.01)", shapes), [int(np.prod(s)) for s in shapes.values()]
    moved = sbc_to_bytes(sizes, 0.01)
    whole = sbc.host + device_ms(moved, sbc.kernels)
    rows = [
        (f"exact top-k of {n:.0e}, p = 0.01", "2.5 reads",
         f"{sum(top.values()) / 4 / n:.2f} reads are moved, {kernels} kernels: {chosen:.2f} ms; "
         f"a read: {read:.2f} ms", f"{chosen / read:.1f} reads"),
        (f"`cnat` of {n:.0e} to packed 9 bits", "2.5 copies",
         f"{sum(nine.values()) / 8 / n:.2f} copies are moved, 4 kernels: {packed:.2f} ms; "
         f"a copy: {copy:.2f} ms", f"{packed / copy:.1f} copies"),
        (f"an update of {len(shapes)} tensors by `sbc(0.01)` to bytes", "2 ms",
         f"host {sbc.host:.2f} ms ({sbc.calls} calls); GPU {whole - sbc.host:.2f} ms "
         f"({sum(moved.values()) / 1e6:.0f} MB, {sbc.kernels} kernels)", f"{whole:.1f} ms"),
    ]  # fmt: skip
    import gpu_training

    smaller = replace(gpu_training.RESNET20, side=8)  # the same operations, of smaller images
    rows += in_stacks(gpu_training.LENET5, 64, "10 times one by one", "a fifth")
    rows += in_stacks(smaller, 32, "one by one", "a tenth")
    return ["| target | asked | arithmetic | estimate |", "| --- | --- | --- | --- |",
            *(f"| {' | '.join(row)} |" for row in rows)]  # fmt: skip


def in_stacks(model: "Model", clients: int, gain: str, most: str) -> list[tuple[str, ...]]:
    """Rows of a model's gain in stacks and of what messages take of a round.

    Of training only the host's time is counted.
    """
    import stack

    iterations, method = 10, "sbc(0.01)"
    trainer, *_ = stack.made(model, 2, "cpu")
    shapes = {n: tuple(p.shape) for n, p in trainer.parameters.items()}
    alone, at_once = steps(model, clients, iterations)
    sizes = clients * [p.numel() for p in trainer.parameters.values()]
    sent = to_bytes(method, shapes, clients)
    moved = sbc_to_bytes(sizes, 0.01) | {"residuals": 8 * sum(sizes)}  # each client's is its own
    gpu = device_ms(moved, sent.kernels)
    mask = masking(method, shapes, clients).host
    training = 1e3 * CALL * at_once
    coding = sent.host + gpu + from_bytes("raw", shapes).host
    share, masked = (x / (training + x) for x in (coding, coding + mask))
    return [
        (f"{model.name}, {clients} clients stacked, {iterations} iterations", gain,
         f"{alone:,} operations one by one, {at_once:,} stacked", f"{alone / at_once:.1f} times"),
        (f"{model.name}, {clients} clients: messages' part of such a round", most,
         f"{coding:.1f} ms of messages (host: {sent.calls} calls for all, and {sent.host:.1f} ms; "
         f"GPU {gpu:.1f} ms), {training:.0f} ms of training's host", f"{share:.0%}"),
        ("the same, and the clients' momentum is masked", most,
         f"{mask:.1f} ms more of the host", f"{masked:.0%}"),
    ]  # fmt: skip


def timed(shapes: Shapes, clients: int, repeats: int = 20) -> str:
    """Milliseconds of the processor for the host's part of a message, made alone and together.

    Tensors are small and kernels left out; both ways take turns.
    """
    method, found = parse("sbc(0.01)"), []
    updates = [{name: torch.zeros([2] * len(shape)) for name, shape in shapes.items()}
               for _ in range(clients)]  # fmt: skip
    with ExitStack() as stack:
        stack.enter_context(absent(Counts()))
        for room, taken in ((layout, set()), (message, {"cpu"}), (plan, {"cpu"})):
            stack.enter_context(patch.object(room, "DEVICES", taken))
        stack.enter_context(patch.object(torch, "zeros", torch.empty))  # a GPU fills its memory
        uploads = [Upload(method, update, compress(method, update)[1], 1) for update in updates]
        for _ in range(repeats):
            times = [time.thread_time()]
            for way in (lambda: [compress(*one) for one in uploads], lambda: [*made(uploads)]):
                way()
                times.append(time.thread_time())
            found.append(1e3 * np.diff(times) / clients)
    alone, together = np.median(found, 0)
    return (f"a message alone {alone:.2f} ms, one of {clients} together {together:.2f} ms "
            f"(medians of {repeats})")  # fmt: skip


def page(shapes: Shapes) -> str:
    """docs/gpu.md with both tables in it."""
    text = PAGE.read_text(encoding="utf-8")
    for name, table in (("counts", counted(shapes)), ("estimates", estimated(shapes))):
        between = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        lines = "\n".join(table)
        text = between.sub(lambda match, lines=lines: f"{match[1]}{lines}\n{match[2]}", text)
    return text


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
