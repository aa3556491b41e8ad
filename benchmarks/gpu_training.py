"""What training on a GPU gains: stacks, and what compression costs of a round.

A part of ``benchmarks/gpu.py``, which prints it: ``make gpu``. Random images of the task's shape,
batch 32; every way is compared with the plain one before it is timed.
"""

import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Any

import stack
from stack import Model
from targets import Target

from compressors import State, Tensors, decompress, parse
from compressors.message import Upload, compress_all
from fedsim.tasks.models.cifar import resnet
from strategies import TrainJob, TrainResult

LENET5 = stack.MODELS[-1]
RESNET20 = Model("ResNet-20", partial(resnet, 20), 32, 3)
METHOD = "sbc(0.01)"
ITERATIONS = 10  # of a round, where compression is a part of one


def stacked(model: Model, clients: int, device: str, repeats: int, least: float) -> Target:
    """How many times faster ``clients`` train at once than one after the other."""
    gain, _ = stack.ratio(model, clients, device, repeats, ITERATIONS)
    what = f"{model.name}, {clients} clients stacked, {ITERATIONS} iterations, against one by one"
    return Target(what, gain, least, least=True)


def share(model: Model, clients: int, device: str, repeats: int, most: float) -> Target:
    """The part of a round that compression takes: the clients' messages, and the server's.

    Clients train at once, and their messages are made at once, each with its residual; a message
    of the server as large as theirs is decoded once.
    """
    trainer, whole, jobs = stack.made(model, clients, device)
    jobs = [TrainJob(**{**job._asdict(), "iterations": ITERATIONS}) for job in jobs]
    method, template = parse(METHOD), {n: p.detach() for n, p in trainer.parameters.items()}
    updates = [answer.update for answer in whole.train(jobs) if isinstance(answer, TrainResult)]
    memories: list[State | None] = [None] * len(updates)
    _messages(method, updates, memories, template)  # compiles
    shares = []
    for _ in range(repeats):
        training = stack.timed(lambda: whole.train(jobs), device)
        coding = stack.timed(lambda: _messages(method, updates, memories, template), device)
        shares.append(100 * coding / (training + coding))
    what = f"compression's part of a round: {model.name}, {clients} clients, {METHOD}, "
    return Target(f"{what}{ITERATIONS} iterations", median(shares), most, "%")


def _messages(
    method: Any, updates: Sequence[Tensors], memories: list[State | None], template: Tensors
) -> None:
    states = enumerate(zip(updates, memories, strict=True))
    made = compress_all([Upload(method, update, state, i) for i, (update, state) in states])
    packets = [one for one in made if not isinstance(one, Exception)]
    memories[:] = [state for _, state in packets]
    decompress(method, packets[0][0].payload, template)


def report(device: str, repeats: int) -> tuple[str, list[Target]]:
    """How long it took, and the targets of training."""
    start = time.perf_counter()
    goals = [
        stacked(LENET5, 64, device, repeats, 10.0),
        share(LENET5, 64, device, repeats, 20.0),
        stacked(RESNET20, 32, device, repeats, 1.0),
        share(RESNET20, 32, device, repeats, 10.0),
    ]
    spent = time.perf_counter() - start
    return f"Training was measured in {spent:.0f} s.", goals
