"""fedsim beside its peers: the same training on the same arrays, round by round in turns.

    python benchmarks/peers/environments.py     # once: installs the peers
    python benchmarks/compare.py [--settings 4/4 10/100] [--rounds 8] [--json FILE]

LeNet5, random images of MNIST's shape, plain SGD, batches of 32, 10 local iterations, one torch
thread per worker. Each simulator runs in processes of its own and waits between rounds, so that
what else the machine does hits all of them. fedsim draws cohorts and batches, the peers are given
them, and all must tell the same losses: where one does not, nothing is reported (a lossy method's
are its own after the first round, whose model all share). Processor time is that of all processes
of a simulator. The code of an older commit takes part with --before, where git knows it.
"""

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from loops import random_images, register
from measuring import end_family, family_of, machine, said
from peers.environments import ENVIRONMENTS, FOLDER

from fedsim import RunConfig
from fedsim.federation.clientdata import ClientData
from fedsim.federation.draws import Batches
from fedsim.federation.trainer import build_model
from strategies.channel.nodes import cohort

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "benchmarks" / "peers"
BATCH, ITERATIONS, SAMPLES = 32, 10, 60_000
TOLERANCE = 1e-4  # between mean losses: layouts and orders of summation round differently
OURS = "fedsim, sbc(0.01)"
BEFORE = "aee038d"
OLD = f"fedsim at {BEFORE}, sbc(0.01)"


@dataclass(frozen=True)
class Contender:
    """What runs one simulator.

    Args:
        name: as the tables have it.
        script: in the folder ``peers``.
        processes: processes, threads or workers that train.
        more: what the script is told besides.
        environment: whose Python; empty: fedsim's.
        tree: of the code of fedsim; None: this one.
        lossy: whether its losses leave the others' after the first round.
    """

    name: str
    script: str
    processes: int
    more: tuple[str, ...] = ()
    environment: str = ""
    tree: Path | None = None
    lossy: bool = False

    @property
    def python(self) -> str:
        """Its interpreter."""
        own = ENVIRONMENTS.get(self.environment)
        return str(own.executable if own else sys.executable)


def contenders(old: Path | None = None) -> list[Contender]:
    """All that can run here; ``old``: a tree with the code of an older commit."""
    both = (1, 2)
    listed = [Contender(OURS, "run_fedsim.py", n, ("sbc(0.01)",), lossy=True) for n in both]
    listed += [Contender("fedsim, raw", "run_fedsim.py", n, ("raw",)) for n in both]
    if old is not None:
        listed += [
            Contender(OLD, "run_fedsim.py", n, ("sbc(0.01)",), tree=old, lossy=True) for n in both
        ]
    listed += [Contender("by hand, channels-last", "run_bare.py", n) for n in both]
    for name, environment in ENVIRONMENTS.items():
        if not environment.missing:
            listed += [Contender(name, f"run_{name}.py", n, environment=name) for n in both]
    return listed + [Contender("Flower on Ray", "run_flower.py", n) for n in both]


