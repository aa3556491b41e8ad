"""Whether clients of a run train together: tried in a process of its own, bit for bit.

A step that cannot be recorded is one that reads values on the host (``.item()``), whose shapes
depend on values, that draws from torch's global generator, or that changes an attribute. A record
that fails can leave the generators and the memory of its process unusable, and so another process
tries: two clients by themselves and together. Where these differ, or the process ends, clients
train one after the other.
"""

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import torch
from flwr.app import RecordDict

from compressors import State
from compressors.usercode import typed, user_code
from fedsim.federation.branches import WIDEST, Branches, Result
from fedsim.federation.client import serve
from fedsim.federation.clientdata import ClientData
from fedsim.federation.fingerprint import Contents, attributes, model_contents, of_function, same
from fedsim.federation.modelbuffers import server_buffers
from fedsim.federation.orders import Fixed
from fedsim.federation.recorder import StepRecorder
from fedsim.federation.server import make_strategy
from fedsim.federation.trainer import Trainer
from fedsim.settings.config import RunConfig
from fedsim.settings.sentconfig import SentConfig
from fedsim.tasks.models.dropout import reseed
from strategies import Asynchronous, TrainJob, TrainResult
from strategies.channel.payload import settings_in

NEAR = {"float32": 1e-3, "tf32": 1e-3, "bfloat16": 0.3}
"""Allowed difference on a device that does not repeat its own sums, as a share of the norm. Wrong
steps differ by more; in bfloat16 the gradients of a small CNN are off by 0.1 either way."""

_STEPS = 3
"""Local iterations of a trial: the first makes the optimizer's state, the second is recorded."""
_SECONDS = 600.0  # how long a trial may take: the data are loaded in it
_UNSEEN = ("seed", "method", "downlink", "gradient", "temporal", "iterations", "rounds")
"""Settings on which no local step depends."""

Messages = dict[int, RecordDict]


@lru_cache(maxsize=1024)
def width_of(config: RunConfig) -> int:
    """How many clients of a run a worker trains together; 1: one after the other.

    With one worker on a GPU a trial decides, once for all runs of a process whose steps are the
    same, and one line of the log has the reason where it fails.
    """
    machine = config.machine
    on_gpu = torch.device(machine.device).type == "cuda"
    if not on_gpu or machine.engine != "local" or machine.workers > 1:
        return 1
    width = min(WIDEST if machine.stack == "auto" else int(machine.stack), config.plan.cohort)
    if width == 1:
        return 1
    values = config.filled()
    steps = tuple((name, repr(x)) for name, x in values.items() if name not in _UNSEEN)
    if reason := trial_outcome(TrialRun(config, (machine.device, machine.source, steps))):
        logging.getLogger("fedsim").warning(
            "task %s: clients train one after the other: %s", config.plan.task.name, reason
        )
        return 1
    return width


@dataclass(frozen=True)
class TrialRun:
    """A run, and what of its settings a trial depends on: equal where that is."""

    config: RunConfig = field(compare=False)
    facts: Hashable


@lru_cache(maxsize=256)
def trial_outcome(trial_run: TrialRun) -> str:
    """What a process of its own says to clients that train together; empty: nothing against it."""
    code = "from fedsim.federation import trial; trial.answer_trial()"
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            input=pickle.dumps(SentConfig(trial_run.config)),
            capture_output=True,
            env=os.environ | {"PYTHONPATH": paths},
            timeout=_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"a trial took more than {_SECONDS:g} s"
    except Exception as error:  # a task that cannot be pickled raises what it likes
        return f"a trial could not begin: {typed(error):.200}"
    try:
        return str(json.loads(done.stdout))
    except ValueError:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        return ": ".join([f"a trial's process ended with {done.returncode}", *last])


def answer_trial() -> None:
    """The trial's process: reads a run, and writes ``trial_difference`` of it as JSON."""
    answer = os.dup(1)
    os.dup2(2, 1)  # what a task prints is no answer
    sent: SentConfig = pickle.load(sys.stdin.buffer)
    logging.getLogger("fedsim").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    try:
        reason = trial_difference(sent.config)
    except Exception as error:
        reason = " ".join(typed(error).split())[:300]
    os.write(answer, json.dumps(reason).encode())


