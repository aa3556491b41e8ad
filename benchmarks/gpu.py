"""Rounds of training on a GPU and what its kernels cost, compared with what was asked for.

    python benchmarks/gpu.py [--entries 25600000 100000000] [--repeats 20] [--out FILE]
    python benchmarks/gpu.py --all      # with messages, doctor and tests, in --seconds: make gpu
    python benchmarks/gpu.py --held 0.01    # one run on 1 % of its memory

The tables that matter most come first, and FILE has each as soon as it is measured. A step, or a
line of a table, that fails says so, and the rest goes on; training (``gpu_training.py``) needs
Flower. Kernels are compared with a copy, with reading, and with torch's own way: ours and torch's
take turns in one process; what is printed are medians, with the share of the copy's bandwidth that
ours reaches where it moves the whole vector. Results are compared before they are timed: a
selection with torch.topk, messages with those that the host writes. Without a GPU it says so in one
line, with what to do.
"""

import argparse
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from measuring import Pair
from targets import Target, resnet50, targets
from torch import Tensor

from compressors import compress, decompress, parse
from compressors.devicecheck import absent, by_loops
from compressors.kernels.gpu.codes import Numbers, quantize
from compressors.kernels.gpu.entries import Entries
from compressors.kernels.gpu.graphs import repeated
from compressors.kernels.gpu.layout import programs_of
from compressors.kernels.gpu.select import largest_of_segments
from compressors.kernels.gpu.stream import put_plane, stream
from compressors.kernels.kinds import NATURAL, SymbolKind

Shapes = dict[str, tuple[int, ...]]
ROOT = Path(__file__).parents[1]
TESTS = (
    "tests/compressors/device",
    "tests/compressors/kernels",
    "tests/compressors/test_edges.py",
    "tests/compressors/published/test_sbc.py",
    "tests/fedsim/federation/test_masking_kernel.py",
    "tests/fedsim/federation/test_branches.py",
)


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
    layout = programs_of((n,), x.device)
    cnat, update = parse("cnat"), {"x": x}
    return [
        Work("copy", lambda: into.copy_(x), moved=8 * n, key="copy"),
        Work("reading once (largest entry)", lambda: x.amax(), moved=4 * n, key="reading"),
        Work(
            "exact top-k, p = 0.01",
            repeated(lambda: largest_of_segments(x, layout, np.array([k]), 1), x.device),
            "torch.topk of abs(x)",
            lambda: torch.topk(x.abs(), k),
            4 * n,
            "top-k",
        ),
        Work(
            "cnat, packed to 9 bits per entry", packed_cnat(x), moved=4 * n + 9 * n // 8, key="cnat"
        ),
        Work("cnat, to a message on the host", lambda: compress(cnat, update, seed=1)),
    ]


def packed_cnat(x: Tensor) -> Callable[[], Tensor]:
    """Natural compression of ``x`` to symbols and to packed bits, all of it on the device."""
    n, layout = x.numel(), programs_of((x.numel(),), x.device)
    none, starts, table = layout.tables[3], layout.tables[3], layout.tables[2]
    entries = Entries(x, starts, None, none, table, none, (n,))
    kind, zero = SymbolKind(NATURAL, torch.int16, True, (1, 254, 8)), x.new_zeros(1)
    numbers = Numbers(zero, zero, none, 0, None, zero)
    keys = torch.tensor([[3, 5]], device=x.device)

    def work() -> Tensor:
        symbols, _ = quantize(entries, kind, numbers, keys, keep=False)
        words = stream(9 * n, x.device)
        put_plane(symbols, none, table, words, none, (n,), 1, 8)
        put_plane(symbols, none, table, words, none + n, (n,), 8)
        return words

    return work


