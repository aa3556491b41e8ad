"""A client's round, from message to reply: a generator that yields what is to be done.

``drivers`` trains the jobs and makes the messages of one client, or of several at once.
"""

import time
from collections.abc import Generator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from flwr.app import Message, RecordDict

from compressors import State, derive
from compressors.message import Upload
from compressors.whole.masking import masked
from compressors.whole.memory import nest, unnest
from fedsim.engines.compat import metrics_of
from fedsim.federation import orders
from fedsim.federation.client_memory import pack_memory, unpack_memory
from fedsim.federation.device import enough
from fedsim.federation.masking import Masking
from fedsim.federation.memories import suspect
from fedsim.federation.orders import ORDERED_FRACTION
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import training
from fedsim.settings.config import RunConfig
from fedsim.settings.fields import EXACT
from strategies import ClientEnd, TrainJob
from strategies.channel.buffers import answered
from strategies.channel.client_end import Line
from strategies.channel.parts import PartsEnd
from strategies.channel.payload import METRICS, SAMPLES, SENT, settings_in

Outcome = TypeVar("Outcome")

Request = TrainJob | Upload | Masking
"""What a client asks of its driver: it gives ``TrainResult``, ``Encoded`` and ``Masked``."""

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
    memory = unpack_memory(memory, config.machine.memory_as)
    plan, state = trainer.plan, unnest(RULE, memory)
    work = orders.work_of(config, plan, settings_in(message.content))
    half, count = plan.client, plan.algorithm.parts(plan.clients)
    uplink = orders.uplink_at(config, work.p) if work.ordered else plan.method.compressor
    before = (
        orders.uplink_at(config, float(memory[ORDERED_FRACTION]))
        if ORDERED_FRACTION in memory
        else None
    )
    template = half.payload_template(trainer.template)
    initial = trainer.buffers.initial
    end = ClientEnd(uplink, plan.downlink, template, initial, config.seed, before, trainer.means)
    line: Line = PartsEnd(end, count) if count else end
    clock = time.perf_counter()
    samples = len(trainer.federation.shards[client])
    with enough(trainer.device):
        delivery = replace(line.decode(message.content, memory or None), samples=samples)
    seconds = dict.fromkeys(("decode-seconds", "train-seconds", "encode-seconds"), 0.0)
    seconds["decode-seconds"] = time.perf_counter() - clock
    done = int(memory.get("iterations", 0))
    hook = half.gradient_hook(delivery, state)
    job = TrainJob(
        client,
        trainer.filled(half.initial_weights(delivery, state)),
        unnest("optimizer", memory),
        done,
        work.n,
        unnest("buffers", memory) | delivery.buffers,
        work.start,
        (hook,) if hook else (),
    )
    job, result = yield from half.train(delivery, state, job)
    client_update = half.make_update(delivery, state, job, result)
    if isinstance(client_update, Generator):
        client_update = yield from _timed(client_update, seconds, "train-seconds")
    if client_update.compressor_state is not None:
        acknowledged = replace(delivery.ack, uplink=client_update.compressor_state)
        delivery = replace(delivery, ack=acknowledged)
    with training(delivery.round, result.loss, partial(suspect, uplink)), enough(trainer.device):
        encoding = line.encode(client, client_update.update, delivery)
        packet, after = yield from _timed(encoding, seconds, "encode-seconds")
    optimizer = result.optimizer
    if plan.masks:
        by_method = config.training.momentum_masking == "auto"
        sent = masked(uplink, packet.sent) if by_method else packet.sent
        forgot = yield Masking(optimizer, sent)
        optimizer = forgot.optimizer
        seconds["encode-seconds"] += forgot.seconds
    seconds["train-seconds"] += result.seconds
    counted = packet.counts
    counts = [counted[name] for name in line.template]
    content = RecordDict()
    content[METRICS] = metrics_of(
        {
            SAMPLES: samples,
            "train-loss": result.loss,
            "sent": sum(counts),
            SENT: counts,
            **seconds,
        }
    )
    side_payloads = answered(delivery.settings, result.buffers, initial)
    side_payloads |= orders.client_report(delivery.settings, result, uplink, after)
    line.reply(content, packet, delivery, side_payloads)
    local = {name: x for name, x in result.buffers.items() if name not in delivery.buffers}
    after |= nest("optimizer", {} if config.training.stateless else optimizer)
    after |= nest("buffers", local)
    if work.ordered:
        after[ORDERED_FRACTION] = torch.tensor(work.p, dtype=torch.float64)
    after |= nest(RULE, half.next_state(delivery, state, job, result, client_update.update, packet))
    after |= {"iterations": torch.tensor(done + work.n)}
    if config.machine.memory_as == EXACT:
        return content, after
    seed = derive(config.seed, "memory", client, done)
    return content, pack_memory(after, config.machine.memory_as, seed)


def _timed(
    requests: Generator[Request, Any, Outcome], seconds: dict[str, float], name: str
) -> Generator[Request, Any, Outcome]:
    """The same requests; adds how long each took to the ``seconds`` of that ``name``."""
    try:
        request = next(requests)
        while True:
            response = yield request
            seconds[name] += response.seconds
            request = requests.send(response)
    except StopIteration as end:
        outcome: Outcome = end.value
        return outcome
