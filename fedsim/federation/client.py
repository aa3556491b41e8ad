"""A client's round, from message to reply: a generator that yields what is to be trained.

``drivers`` trains the jobs of one client, or of several at once.
"""

import time
from collections.abc import Callable, Generator
from dataclasses import replace

import torch
from flwr.app import Message, MetricRecord, RecordDict

from compressors import Packet, State
from compressors.whole.memory import inside, nest
from fedsim.federation import orders
from fedsim.federation.masking import mask_momentum
from fedsim.federation.memories import suspect
from fedsim.federation.trainer import Trainer
from fedsim.ground.errors import training
from fedsim.settings.config import RunConfig
from strategies import Change, ClientEnd, Delivery, Job, Trained
from strategies.channel.orders import WANTED, to_report
from strategies.channel.payload import METRICS, SAMPLES, SENT
from strategies.channel.shards import ShardedClientEnd

Serving = Generator[Job, Trained, tuple[RecordDict, State]]
"""Jobs out, what they gave in; at the end the reply's content and the client's memory."""

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
    rule, own = config.plan.client, inside(RULE, memory)
    ordered = orders.given(config, message.content)
    end = _end(config, trainer, ordered, memory)
    clock = time.perf_counter()
    came = end.decode(message.content, memory or None)
    decode_seconds = time.perf_counter() - clock
    work = ordered or orders.usual(config, came)
    done = int(memory.get("iterations", 0))
    force = rule.force(came, own)
    buffers = inside("buffers", memory) | came.buffers
    job = Job(
        client, trainer.filled(rule.begins(came, own)), inside("optimizer", memory), done, work.n,
        buffers, work.start, (force,) if force else (),
    )  # fmt: skip
    trained = yield job
    seconds = [trained.seconds]
    change = rule.update(came, own, job, trained)
    if isinstance(change, Generator):
        change = yield from _timed(change, seconds)
    update = change.update
    clock = time.perf_counter()
    if change.memory is not None:
        came = replace(came, settled=replace(came.settled, uplink=change.memory))
    with training(came.round, trained.loss, suspect(end.uplink)):
        packet, after = end.encode(client, update, came)
    masks = config.plan.masks
    optimizer = mask_momentum(trained.optimizer, packet.sent) if masks else trained.optimizer
    encode_seconds = time.perf_counter() - clock
    content = RecordDict()
    end.reply(content, packet, came, trained.buffers, _report(end, came, trained, after))
    samples = len(trainer.federation.shards[client])
    spent = decode_seconds, sum(seconds), encode_seconds
    content[METRICS] = _metrics(packet, list(end.like), samples, trained.loss, spent)
    end.tell(content)
    local = {name: x for name, x in trained.buffers.items() if name not in came.buffers}
    after |= nest("optimizer", optimizer) | nest("buffers", local)
    after |= nest(RULE, rule.after(came, own, job, trained, update, packet))
    if ordered:
        after[orders.FRACTION] = torch.tensor(work.p, dtype=torch.float64)
    return content, after | {"iterations": torch.tensor(done + work.n)}


def _timed(
    jobs: Generator[Job, Trained, Change], seconds: list[float]
) -> Generator[Job, Trained, Change]:
    """The same jobs; adds to ``seconds`` how long each took."""
    try:
        job = next(jobs)
        while True:
            trained = yield job
            seconds.append(trained.seconds)
            job = jobs.send(trained)
    except StopIteration as end:
        change: Change = end.value
        return change


def _end(
    config: RunConfig, trainer: Trainer, ordered: orders.Work | None, memory: State
) -> ClientEnd | ShardedClientEnd:
    """The channel's end of a client that ``trainer`` serves, for the work that is ``ordered``."""
    plan = config.plan
    like = plan.client.shares({n: p.detach() for n, p in trainer.parameters.items()})
    uplink, before = plan.method.compressor, None
    if plan.algorithm.clock == "shards":
        return ShardedClientEnd(uplink, plan.downlink, like, plan.clients, config.seed)
    if ordered is not None:
        uplink, before = orders.uplink_at(config, ordered.p), orders.uplink_before(config, memory)
    return ClientEnd(uplink, plan.downlink, like, trainer.buffers.initial, config.seed, before)


def _report(
    end: ClientEnd | ShardedClientEnd, came: Delivery, trained: Trained, memory: State
) -> bytes:
    """What the server wants to know beside the update; empty where that is nothing."""
    known: dict[str, Callable[[], float]] = {
        "train_loss": lambda: trained.loss,
        "update_norm": lambda: orders.norm(trained.update),
        "residual_norm": lambda: orders.norm(orders.kept(end.uplink, memory)),
    }
    wanted = str(came.settings.get(WANTED, ""))
    return to_report(known[name]() for name in wanted.split(",") if name)


def _metrics(
    packet: Packet, names: list[str], samples: int, loss: float, spent: tuple[float, float, float]
) -> MetricRecord:
    """What the server would like to know beside the payloads."""
    counts = [packet.sent[name].count for name in names]
    decode, train, encode = spent
    return MetricRecord(
        {
            SAMPLES: samples,
            "train-loss": loss,
            "sent": sum(counts),
            SENT: counts,
            "decode-seconds": decode,
            "train-seconds": train,
            "encode-seconds": encode,
        }
    )