def trial_difference(config: RunConfig, recorder: StepRecorder | None = None) -> str:
    """In what clients that train together differ from one after the other; empty: in nothing.

    ``recorder``: of the steps together; None: that of the run's device.
    """
    trainer = Trainer(config, ClientData.of(config))
    clients = _of_one_size(trainer)
    if len(clients) < 2:
        return ""
    jobs = _first_jobs(config, trainer, clients)
    first = _by_itself(trainer, jobs)
    before = held(trainer)
    again = _by_itself(trainer, jobs)
    after = held(trainer)
    if trainer.watch.drew:
        return "its steps draw from torch's global generator"
    for place, x in after.items():
        if not same(before.get(place), x, 0.0):
            return f"{place} changes in a step"
    branches = Branches(trainer.twin(), len(jobs), recorder)
    last = [
        job._replace(optimizer=one.optimizer, buffers=one.buffers, done=_last(config), iterations=1)
        for job, one in zip(jobs, first, strict=True)
    ]
    expected, results = list[TrainResult](), list[Result]()
    for part, outcomes in ((jobs, first), (last, _by_itself(trainer, last))):
        for _ in range(2):  # steps that are met first are repeated in the second
            expected += outcomes
            results += branches.train(part)
    if branches.reasons:
        return min(branches.reasons)
    exact = all(not _unequal(a, b, 0.0) for a, b in zip(first, again, strict=True))
    near = 0.0 if exact else NEAR[config.training.precision]
    for one, other in zip(expected, results, strict=True):
        if isinstance(other, Exception):
            return " ".join(typed(other).split())[:300]
        if name := _unequal(one, other, near):
            return f"{name} differs where clients train together"
    return ""


def _last(config: RunConfig) -> int:
    """The last local iteration of the first round, after those of the trial."""
    return max(_STEPS, config.plan.temporal - 1)


def _of_one_size(trainer: Trainer) -> list[int]:
    """Two clients whose batches are of one size; fewer if there are none among the first."""
    by_size: dict[int, list[int]] = {}
    for client in range(min(100, trainer.plan.clients)):
        of_size = by_size.setdefault(trainer.batches_of(client).size, [])
        of_size.append(client)
        if len(of_size) == 2:
            return of_size
    return []


def _first_jobs(config: RunConfig, trainer: Trainer, clients: Sequence[int]) -> list[TrainJob]:
    """What clients are to train after the server's first message, of fewer iterations."""
    jobs = []
    for client, content in first_messages(config, trainer, clients).items():
        serving = serve(content, settings_in(content), client, trainer, {})
        job = next(serving)
        serving.close()
        assert isinstance(job, TrainJob)  # a client's first request
        jobs.append(job._replace(iterations=_STEPS))
    return jobs


def first_messages(config: RunConfig, trainer: Trainer, clients: Sequence[int]) -> Messages:
    """The server's first message to each client."""
    plan = config.plan
    model = {n: p.detach().cpu().clone() for n, p in trainer.parameters.items()}
    strategy = make_strategy(config, server_buffers(config, trainer.buffers))
    strategy.open(plan.client.payload_template(model))
    settings = Fixed(config).begin(1, 0.0)
    if isinstance(strategy, Asynchronous):
        return {client: strategy.message(client, settings) for client in {*clients}}
    strategy.end.begin(1, sorted({*clients}))
    return {client: strategy.end.content(client, settings) for client in {*clients}}


def _by_itself(trainer: Trainer, jobs: Sequence[TrainJob]) -> list[TrainResult]:
    with user_code():
        results = [trainer.train(*job) for job in jobs]
    reseed(trainer.dropouts, 0)  # their seeds are no state of a task's
    return results


def held(trainer: Trainer) -> Contents:
    """What all clients of a worker share, except parameters and buffers."""
    task = trainer.task
    optimizer = {f"optimizer: attribute {n!r}": x for n, x in attributes(trainer.optimizer).items()}
    contents = model_contents(trainer.model) | optimizer | of_function("loss", task.loss)
    return contents | of_function("draw", trainer.federation.data.draw)


def _unequal(one: TrainResult, other: TrainResult, near: float) -> str:
    """The first part of a result that is another; empty where none is."""
    pairs: list[tuple[str, State, State]] = [
        ("the update of", one.update, other.update),
        ("the optimizer's", one.optimizer, other.optimizer),
        ("buffer", one.buffers, other.buffers),
    ]
    for words, before, after in pairs:
        if before.keys() != after.keys():
            return f"{words} {min(before.keys() ^ after.keys())!r}"
        for name, x in before.items():
            equal = torch.equal(x, after[name]) if near == 0 else same(x, after[name], near)
            if not equal:
                return f"{words} {name!r}"
    return "" if same(one.loss, other.loss, near) else "the loss"
