"""The messages of final runs in other lossless codes: what a coder adds to a method.

    python -m experiments.like-for-like.coders --data DIR --minutes 40

Runs of seed 1 start again as their finals did, and their messages stay. Every message is read with
its method's own coders, and its positions and symbols are then written by all others. A coder
replaces another for a whole run, so that the method's text would name it.
"""

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import ceil, inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from compressors import BitReader, BitWriter, Compressor, Pipeline, Tensors, parse
from experiments.common.tables import is_strength, write_csv
from fedsim import Cell, run_cells
from fedsim.search import ended

from .rows import ROWS, SCALES, TASKS
from .stages import Case, Stages, Trial, two

RESULTS = Path(__file__).parent / "results"
SEED = 1
FIRST = 2
"""Rounds of a run whose messages are coded again, where a task is not in ``WHOLE``."""

WHOLE = ("digits_skewed",)
"""Tasks of which all rounds are coded again."""

SENDERS = 2
"""Clients of a round whose uploads are coded again: those of the least numbers."""

ORDER = (
    *((task, 1 / 300) for task in (*WHOLE, "chars", "mnist", "cifar")),
    *((task, budget) for task in WHOLE for budget in (1 / 3000, 1 / 30)),
)
"""Places in the order in which they are coded again."""

UNCODED = ("fedavg", "powersgd", "permk", "scalars")
"""Methods whose uploads have no place for a coder, or dense floats: outside ``WHOLE`` they do not
run again."""

CODERS = {
    "positions": (
        "golomb",
        "golomb(exact)",
        "golomb(fit)",
        "raw32",
        "fixed",
        "delta16",
        "bitmap",
        "elias_gamma",
        "elias_delta",
        "elias_omega",
        "rle",
        "huffman",
        "ans",
        "context",
        "index_huffman",
        "delta_huffman",
        "auto",
    ),
    "symbols": (
        "fixed",
        "huffman",
        "ans",
        "elias_gamma",
        "elias_delta",
        "elias_omega",
        "elias_gaps",
        "rle",
        "rlh",
        "sh",
        "shs(5)",
        "deflate",
        "exponents",
    ),
}
"""The lossless coders of the catalogue, without ``zstd``, which needs a further package."""

PAPERS = {
    "natural": {"symbols": "fixed"},
    "topk": {"positions": "raw32"},
    "ef21": {"positions": "raw32"},
}
"""Where a row's coder is not its paper's; indices of a paper that names no code have 32 bits."""


class Part(NamedTuple):
    """Positions or symbols of a tensor in a message.

    Attributes:
        slot: a key of ``CODERS``.
        data: sorted positions (k,), or codes (k,).
        size: positions are below it, or the size of the alphabet.
        bits: in the message.
    """

    slot: str
    data: Any
    size: int
    bits: int

    def coded(self, code: Any) -> float:
        """Its bits in another code; infinite where that code cannot write it."""
        out = BitWriter()
        try:
            if self.slot == "positions":
                code.write_positions(self.data, self.size, out, 0)
            else:
                code.write_symbols(self.data, self.size, out)
        except ValueError:
            return inf
        return out.position


@dataclass(frozen=True)
class Recorder:
    """A code that keeps what it reads.

    Attributes:
        code: of positions or of symbols.
        parts: what was read, in order.
    """

    code: Any
    parts: list[Part] = field(compare=False)

    @property
    def needs_seed(self) -> bool:
        """As the code."""
        return bool(self.code.needs_seed)

    def write_positions(self, indices: np.ndarray, n: int, out: BitWriter, seed: int) -> np.ndarray:
        """As the code."""
        written: np.ndarray = self.code.write_positions(indices, n, out, seed)
        return written

    def write_symbols(self, codes: Tensor, alphabet: int, out: BitWriter) -> None:
        """As the code."""
        self.code.write_symbols(codes, alphabet, out)

    def read_positions(self, bits: BitReader, n: int, k: int, seed: int) -> np.ndarray:
        """As the code."""
        start = bits.position
        indices: np.ndarray = self.code.read_positions(bits, n, k, seed)
        self.parts.append(Part("positions", indices, n, bits.position - start))
        return indices

    def read_symbols(self, bits: BitReader, k: int, alphabet: int) -> Tensor:
        """As the code."""
        start = bits.position
        codes: Tensor = self.code.read_symbols(bits, k, alphabet)
        self.parts.append(Part("symbols", codes, alphabet, bits.position - start))
        return codes


