"""What training on a GPU gains: stacks, captured steps, and what compression costs of a round.

A part of ``benchmarks/gpu.py``, which prints it: ``make gpu``. Random images of the task's shape,
batch 32; every way is compared with the plain one before it is timed.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import stack
import torch
from stack import Model

from compressors import State, Tensors, compress, decompress, parse
from fedsim.federation.trainer import Trainer
from fedsim.tasks.models.cifar import resnet
from strategies import Job, Trained

LENET5 = stack.MODELS[-1]
RESNET20 = Model("ResNet-20", partial(resnet, 20), 32, 3)
METHOD = "sbc(0.01)"
ITERATIONS = 10  # of a round, where compression is a part of one


@dataclass(frozen=True)
class Target:
    """A number that was asked for, and what was found.

    Args:
        what: of what it is.
        value: what was measured.
        bound: what was asked for.
        unit: of both.
        least: whether the bound is the least that is good enough; else it is the most.
    """

    what: str
    value: float
    bound: float
    unit: str = "times"
    least: bool = False

    def line(self) -> str:
        """Its row in the table."""
        met = self.value >= self.bound if self.least else self.value <= self.bound
        asked = f"{'at least' if self.least else 'at most'} {self.bound:g} {self.unit}"
        text = f"{self.value:.3g} {self.unit}"
        return f"| {self.what} | {asked} | {text} | {'yes' if met else 'no'} |"


def targets(measured: Sequence[Target]) -> list[str]:
    """The table of what was asked for."""
    head = ["| target | asked | found | met |", "| --- | --- | --- | --- |"]
    return [*head, *(target.line() for target in measured)]


def resnet50() -> dict[str, tuple[int, ...]]:
    """Names and shapes of the 161 parameters of torchvision's ResNet-50."""
    from torchvision.models import resnet50 as made

    with torch.device("meta"):
        return {name: tuple(x.shape) for name, x in made().named_parameters()}


def stacked(model: Model, clients: int, device: str, repeats: int, least: float) -> Target:
    """How many times faster ``clients`` train at once than one after the other."""
    gain, _ = stack.ratio(model, clients, device, repeats)
    return Target(f"{model.name}, {clients} clients stacked, against one by one", gain, least,
                  least=True)  # fmt: skip


def captured(model: Model, device: str, repeats: int, ways: Sequence[str]) -> list[str]:
    """Lines: milliseconds per iteration of a captured step, and how many times faster it is."""
    plain, _, jobs = stack.made(model, 2, device)
    expected = plain.train(*jobs[0])
    lines = ["| model | `--compile-step` | ms per iteration | times faster |",
             "| --- | --- | ---: | ---: |"]  # fmt: skip
    for way in ways:
        other = Trainer(replace(plain.config, stack="1", compile_step=way), plain.federation)
        stack.agree([expected], [other.train(*jobs[0])])
        ours, theirs = in_turns(
            lambda trainer=other: trainer.train(*jobs[0]), lambda: plain.train(*jobs[0]),
            device, repeats,
        )  # fmt: skip
        each = 1e3 * ours / stack.STEPS
        lines.append(f"| {model.name} | `{way}` | {each:.3f} | {theirs / ours:.1f} |")
    return lines


def in_turns(
    ours: Callable[[], Any], theirs: Callable[[], Any], device: str, repeats: int
) -> tuple[float, float]:
    """Median seconds of both, which take turns."""
    both = [(stack.timed(ours, device), stack.timed(theirs, device)) for _ in range(repeats)]
    return median(a for a, _ in both), median(b for _, b in both)


def share(model: Model, clients: int, device: str, repeats: int, most: float) -> Target:
    """The part of a round that compression takes: each client's message, and the mean's.

    Clients train at once; each compresses its update with its residual, and decodes one message of
    the server as large as its own.
    """
    trainer, whole, jobs = stack.made(model, clients, device)
    jobs = [Job(**{**job._asdict(), "iterations": ITERATIONS}) for job in jobs]
    method, like = parse(METHOD), {n: p.detach() for n, p in trainer.parameters.items()}
    updates = [answer.update for answer in whole.train(jobs) if isinstance(answer, Trained)]
    memories: list[State | None] = [None] * len(updates)
    _messages(method, updates, memories, like)  # compiles
    shares = []
    for _ in range(repeats):
        training = stack.timed(lambda: whole.train(jobs), device)
        coding = stack.timed(lambda: _messages(method, updates, memories, like), device)
        shares.append(100 * coding / (training + coding))
    what = f"compression's part of a round: {model.name}, {clients} clients, {METHOD}, "
    return Target(f"{what}{ITERATIONS} iterations", median(shares), most, "%")


def _messages(
    method: Any, updates: Sequence[Tensors], memories: list[State | None], like: Tensors
) -> None:
    for i, update in enumerate(updates):
        packet, memories[i] = compress(method, update, memories[i], i)
        decompress(method, packet.payload, like)


def report(device: str, repeats: int, ways: Sequence[str]) -> tuple[list[str], list[Target]]:
    """The lines of captured steps, and the targets of training."""
    start = time.perf_counter()
    goals = [
        stacked(LENET5, 64, device, repeats, 10.0),
        stacked(RESNET20, 32, device, repeats, 1.0),
        share(RESNET20, 32, device, repeats, 5.0),
    ]
    lines = captured(LENET5, device, repeats, ways)
    spent = time.perf_counter() - start
    return [*lines, "", f"Training was measured in {spent:.0f} s."], goals
