"""A client's round, from message to reply: a generator that yields what is to be done.

``drivers`` trains the jobs and makes the messages of one client, or of several at once.
"""

import time
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from flwr.app import Message, MetricRecord, RecordDict

from compressors import State, derive
from compressors.message import Upload
from compressors.whole.masking import masked
from compressors.whole.memory import nest, unnest
from fedsim.federation import orders
from fedsim.federation.kept_as import kept, restored
from fedsim.federation.masking import Masking
from fedsim.federation.memories import suspect
from fedsim.federation.orders import FRACTION
from fedsim.federation.room import enough
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import training
from fedsim.settings.config import RunConfig
from strategies import ClientEnd, Job
from strategies.channel.buffers import answered
from strategies.channel.client_end import Line
from strategies.channel.parts import PartsEnd
from strategies.channel.payload import METRICS, SAMPLES, SENT

T = TypeVar("T")

Request = Job | Upload | Masking
"""What a client asks of its driver: it gives ``Trained``, ``Encoded`` and ``Masked``."""

Serving = Generator[Request, Any, tuple[RecordDict, State]]
"""Wishes out, what they gave in; at the end the reply's content and the client's memory."""

RULE = "rule"
"""In a client's memory: what the algorithm's client half remembers."""


def serve(
    message: Message, client: int, config: RunConfig, trainer: Trainer, memory: State
) -> Serving:
    """One message of one client: decode, train, encode, remember.

    Args:
        message: from the server.
        client: its number.
        config: the run's.
        trainer: of the worker that trains the jobs.
        memory: the client's before, empty before its first message.

    Raises ``NoBase`` where the client must ask for the whole model.
    """
    memory = restored(memory, config.machine.memory_as)
    plan, own = trainer.plan, unnest(RULE, memory)
    work = orders.work_of(config, plan, message.content)
    rule, count = plan.client, plan.algorithm.parts(plan.clients)
    uplink = orders.uplink_at(config, work.p) if work.ordered else plan.method.compressor
    before = orders.uplink_at(config, float(memory[FRACTION])) if FRACTION in memory else None
    like = rule.shares(trainer.like)
    initial = trainer.buffers.initial
    end = ClientEnd(uplink, plan.downlink, like, initial, config.seed, before, trainer.means)
    line: Line = PartsEnd(end, count) if count else end
    clock = time.perf_counter()
    with enough(trainer.device):
        came = line.decode(message.content, memory or None)
    seconds = dict.fromkeys(("decode-seconds", "train-seconds", "encode-seconds"), 0.0)
    seconds["decode-seconds"] = time.perf_counter() - clock
    done = int(memory.get("iterations", 0))
    force = rule.force(came, own)
    job = Job(
        client, trainer.filled(rule.begins(came, own)), unnest("optimizer", memory), done, work.n,
        unnest("buffers", memory) | came.buffers, work.start, (force,) if force else (),
    )  # fmt: skip
    trained = yield job
    change = rule.update(came, own, job, trained)
    if isinstance(change, Generator):
        change = yield from _timed(change, seconds, "train-seconds")
    if change.memory is not None:
        came = replace(came, settled=replace(came.settled, uplink=change.memory))
    with training(came.round, trained.loss, partial(suspect, uplink)), enough(trainer.device):
        encoding = line.encode(client, change.update, came)
        packet, after = yield from _timed(encoding, seconds, "encode-seconds")
    optimizer = trained.optimizer
    if plan.masks:
        by_method = config.training.momentum_masking == "auto"
        sent = masked(uplink, packet.sent) if by_method else packet.sent
        forgot = yield Masking(optimizer, sent)
        optimizer = forgot.optimizer
        seconds["encode-seconds"] += forgot.seconds
    seconds["train-seconds"] += trained.seconds
    counted = packet.counts
    counts = [counted[name] for name in line.like]
    content = RecordDict()
    content[METRICS] = MetricRecord({
        SAMPLES: len(trainer.federation.shards[client]), "train-loss": trained.loss,
        "sent": sum(counts), SENT: counts, **seconds,
    })  # fmt: skip
    beside = answered(came.settings, trained.buffers, initial)
    if work.ordered:
        beside |= orders.report(came.settings, trained, uplink, after)
    line.reply(content, packet, came, beside)
    local = {name: x for name, x in trained.buffers.items() if name not in came.buffers}
    after |= nest("optimizer", {} if config.training.stateless else optimizer)
    after |= nest("buffers", local)
    if work.ordered:
        after[FRACTION] = torch.tensor(work.p, dtype=torch.float64)
    after |= nest(RULE, rule.after(came, own, job, trained, change.update, packet))
    after |= {"iterations": torch.tensor(done + work.n)}
    seed = derive(config.seed, "memory", client, done)
    return content, kept(after, config.machine.memory_as, seed)


def _timed(
    requests: Generator[Request, Any, T], seconds: dict[str, float], name: str
) -> Generator[Request, Any, T]:
    """The same requests; adds how long each took to the ``seconds`` of that ``name``."""
    try:
        request = next(requests)
        while True:
            given = yield request
            seconds[name] += given.seconds
            request = requests.send(given)
    except StopIteration as end:
        found: T = end.value
        return found
