"""The ClientApp: one message from model to reply, and the client's memory.

A message is served in three parts, so that several clients can train at once (``sidebyside``).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from compressors import Packet, State
from compressors.whole.memory import inside, nest
from fedsim.errors import training
from fedsim.federation import control, orders
from fedsim.federation.client_memory import ClientStates
from fedsim.federation.masking import mask_momentum
from fedsim.federation.memories import suspect
from fedsim.federation.trainer import Job, Trained, Trainer, trainer_of
from fedsim.federation.twice import kept, with_gradient_before
from fedsim.settings.config import RunConfig
from fedsim.settings.strategies import STRATEGIES
from strategies.channel.client_end import ClientEnd, Delivery, NoBase, ask_for_model
from strategies.channel.nodes import PARTITION_ID, answer_partition
from strategies.channel.orders import ORDER, WANTED, to_report
from strategies.channel.payload import CLIENT, KEY, METRICS, SAMPLES, SENT
from strategies.channel.shards import ShardedClientEnd

START = "start"
"""In a message of an asynchronous server: the run's iterations so far, by which the rate goes."""

ConfigOf = Callable[[Context], RunConfig]


def make_client_app(config_of: ConfigOf, states: ClientStates) -> ClientApp:
    """A ClientApp for every engine.

    Args:
        config_of: the run's config, from the context where Flower brings it.
        states: where the clients' memory lives.
    """
    app = ClientApp()
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        client = client_of(message, context)
        try:
            content, state = serve(message, client, config_of(context), states.load(context))
        except NoBase:
            return Message(ask_for_model(), reply_to=message)
        reply = Message(content, reply_to=message)
        states.commit(context, state)  # last: a client that failed above keeps what it had
        return reply

    return app


def client_of(message: Message, context: Context) -> int:
    """The client that a message is for: its node's partition, else as the message says."""
    told = message.content.config_records[KEY][CLIENT]  # for a node without a partition
    return int(str(context.node_config.get(PARTITION_ID, told)))


@dataclass(frozen=True)
class Visit:
    """A message that was decoded, and what is to be trained: between ``begin`` and ``finish``.

    ``before``: the client's memory.
    """

    end: ClientEnd | ShardedClientEnd
    delivery: Delivery
    job: Job
    decode_seconds: float
    before: State
    work: orders.Work | None


def serve(
    message: Message, client: int, config: RunConfig, state: State
) -> tuple[RecordDict, State]:
    """One message of one client, from model to reply: decode, train, encode, remember.

    Returns the reply's content and the client's memory from now on; ``state`` is its memory before,
    empty before its first message.
    """
    trainer = trainer_of(config)
    visit = begin(message, client, config, trainer, state)
    start = time.perf_counter()
    trained = trainer.train(*visit.job)
    return finish(visit, config, trainer, trained, time.perf_counter() - start)


def begin(
    message: Message, client: int, config: RunConfig, trainer: Trainer, state: State
) -> Visit:
    """Decodes a message: what the client is to train. For the arguments see ``serve``."""
    ordered = message.content.config_records[KEY].get(ORDER)
    work = orders.from_payload(config, ordered) if isinstance(ordered, bytes) else None
    end = _end(config, trainer, work, state)
    clock = time.perf_counter()
    delivery = end.decode(message.content, state or None)
    seconds = time.perf_counter() - clock
    job = Job(
        client,
        delivery.weights,
        optimizer=inside("optimizer", state),
        done=int(state["iterations"]) if "iterations" in state else 0,
        iterations=work.n if work else int(str(delivery.settings["iterations"])),
        buffers=inside("buffers", state) | delivery.buffers,
        start=work.start if work else _start(config, delivery),
        correction=control.correction(config, delivery, state),
    )
    return Visit(end, delivery, job, seconds, state, work)


def _start(config: RunConfig, delivery: Delivery) -> int:
    """The run's iterations before those of a message: it says so, or its round does."""
    told = delivery.settings.get(START)
    return config.plan.iterations_after(delivery.round - 1) if told is None else int(str(told))


def finish(
    visit: Visit, config: RunConfig, trainer: Trainer, trained: Trained, train_seconds: float
) -> tuple[RecordDict, State]:
    """Encodes what was ``trained``: the reply's content and the client's memory from now on.

    ``train_seconds``: how long it took; of clients that trained at once, each one's part.
    """
    end, delivery, job = visit.end, visit.delivery, visit.job
    clock = time.perf_counter()
    update = control.with_change(trainer, trained.update, job)
    delivery = with_gradient_before(config, trainer, delivery, job, visit.before)
    with training(delivery.round, trained.loss, suspect(end.uplink)):
        packet, memory = end.encode(job.client, update, delivery)
    masks = config.plan.masks
    optimizer = mask_momentum(trained.optimizer, packet.sent) if masks else trained.optimizer
    encode_seconds = time.perf_counter() - clock
    content = RecordDict()
    report = _report(end, delivery, trained, memory)
    end.reply(content, packet, delivery, trained.buffers, report)
    samples = len(trainer.federation.shards[job.client])
    seconds = (visit.decode_seconds, train_seconds, encode_seconds)
    content[METRICS] = _metrics(packet, list(end.like), samples, trained.loss, seconds)
    end.tell(content)
    own = {name: x for name, x in trained.buffers.items() if name not in delivery.buffers}
    memory |= nest("optimizer", optimizer) | nest("buffers", own)
    memory |= control.moved(end, delivery, update, packet, visit.before)
    memory |= kept(config, delivery)
    if visit.work:
        memory[orders.FRACTION] = torch.tensor(visit.work.p, dtype=torch.float64)
    return content, memory | {"iterations": torch.tensor(job.done + job.iterations)}


def _end(
    config: RunConfig, trainer: Trainer, work: orders.Work | None, state: State
) -> ClientEnd | ShardedClientEnd:
    """The channel's end of a client that ``trainer`` serves, for the ``work`` that is ordered."""
    like = control.shared(config, {n: p.detach() for n, p in trainer.parameters.items()})
    downlink, buffers = config.plan.downlink, trainer.buffers.initial
    if work is None:
        uplink = config.plan.method.compressor
        if STRATEGIES[config.strategy].driven == "shards":
            return ShardedClientEnd(uplink, downlink, like, config.plan.clients, config.seed)
        return ClientEnd(uplink, downlink, like, buffers, config.seed)
    uplink, before = orders.uplink_at(config, work.p), orders.uplink_before(config, state)
    return ClientEnd(uplink, downlink, like, buffers, config.seed, before)


def _report(
    end: ClientEnd | ShardedClientEnd, delivery: Delivery, trained: Trained, memory: State
) -> bytes:
    """What the server wants to know beside the update; empty where that is nothing."""
    wanted = str(delivery.settings.get(WANTED, ""))
    known = {
        "train_loss": lambda: trained.loss,
        "update_norm": lambda: orders.norm(trained.update),
        "residual_norm": lambda: orders.norm(orders.kept(end.uplink, memory)),
    }
    return to_report(known[name]() for name in wanted.split(",") if name)


def _metrics(
    packet: Packet, names: list[str], samples: int, loss: float, seconds: tuple[float, ...]
) -> MetricRecord:
    """What the server would like to know beside the payloads."""
    counts = [packet.sent[name].count for name in names]
    decode, train, encode = seconds
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