def make_work(folder: Path, clients: int, size: int, rounds: int, samples: int = SAMPLES) -> None:
    """Writes what everyone is given (``work.Work``): fedsim's own draws."""
    task = register("sgd", None, samples)
    config = RunConfig.of(
        task=task,
        temporal=ITERATIONS,
        iterations=rounds * ITERATIONS,
        clients=clients,
        cohort=size,
    )
    shards = ClientData.of(config).shards
    cohorts = [cohort(clients, size, config.seed, number) for number in range(1, rounds + 1)]
    batches = np.empty((rounds, size, ITERATIONS, BATCH), np.int64)
    trained: Counter[int] = Counter()  # a client goes through its own samples, whenever it is drawn
    for number, asked in enumerate(cohorts):
        for slot, client in enumerate(asked):
            own = Batches(shards[client], BATCH, config.seed, client)
            for i in range(ITERATIONS):
                batches[number, slot, i] = own.at(trained[client] + i).numpy()
            trained[client] += ITERATIONS
    data, model = random_images(samples), build_model(config.plan.task, config.seed)
    arrays = {
        "x": data.train_x.numpy(),
        "y": data.train_y.numpy(),
        "batches": batches,
        "cohorts": np.array(cohorts),
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    weights = {name: p.detach().numpy() for name, p in model.named_parameters()}
    np.savez(folder / "start.npz", **weights)
    (folder / "clients.txt").write_text(f"{clients}\n")


@dataclass
class Running:
    """A simulator that waits for its next round.

    Args:
        contender: what it is.
        folder: the work.

    Attributes:
        losses: of every round so far.
        seconds: of every round but the first, by the clock.
        processor: of the same rounds, of all its processes.
        start: seconds to the end of the first round.
    """

    contender: Contender
    folder: Path
    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    start: float = 0.0

    def __post_init__(self) -> None:
        own = self.contender
        self.log = self.folder / f"{own.name} {own.processes}.txt".replace("/", " ")
        place = {"PYTHONPATH": str(own.tree or ROOT)} if own.script == "run_fedsim.py" else {}
        began = time.perf_counter()
        words = [own.python, SCRIPTS / own.script, self.folder, own.processes, *own.more]
        with self.log.open("w") as log:
            self.child = subprocess.Popen(
                list(map(str, words)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
                env={**os.environ, "OMP_NUM_THREADS": "1", **place},
            )
        self.round(timed=False)
        self.start = time.perf_counter() - began

    def round(self, timed: bool = True) -> None:
        """One round; raises ``RuntimeError`` with the end of what it said where it died."""
        assert self.child.stdin is not None and self.child.stdout is not None
        spent, began = self._spent(), time.perf_counter()
        try:
            self.child.stdin.write("\n")
            answer = self.child.stdout.readline()
        except BrokenPipeError:
            answer = ""
        seconds = time.perf_counter() - began
        if not answer:
            raise RuntimeError(f"{self.contender.name}: {self.log.read_text()[-2000:]}")
        self.losses.append(json.loads(answer)["loss"])
        if timed:
            self.seconds.append(seconds)
            self.processor.append(self._spent() - spent)

    def close(self) -> None:
        """Ends it and every process that it has started."""
        end_family(self.child.pid)
        self.child.wait()

    def _spent(self) -> float:
        return sum(processor_seconds(pid) for pid in family_of(self.child.pid))


def processor_seconds(pid: int) -> float:
    """Of all threads of a process that lives; 0 of one that has ended."""
    try:
        spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return sum(map(int, spent)) / os.sysconf("SC_CLK_TCK")


def older(commit: str) -> Path | None:
    """A tree with the code of a commit, kept for its compiled kernels; None: git knows it not."""
    tree = FOLDER / commit
    if not tree.exists():
        packed = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True)
        if packed.returncode:
            return None
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(tree, filter="data")
    return tree


def measure(
    clients: int, size: int, rounds: int, listed: Sequence[Contender], samples: int = SAMPLES
) -> dict[str, Any]:
    """Rows of the table, the fastest last; ``rounds`` are timed, each after one that is not."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place, ExitStack() as ends:
        folder, running = Path(place), list[Running]()
        make_work(folder, clients, size, rounds + 2, samples)
        for contender in listed:
            running.append(Running(contender, folder))
            ends.callback(running[-1].close)
            print(
                f"  {contender.name}, {contender.processes}: first round after "
                f"{running[-1].start:.1f} s",
                flush=True,
            )
        order = list(running)
        for _ in range(rounds):
            for one in order:
                one.round()
            order = order[1:] + order[:1]
        gap = disagreement(running)
    rows = [
        {
            "name": one.contender.name,
            "processes": one.contender.processes,
            "rounds_per_second": 1 / median(one.seconds),
            "slowest": 1 / max(one.seconds),
            "fastest": 1 / min(one.seconds),
            "processor_seconds": median(one.processor),
            "start_seconds": one.start,
            "seconds": one.seconds,
            "loss": one.losses[-1],
        }
        for one in running
    ]
    return {
        "clients": clients,
        "cohort": size,
        "rounds": rounds,
        "loss_disagreement": gap,
        "rows": rows,
        "machine": machine(load),
    }


def disagreement(running: Sequence[Running]) -> float:
    """The largest difference between losses; raises ``RuntimeError`` where one trains otherwise.

    All are compared with the first, those of a lossy method after the first round among themselves.
    """
    gap, told = (
        0.0,
        {
            lossy: next(
                (one.losses for one in running if one.contender.lossy == lossy), running[0].losses
            )
            for lossy in (True, False)
        },
    )
    for one in running:
        own = told[one.contender.lossy]
        pairs = [(one.losses[0], running[0].losses[0]), *zip(one.losses, own, strict=True)]
        differs = max(abs(a - b) for a, b in pairs)
        if differs > TOLERANCE:
            raise RuntimeError(
                f"{one.contender.name} does not do the same work: its losses differ "
                f"by {differs:g}: {one.losses} and {own}"
            )
        gap = max(gap, differs)
    return gap


def ratio(result: dict[str, Any], above: tuple[str, int], below: tuple[str, int]) -> float | None:
    """How many times as fast the first is as the second: the median over turns; None: not there."""
    found = {(row["name"], row["processes"]): row["seconds"] for row in result["rows"]}
    if above not in found or below not in found:
        return None
    return median(b / a for a, b in zip(found[above], found[below], strict=True))


def beside_peers(result: dict[str, Any]) -> float | None:
    """fedsim with two workers beside the fastest peer, whichever that is; None without peers."""
    peers = [
        (row["name"], row["processes"])
        for row in result["rows"]
        if row["name"] in ENVIRONMENTS or row["name"].startswith("Flower")
    ]
    times = [ratio(result, (OURS, 2), peer) for peer in peers]
    return min((value for value in times if value is not None), default=None)


def markdown(results: Sequence[dict[str, Any]]) -> str:
    """A table per setting."""
    lines = [said(results[-1]["machine"], "one torch thread per worker")]
    lines += [f"{name} is left out: {e.missing}." for name, e in ENVIRONMENTS.items() if e.missing]
    for result in results:
        setting = f"{result['cohort']} of {result['clients']} clients, {result['rounds']} rounds"
        gap = f"{result['loss_disagreement']:.1e}"
        lines += [
            "",
            f"{setting} in turns; losses differ by at most {gap}.",
            "",
            "| simulator | processes | rounds per second | min | max | processor s per round "
            "| fedsim with two workers is faster | start and first round, s |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
        for row in result["rows"]:
            times = ratio(result, (OURS, 2), (row["name"], row["processes"]))
            lines.append(
                f"| {row['name']} | {row['processes']} | {row['rounds_per_second']:.2f} | "
                f"{row['slowest']:.2f} | {row['fastest']:.2f} | {row['processor_seconds']:.2f} | "
                f"{'' if times is None else f'{times:.2f}'} | {row['start_seconds']:.1f} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the tables; ``--json`` writes the result."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--settings", nargs="+", default=["4/4", "10/100"], help="COHORT/CLIENTS")
    parser.add_argument("--rounds", type=int, default=8, help="that are timed, of each setting")
    parser.add_argument("--only", nargs="+", help="simulators; default: all that are installed")
    parser.add_argument("--before", action="store_true", help=f"the code of {BEFORE}, too")
    parser.add_argument("--json", type=Path, help="a file for the result")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    results = []
    listed = contenders(older(BEFORE) if given.before else None)
    if given.only:
        listed = [one for one in listed if one.name in given.only]
    for setting in given.settings:
        size, clients = map(int, setting.split("/"))
        results.append(measure(clients, size, given.rounds, listed))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(markdown(results))


if __name__ == "__main__":
    main()
