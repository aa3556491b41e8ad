"""What a round of fedsim costs beside the same training written by hand, in one process.

    python benchmarks/round.py [--data DIR] [--optimizer adam] [--json FILE]
    python benchmarks/round.py --task digits --iterations 1 --rounds 40 [--method raw]

LeNet5, 4 clients, 10 local iterations of batch 32, sbc(0.01) up and raw down, one torch
thread a worker; or the digits. The loops take turns round by round, so that what else the
machine does hits all of them; ratios hold within one run only. A round of fedsim is timed to
the end of its record, without evaluation and without a checkpoint (one every 20 seconds by
default).
Processor time stands beside the clock: it says more on a machine that is not idle.
"""

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from loops import OPTIMIZERS, Fedsim, HandWritten, Loop, register
from measuring import machine, said

from fedsim import Evaluation, Keep, Machine, RunConfig, run

FEDSIM_1, FEDSIM_2 = "fedsim local, 1 worker", "fedsim local, 2 workers"
BARE, PEERS = "bare loop, channels-last", "plain loop as peers write it"
TARGETS = (
    (FEDSIM_1, BARE, "at most", 1.05),
    (PEERS, FEDSIM_1, "at least", 1.4),
    (PEERS, FEDSIM_2, "at least", 2.5),
)
PARTS = ("train", "encode", "decode", "downlink")
TOLERANCE = 1e-4  # between mean losses: layouts and orders of summation round differently


class Turn(NamedTuple):
    """Milliseconds of one round, by the clock and of processor time in all threads."""

    clock: float
    processor: float


Times = dict[str, list[list[Turn]]]
"""Every round that was timed: loop -> repeat -> round."""


@dataclass(frozen=True)
class Settings:
    """What is measured, how often, and on what."""

    optimizer: str = "sgd"
    rounds: int = 5
    repeats: int = 5
    iterations: int = 10
    data: Path | None = None
    samples: int = 60_000
    task: str = "lenet5"
    method: str = "sbc(0.01)"

    def config(self, rounds: int, method: str | None = None, workers: int = 1) -> RunConfig:
        """A run of ``rounds`` rounds of which only the last is evaluated."""
        lenet5 = self.task == "lenet5"
        return RunConfig(
            task=register(self.optimizer, self.data, self.samples) if lenet5 else self.task,
            method=method or self.method,
            temporal=self.iterations,
            iterations=self.iterations * rounds,
            clients=4,
            evaluation=Evaluation(every=rounds),
            keep=Keep(checkpoint_every=rounds),
            machine=Machine(workers=workers, data=str(self.data) if self.data else None),
        )