def messages(shapes: Shapes, place: torch.device) -> list[Work]:
    """A whole update by SBC, to bytes and back; the CPU's way, with its copies, is the peer."""
    update = {name: torch.randn(shape, device=place) for name, shape in shapes.items()}
    sbc = parse("sbc(0.01)")
    _, state = compress(sbc, update)
    host_state = {key: x.cpu() for key, x in state.items()}
    payload = compress(sbc, update, state, 1)[0].payload
    if payload != _by_host(lambda: compress(sbc, update, host_state, 1))[0].payload:
        raise SystemExit("the kernels' message of sbc(0.01) is not the host's")
    entries = sum(x.numel() for x in update.values())
    what = f"{len(update)} tensors, {entries} entries, sbc(0.01)"
    return [
        Work(
            f"{what}: to bytes",
            lambda: compress(sbc, update, state, 1),
            "the CPU",
            lambda: _by_host(lambda: compress(sbc, update, host_state, 1)),
            key="message",
        ),
        Work(
            f"{what}: from bytes",
            lambda: decompress(sbc, payload, update),
            "the CPU",
            lambda: _by_host(lambda: decompress(sbc, payload, update)),
        ),
    ]


def _by_host(work: Callable[[], Any]) -> Any:
    """``work`` without kernels."""
    with by_loops():
        return work()


def agree(x: Tensor) -> None:
    """Raises ``SystemExit`` unless our selection has the magnitudes of torch.topk's."""
    k = round(0.01 * x.numel())
    places = largest_of_segments(x, programs_of((x.numel(),), x.device), np.array([k]), 1)
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


class Steps:
    """Steps that are taken one after the other: which failed is told at once, and in the end.

    Args:
        seconds: for all of them; what would begin later is left out, and a program ends then.
    """

    def __init__(self, seconds: float = 1e9) -> None:
        self.failed: list[str] = []
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that there are."""
        return self._end - time.monotonic()

    def do(self, name: str, work: Callable[[], Any]) -> Any:
        """What ``work`` returns; None where it fails, or the time is over."""
        try:
            if self.left() < 0:
                raise TimeoutError("the time is over; --seconds gives more")
            return work()
        except (Exception, SystemExit) as error:
            self.failed.append(name)
            print(f"FAILED  {name}: {type(error).__name__}: {error}", flush=True)
            return None

    def program(self, name: str, *words: str, under: Sequence[str] = ()) -> None:
        """Another Python, which cannot break this one's GPU, ``under`` another program."""
        print(f"{name} ...", flush=True)
        command, limit = [*under, sys.executable, *words], max(1.0, self.left())
        self.do(name, lambda: subprocess.run(command, cwd=ROOT, check=True, timeout=limit))


@dataclass(frozen=True)
class Timed:
    """Medians of milliseconds by key: ours, and torch's way."""

    ours: dict[str, float]
    peers: dict[str, float]


def table(
    works: list[Work], place: torch.device, repeats: int, steps: Steps
) -> tuple[list[str], Timed]:
    """Lines of the table, shares in the bandwidth of the first line, and the times by key."""
    lines, times, copy = [], Timed({}, {}), 0.0
    for work in works:
        found = steps.do(work.name, lambda work=work: turns(work, place, repeats))
        if found is None:
            lines.append(f"| {work.name} | failed | | | | | | | |")
            continue
        ours, peers = found
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
        print(lines[-1], flush=True)
    return lines, times


def turns(work: Work, place: torch.device, repeats: int) -> tuple[list[float], list[float]]:
    """Milliseconds of ours and of torch's way (of none: empty), in turns."""
    work.ours()  # compiles
    ours, peers = [], []
    for _ in range(repeats):
        ours.append(timed(work.ours, place))
        if work.peer is not None:
            peers.append(timed(work.peer, place))
    return ours, peers


def asked(n: int, times: Timed) -> list[Target]:
    """What was asked of a vector of ``n`` entries, as far as it was measured."""
    ours, what, found = times.ours, f"{n} entries: ", []
    if {"top-k"} <= ours.keys():
        ratio = times.peers["top-k"] / ours["top-k"]
        found.append(Target(f"{what}exact top-k against torch.topk", ratio, 5.0, least=True))
    for key, beside, told in (
        ("top-k", "reading", "exact top-k against reading once"),
        ("cnat", "copy", "cnat to packed 9 bits against a copy"),
    ):
        if {key, beside} <= ours.keys():
            found.append(Target(what + told, ours[key] / ours[beside], 2.5))
    return found