class Message(NamedTuple):
    """A message and its parts.

    Attributes:
        bits: of the payload.
        content: bits before the zeros that fill the last byte.
        parts: positions and symbols of its tensors.
    """

    bits: int
    content: int
    parts: list[Part]

    def saved(self, bits_by_slot: dict[str, float]) -> int:
        """The payload's bits where each named slot takes so many bits in place of its own."""
        content: float = self.content
        for slot, bits in bits_by_slot.items():
            content += bits - sum(part.bits for part in self.parts if part.slot == slot)
        return 8 * ceil(content / 8)


def read_message(method: Compressor, payload: bytes, template: Tensors) -> Message:
    """The parts of a payload that ``method`` wrote for tensors shaped like ``template``."""
    parts: list[Part] = []
    recording = recorded(method, parts)
    bits = BitReader(payload)
    bits.uint(8)  # the version, then the method's fingerprint
    bits.uint(16)
    seed = bits.uint(32) if method.needs_seed else 0
    recording.read(bits, template, seed)
    return Message(8 * len(payload), bits.position, parts)


def recorded(part: Any, parts: list[Part]) -> Any:
    """A compressor whose pipelines have their coders in recorders."""
    if not is_dataclass(part) or isinstance(part, type):
        return part
    inner = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    copied: Any = replace(part, **{name: recorded(x, parts) for name, x in inner.items()})
    if not isinstance(copied, Pipeline):
        return copied
    copied = replace(copied, symbols=Recorder(copied.symbols, parts))
    if not copied.writes_positions:
        return copied
    return replace(copied, positions=Recorder(copied.positions, parts))


def codes(slot: str) -> dict[str, Any]:
    """The coders of a slot by their texts."""
    head = "topk(0.5) | float32 | " if slot == "positions" else "float32 | "
    pipelines: dict[str, Any] = {name: parse(head + name) for name in CODERS[slot]}
    return {name: getattr(pipe.codec, slot) for name, pipe in pipelines.items()}


def chosen(case: Case, parts: list[dict[str, dict[str, float]]]) -> dict[str, dict[str, str]]:
    """By ``paper`` and ``best`` the coder that replaces the row's in a slot, over all messages."""
    picked: dict[str, dict[str, str]] = {"paper": PAPERS.get(case.method, {}), "best": {}}
    for slot in {slot for one in parts for slot in one}:
        totals = total(parts, slot)
        least = min(totals, key=lambda name: totals[name])
        picked["best"] |= {slot: least} if totals[least] < inf else {}
    return picked


def total(parts: list[dict[str, dict[str, float]]], slot: str) -> dict[str, float]:
    """The bits of a slot over messages, by coder."""
    used = [one[slot] for one in parts if slot in one]
    return {name: sum(one[name] for one in used) for name in used[0]}


