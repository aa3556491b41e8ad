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
from compressors.whole.lift import inside, nest
from fedsim.errors import training
from fedsim.federation.client_memory import ClientStates
from fedsim.federation.memories import suspect
from fedsim.federation.trainer import Job, Trained, Trainer, mask_momentum, trainer_of
from fedsim.settings.config import RunConfig
from strategies.channel.client_end import ClientEnd, Delivery, NoBase, ask_for_model
from strategies.channel.nodes import PARTITION_ID, answer_partition
from strategies.channel.payload import CLIENT, KEY, METRICS, SAMPLES, SENT

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
    """A message that was decoded, and what is to be trained: between ``begin`` and ``finish``."""

    end: ClientEnd
    delivery: Delivery
    job: Job
    decode_seconds: float


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
    end = _end(config, trainer)
    clock = time.perf_counter()
    delivery = end.decode(message.content, state or None)
    seconds = time.perf_counter() - clock
    job = Job(
        client,
        delivery.weights,
        optimizer=inside("optimizer", state),
        done=int(state["iterations"]) if "iterations" in state else 0,
        iterations=int(str(delivery.settings["iterations"])),
        buffers=inside("buffers", state) | delivery.buffers,
        start=config.plan.iterations_after(delivery.round - 1),
    )
    return Visit(end, delivery, job, seconds)


def finish(
    visit: Visit, config: RunConfig, trainer: Trainer, trained: Trained, train_seconds: float
) -> tuple[RecordDict, State]:
    """Encodes what was ``trained``: the reply's content and the client's memory from now on.

    ``train_seconds``: how long it took; of clients that trained at once, each one's part.
    """
    end, delivery, job = visit.end, visit.delivery, visit.job
    clock = time.perf_counter()
    with training(delivery.round, trained.loss, suspect(end.uplink)):
        packet, memory = end.encode(job.client, trained.update, delivery)
    masks = config.plan.masks
    optimizer = mask_momentum(trained.optimizer, packet.sent) if masks else trained.optimizer
    encode_seconds = time.perf_counter() - clock
    content = RecordDict()
    end.reply(content, packet, delivery, trained.buffers)
    samples = len(trainer.federation.shards[job.client])
    seconds = (visit.decode_seconds, train_seconds, encode_seconds)
    content[METRICS] = _metrics(packet, list(end.like), samples, trained.loss, seconds)
    own = {name: x for name, x in trained.buffers.items() if name not in delivery.buffers}
    memory |= nest("optimizer", optimizer) | nest("buffers", own)
    return content, memory | {"iterations": torch.tensor(job.done + job.iterations)}


def _end(config: RunConfig, trainer: Trainer) -> ClientEnd:
    """The channel's end of a client that ``trainer`` serves."""
    like = {name: p.detach() for name, p in trainer.parameters.items()}
    uplink, downlink = config.plan.method.compressor, config.plan.downlink
    return ClientEnd(uplink, downlink, like, trainer.buffers.initial, config.seed)


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