def report(
    place: torch.device, entries: Sequence[int], repeats: int, shapes: Any, steps: Steps
) -> tuple[str, list[Target]]:
    """The tables of the kernels, with the device's name, and what was asked for."""
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else str(place)
    text = [
        f"{name}, torch {torch.__version__}; milliseconds, medians of {repeats}, in turns.",
        "",
        "| work | ms | min | max | GB per s | of the copy | torch's way | ms | times faster |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    goals: list[Target] = []
    for n in entries:
        x = torch.randn(n, device=place)
        steps.do(f"{n} entries: exact top-k is torch.topk's", lambda x=x: agree(x))
        made = steps.do(f"{n} entries: preparing", lambda x=x: works(x)) or []
        rows, times = table(made, place, repeats, steps)
        text += [row.replace("| ", f"| {n} entries, ", 1) for row in rows]
        goals += asked(n, times)
        del x, made
    made = steps.do("messages as the host's", lambda: messages(shapes, place)) or []
    rows, times = table(made, place, repeats, steps)
    rows += [steps.do("a profile of ten messages", lambda: profiled(shapes, place)) or ""]
    what = f"an update of {len(shapes)} tensors by sbc(0.01) to bytes"
    if "message" in times.ours:
        goals.append(Target(what, times.ours["message"], 0.8, "ms"))
    return "\n".join(text + rows) + "\n", goals


def doctor(steps: Steps) -> None:
    """Equal bytes, waits and pace of the kernels."""
    steps.program("doctor", "-m", "compressors.devicecheck", "--device", "cuda")


def tests(steps: Steps) -> None:
    """The tests whose tensors lie on the GPU, and the sanitizer."""
    every = ["-m", "slow or not slow", "-n", "0", "-q"]
    steps.program("the kernels' tests", "-m", "pytest", *every, *TESTS)
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        print("compute-sanitizer is not installed: memory and races are not looked at", flush=True)
        return
    for tool in ("memcheck", "racecheck"):
        under = (sanitizer, "--tool", tool, "--error-exitcode", "1")
        steps.program(tool, "-m", "compressors.devicecheck", "--methods", "2", under=under)


def runs(steps: Steps) -> None:
    """Short runs with their updates on the GPU."""
    run = ["-m", "fedsim", "run", "--task", "digits", "--method", "sbc", "--gradient", "0.01",
           "--device", "cuda", "--iterations", "200"]  # fmt: skip
    for many in ("1", "64"):
        more = ["--stack", many, "--out", f"fedsim-results/gpu-stack-{many}"]
        steps.program(f"a run with --stack {many}", *run, *more)
    workers = ["--workers", "2", "--out", "fedsim-results/gpu-workers-2"]
    steps.program("a run with two workers", *run, *workers)
    steps.program("a run on 1 % of the GPU", "benchmarks/gpu.py", "--held", "0.01")


def held(share: float) -> int:
    """A run on a ``share`` of the GPU's memory, where fewer clients at once may fit."""
    from fedsim.commands.cli import main as fedsim

    torch.cuda.set_per_process_memory_fraction(share)
    return fedsim(
        [
            "run",
            "--task",
            "digits",
            "--clients",
            "64",
            "--device",
            "cuda",
            "--iterations",
            "20",
            "--batch-size",
            "256",
        ]
    )


def profiled(shapes: Shapes, place: torch.device) -> str:
    """What ten messages of an update by SBC spend their time on: gaps on the GPU are the host."""
    update = {name: torch.randn(shape, device=place) for name, shape in shapes.items()}
    sbc = parse("sbc(0.01)")
    _, state = compress(sbc, update)
    with torch.profiler.profile() as seen:
        for seed in range(10):
            compress(sbc, update, state, seed)
    busiest = "self_cuda_time_total" if place.type == "cuda" else "self_cpu_time_total"
    table = seen.key_averages().table(sort_by=busiest, row_limit=15, max_name_column_width=40)
    return f"\nTen messages:\n\n```text\n{table}\n```\n"


class Page:
    """Tables by title and all that was asked for; a file has them as they come.

    Args:
        head: the first line.
        steps: which of them failed.
        file: where the tables go; None: nowhere.
    """

    def __init__(self, head: str, steps: Steps, file: Path | None) -> None:
        self._head, self._steps, self._file = head, steps, file
        self._tables: dict[str, tuple[list[str], list[Target]]] = {}

    def put(self, title: str, lines: Sequence[str], goals: Sequence[Target]) -> None:
        """Has a table, in the place of one of that title."""
        self._tables[title] = [*lines], [*goals]
        if self._file:
            self._file.write_text(self.text(), encoding="utf-8")

    def text(self) -> str:
        """All of it: the goals first."""
        goals = [goal for _, goals in self._tables.values() for goal in goals]
        parts = [self._head, "", *targets(goals)]
        for title, (lines, _) in self._tables.items():
            parts += ["", f"{title}:", "", *lines]
        if failed := self._steps.failed:
            parts += ["", f"{len(failed)} steps failed: {', '.join(failed)}"]
        return "\n".join(parts) + "\n"


def tables_of(
    place: torch.device, given: argparse.Namespace, steps: Steps
) -> dict[str, Callable[..., Any]]:
    """What makes each table, by its title, the most important first.

    Each takes a function that is called with the lines and goals so far, and returns both. What
    needs Flower is imported when its table is made.
    """

    def training(written: Any) -> Any:
        import gpu_training

        return gpu_training.rounds(
            str(place), max(1, given.repeats // 4), left=steps.left, written=written
        )

    def messages_by_method(written: Any) -> Any:
        import gpu_messages

        return gpu_messages.run(place, given.repeats, steps, written)

    def cost(written: Any) -> Any:
        import per_client

        each = per_client.measure(per_client.config(64, given.repeats, "sbc(0.01)"))
        what = "Python per client and round, training stubbed"
        goal = Target(what, each.milliseconds, 0.4, "ms")
        return [f"{each.calls:.0f} calls, {each.milliseconds:.3f} ms"], [goal]

    def bits(written: Any) -> Any:
        import gpu_training

        return gpu_training.equal_bits(str(place), left=steps.left, written=written), []

    def kernels(written: Any) -> Any:
        shapes = steps.do("torchvision's ResNet-50", resnet50) or {"w": (2048, 1000), "b": (1000,)}
        text, goals = report(place, given.entries, given.repeats, shapes, steps)
        return text.splitlines(), goals

    every = {"Kernels": kernels}
    if given.all:
        every = {
            "Messages by method": messages_by_method,
            "A client's Python in a round": cost,
        } | every
    return {"Rounds of training": training} | every | {"Clients that train together": bits}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[25_600_000, 100_000_000])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--out", type=Path, help="a file for the tables")
    parser.add_argument("--all", action="store_true", help="messages, doctor, runs and tests, too")
    parser.add_argument("--held", type=float, help="one run on this share of the GPU's memory")
    parser.add_argument("--seconds", type=float, default=480, help="for all steps of --all")
    given = parser.parse_args(arguments)
    if min(*given.entries, given.repeats) < 1:
        parser.error("--entries and --repeats are at least 1")
    place = torch.device("cuda")
    if why := absent(place):
        print(f"There is no GPU here: {why}. Nothing was run.")
        return 1
    if given.held is not None:
        return held(given.held)
    steps = Steps(given.seconds) if given.all else Steps()
    head = f"{torch.cuda.get_device_name(place)}, torch {torch.__version__}; milliseconds, medians."
    page = Page(head, steps, given.out)
    for title, make in tables_of(place, given, steps).items():
        written = partial(page.put, title)
        if made := steps.do(title, partial(make, written)):
            written(*made)
    for program in (doctor, runs, tests) if given.all else ():
        program(steps)
    text = page.text()
    if given.out:
        given.out.write_text(text, encoding="utf-8")
    print(text)
    return int(bool(steps.failed))


if __name__ == "__main__":
    raise SystemExit(main())