def coded(
    case: Case, messages: list[tuple[int, Message]]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A line per round, and one per slot and coder.

    Args:
        case: the method at its budget.
        messages: of the run, each with its round.
    """
    by_slot = {slot: codes(slot) for slot in CODERS}
    sizes: list[dict[str, dict[str, float]]] = []
    for _, message in messages:
        slots = {part.slot for part in message.parts}
        sizes.append(
            {
                slot: {
                    name: sum(part.coded(code) for part in message.parts if part.slot == slot)
                    for name, code in by_slot[slot].items()
                }
                for slot in slots
            }
        )
    picked = chosen(case, sizes)
    lines: dict[int, dict[str, Any]] = {}
    for (number, message), size in zip(messages, sizes, strict=True):
        empty = {"round": number, "messages": 0, "run": 0, "paper": 0, "best": 0}
        line = lines.setdefault(number, empty)
        line["messages"] += 1
        line["run"] += message.bits
        for name, coders in picked.items():
            bits = {slot: size[slot][coder] for slot, coder in coders.items() if slot in size}
            line[name] += message.saved(bits)
    used = [
        {"slot": slot, "coder": name, "bits": bits, "is_best": name == picked["best"].get(slot)}
        for slot in CODERS
        if any(slot in one for one in sizes)
        for name, bits in total(sizes, slot).items()
        if bits < inf
    ]
    return [*lines.values()], used


def messages(cell: Cell, folder: Path) -> Iterator[tuple[int, Message]]:
    """The uploads of a run's folder that are coded again: the round, and the message's parts."""
    config = cell.config
    model = config.plan.task.build()
    template = {name: p.detach() for name, p in model.named_parameters()}
    method = parse("float32" if config.method == "raw" else config.method)
    for number, place in enumerate(sorted((folder / "payloads").glob("round-*")), 1):
        for path in sorted(place.glob("*-up.bin"))[:SENDERS]:
            yield number, read_message(method, path.read_bytes(), template)


def shortened(cell: Cell, whole: bool) -> Cell:
    """The final run, or its first ``FIRST`` rounds, with its messages stored."""
    config = cell.config
    rounds = config.iterations // config.temporal
    rounds = rounds if whole else min(rounds, FIRST)
    return Cell(
        cell.name,
        replace(
            config,
            iterations=rounds * config.temporal,
            keep=replace(config.keep, payloads=True),
            evaluation=replace(config.evaluation, every=rounds),
        ),
    )


def cases(task: str, budget: float, stages: Stages) -> Iterator[tuple[Case, Cell, pd.Series]]:
    """The finals of ``SEED`` at a place: the case, its run and its line in finals.csv."""
    frame = pd.read_csv(RESULTS / task / "finals.csv", dtype={"strength": str})
    at = frame[(frame["budget"] == two(budget, 3)) & (frame["seed"] == SEED)]
    for _, line in at.iterrows():
        case = Case(line["method"], budget)
        values = ROWS[case.method].strengths
        place = next(i for i, value in enumerate(values) if is_strength(line["strength"], value))
        trial = Trial(int(line["rounds"]), float(line["factor"]), place)
        yield case, stages.cell(case, trial, 1, SEED), line


def place(task: str, budget: float, data: str | None, stop: float, out: Path) -> bool:
    """Codes a place's runs again and adds their lines to ``out``; False where time was out."""
    with TemporaryDirectory() as folder:
        stages = Stages(task, TASKS[task], ROWS, SCALES["short"], Path(folder), 1, data)
        for case, cell, line in cases(task, budget, stages):
            skipped = case.method in UNCODED and task not in WHOLE
            if skipped or has(out, task, case):
                continue
            if time.time() > stop:
                return False
            begun = time.process_time()
            cell = shortened(cell, task in WHOLE)
            run_cells([cell], Path(folder), jobs=1)
            runs = Path(folder) / "cells" / cell.name
            by_round, by_coder = coded(case, [*messages(cell, runs)])
            summary = ended(runs)
            assert summary is not None and summary["status"] == "done", (case, summary)
            at = {"task": task, "method": case.method, "budget": two(budget, 3)}
            count = len({one["round"] for one in by_round})
            spent = {
                "rounds": int(line["rounds"]),
                "coded_rounds": count,
                "up_bits": summary["up_wire_bits"],
                "finals_up_bits": line["bits_up"] if count == line["rounds"] else None,
                "seconds": time.process_time() - begun,
            }
            append(out / "messages.csv", [at | one for one in by_round])
            append(out / "codes.csv", [at | one for one in by_coder])
            append(out / "runs.csv", [at | spent])  # the last: it says that a case is there
    return True


def has(out: Path, task: str, case: Case) -> bool:
    """Whether the lines of a case are there."""
    path = out / "runs.csv"
    if not path.exists():
        return False
    frame = pd.read_csv(path)
    at = (frame["task"] == task) & (frame["method"] == case.method)
    return bool((at & (frame["budget"] == two(case.budget, 3))).any())


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    """Adds lines to a CSV file, with whole numbers as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = [pd.read_csv(path)] if path.exists() else []
    if lines:
        write_csv(path, pd.concat([*before, pd.DataFrame(lines)], ignore_index=True), 10)


def main() -> int:
    """Codes places again in their order until time is out; the same command goes on."""
    parser = argparse.ArgumentParser(description="the messages of final runs in other codes")
    parser.add_argument("--data", help="the folder with data sets")
    parser.add_argument("--minutes", type=float, default=40, help="no run starts after so many")
    parser.add_argument(
        "--out", type=Path, default=RESULTS / "coders", help="the folder of results"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    stop = time.time() + 60 * options.minutes
    for task, budget in ORDER:
        if not place(task, budget, options.data, stop, options.out):
            return 1
        print(time.strftime("%H:%M"), task, two(budget, 3), "done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