def measure(settings: Settings) -> dict[str, Any]:
    """Everything that the benchmark reports, as plain values."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        gap = disagreement(settings, Path(folder))
        times, parts = _time(settings, Path(folder))
    return {
        "milliseconds": {name: _summary(repeats) for name, repeats in times.items()},
        "ratios": [_ratio(times, *target) for target in TARGETS if {*target[:2]} <= {*times}],
        "parts_milliseconds": parts,
        "loss_disagreement": gap,
        "settings": {
            "optimizer": settings.optimizer if settings.task == "lenet5" else "the task's SGD",
            "task": settings.task,
            "method": settings.method,
            "rounds": settings.rounds,
            "repeats": settings.repeats,
            "local_iterations": settings.iterations,
            "data": _data(settings),
        },
        "machine": machine(load) | {"torch_threads_a_worker": 1},
    }


def disagreement(settings: Settings, folder: Path) -> float:
    """The largest difference of mean training losses over three rounds with method raw.

    Raises ``RuntimeError`` where the loops do not train the same.
    """
    config = settings.config(3, method="raw")
    ours, others = Fedsim(config, folder / "raw"), _by_hand(settings, config)
    losses = [[loop.round() for _ in range(3)] for loop in (ours, *others.values())]
    ours.finish()
    gap = max(max(row) - min(row) for row in zip(*losses, strict=True))
    if gap > TOLERANCE:
        raise RuntimeError(f"the loops do not train the same: their losses differ by {gap:g}")
    return gap


def _data(settings: Settings) -> str:
    if settings.task != "lenet5":
        return "its own samples"
    return "MNIST" if settings.data else f"{settings.samples} random images"


def _by_hand(settings: Settings, config: RunConfig) -> dict[str, Loop]:
    peers = {PEERS: HandWritten(config, peers=True)} if settings.task == "lenet5" else {}
    return {BARE: HandWritten(config), **peers}


def _time(settings: Settings, folder: Path) -> tuple[Times, dict[str, float]]:
    rounds = settings.rounds * settings.repeats + 2  # the first warms up, the last evaluates
    ours = {
        name: Fedsim(settings.config(rounds, workers=workers), folder / f"{workers}")
        for name, workers in ((FEDSIM_1, 1), (FEDSIM_2, 2))
    }
    loops: dict[str, Loop] = {**ours, **_by_hand(settings, settings.config(rounds))}
    for loop in loops.values():
        loop.round()
    times = take_turns(loops, settings.rounds, settings.repeats)
    frame = ours[FEDSIM_1].finish().iloc[1:-1]
    ours[FEDSIM_2].finish()
    parts = {part: 1e3 * float(frame[f"{part}_seconds"].median()) for part in PARTS}
    # Not the sum of the other parts: the server decodes while the worker trains the next client.
    apart = (frame["seconds"] - frame["train_seconds"]).median()
    return times, parts | {"all but training": 1e3 * float(apart)}


def per_message(engine: str, rounds: int = 8) -> float:
    """Milliseconds of a round besides its training, per client; one worker."""
    config = Settings().config(rounds)
    config = replace(config, machine=replace(config.machine, engine=engine))
    with tempfile.TemporaryDirectory() as folder:
        frame = run(config, Path(folder) / "run", progress=False).rounds.iloc[1:-1]
    apart = (frame["seconds"] - frame["train_seconds"]).median()
    return 1e3 * float(apart) / config.plan.clients


def bare_at_once(processes: int, rounds: int = 10) -> float:
    """Milliseconds of a round of the bare loop while as many processes carry it out at once."""
    fresh = multiprocessing.get_context("spawn")
    ready = fresh.Barrier(processes)
    with fresh.Pool(processes, initializer=_wait_for, initargs=(ready,)) as pool:
        return median(pool.map(_bare, [rounds] * processes, chunksize=1))


def _wait_for(ready: Any) -> None:
    global _ready
    _ready = ready


def _bare(rounds: int) -> float:
    settings = Settings()
    loop = HandWritten(settings.config(rounds))
    loop.round()
    _ready.wait()
    times = take_turns({BARE: loop}, rounds, 1)
    return _summary(times[BARE])["median"]


def take_turns(loops: Mapping[str, Loop], rounds: int, repeats: int) -> Times:
    """Times every loop, one round each in turn, and whoever was second goes first next."""
    times: Times = {name: [] for name in loops}
    order = list(loops)
    for _ in range(repeats):
        for name in loops:
            times[name].append([])
        for _ in range(rounds):
            for name in order:
                clock, processor = time.perf_counter(), time.process_time()
                loops[name].round()
                processor = time.process_time() - processor  # of this process's threads
                turn = Turn(1e3 * (time.perf_counter() - clock), 1e3 * processor)
                times[name][-1].append(turn)
            order = order[1:] + order[:1]
    return times


def _summary(repeats: Sequence[Sequence[Turn]]) -> dict[str, Any]:
    """Median, minimum and maximum over repeats of the median round; the best of all rounds."""
    medians = [median(turn.clock for turn in turns) for turns in repeats]
    turns = [turn for some in repeats for turn in some]
    return {
        "median": median(medians),
        "min": min(medians),
        "max": max(medians),
        "fastest": min(turn.clock for turn in turns),
        "processor": median(turn.processor for turn in turns),
        "repeats": medians,
    }


def _ratio(times: Times, above: str, below: str, bound: str, target: float) -> dict[str, Any]:
    over, under = _summary(times[above]), _summary(times[below])
    ratios = [a / b for a, b in zip(over["repeats"], under["repeats"], strict=True)]
    return {
        "of": above,
        "to": below,
        "bound": bound,
        "target": target,
        "median": median(ratios),
        "min": min(ratios),
        "max": max(ratios),
        "fastest": over["fastest"] / under["fastest"],
        "processor": over["processor"] / under["processor"],
    }


def markdown(result: Mapping[str, Any]) -> str:
    """The result as tables."""
    settings = result["settings"]
    lines = [
        said(result["machine"], "one torch thread a worker"),
        f"{settings['task']}, {settings['method']}, {settings['local_iterations']} local "
        f"iterations, {settings['optimizer']}, {settings['data']}; {settings['repeats']} repeats "
        f"of {settings['rounds']} rounds, interleaved; losses with method raw differ by at most "
        f"{result['loss_disagreement']:.1e}.",
        "",
        "| loop | ms per round | min | max | fastest round | processor ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, row in result["milliseconds"].items():
        lines.append(f"| {name} | " + _cells(row, ".1f"))
    lines += [
        "",
        "| ratio | median | min | max | of fastest | of processor time | target |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in result["ratios"]:
        name = f"{row['of']} / {row['to']}"
        lines.append(f"| {name} | {_cells(row, '.3f')} {row['bound']} {row['target']} |")
    lines += ["", f"| {FEDSIM_1} | ms per round |", "| --- | ---: |"]
    lines += [f"| {part} | {value:.2f} |" for part, value in result["parts_milliseconds"].items()]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any], form: str) -> str:
    keys = ("median", "min", "max", "fastest", "processor")
    return " | ".join(f"{row[k]:{form}}" for k in keys) + " |"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with MNIST/raw; default: random images")
    parser.add_argument("--task", choices=("lenet5", "digits"), default=Settings.task)
    parser.add_argument("--method", default=Settings.method)
    parser.add_argument("--iterations", type=int, default=Settings.iterations, help="local")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default=Settings.optimizer)
    parser.add_argument("--rounds", type=int, default=Settings.rounds, help="rounds a repeat")
    parser.add_argument("--repeats", type=int, default=Settings.repeats)
    parser.add_argument("--json", type=Path, help="a file for the result")
    given = parser.parse_args(arguments)
    if min(given.rounds, given.repeats, given.iterations) < 1:
        parser.error("--rounds, --repeats and --iterations are at least 1")
    settings = Settings(
        given.optimizer,
        given.rounds,
        given.repeats,
        given.iterations,
        given.data,
        task=given.task,
        method=given.method,
    )
    result = measure(settings)
    if given.json:
        given.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
