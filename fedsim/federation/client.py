"""The ClientApp: one message from model to reply, and the client's memory."""

import time
from collections.abc import Callable
from itertools import pairwise

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from compressors import Packet, State
from compressors.whole.lift import inside, nest
from fedsim.errors import training
from fedsim.federation import control, orders
from fedsim.federation.client_memory import ClientStates
from fedsim.federation.memories import suspect
from fedsim.federation.trainer import Trained, Trainer, mask_momentum, trainer_of
from fedsim.settings.config import RunConfig
from strategies.channel.client_end import ClientEnd, Delivery, NoBase, ask_for_model
from strategies.channel.nodes import PARTITION_ID, answer_partition
from strategies.channel.orders import ORDER, WANTED, to_report
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
        told = message.content.config_records[KEY][CLIENT]  # for a node without a partition
        client = int(str(context.node_config.get(PARTITION_ID, told)))
        try:
            content, state = serve(message, client, config_of(context), states.load(context))
        except NoBase:
            return Message(ask_for_model(), reply_to=message)
        reply = Message(content, reply_to=message)
        states.commit(context, state)  # last: a client that failed above keeps what it had
        return reply

    return app


def serve(
    message: Message, client: int, config: RunConfig, state: State
) -> tuple[RecordDict, State]:
    """One message of one client, from model to reply: decode, train, encode, remember.

    Returns the reply's content and the client's memory from now on; ``state`` is its memory before,
    empty before its first message.
    """
    trainer, plan = trainer_of(config), config.plan
    ordered = message.content.config_records[KEY].get(ORDER)
    work = orders.from_payload(config, ordered) if isinstance(ordered, bytes) else None
    end = _end(config, trainer, work, state)
    clock = [time.perf_counter()]
    delivery = end.decode(message.content, state or None)
    clock.append(time.perf_counter())
    done = int(state["iterations"]) if "iterations" in state else 0
    count = work.n if work else int(str(delivery.settings["iterations"]))
    buffers = inside("buffers", state) | delivery.buffers
    start = work.start if work else plan.iterations_after(delivery.round - 1)
    held = inside("optimizer", state)
    corrected = control.correction(config, delivery.weights, state)
    trained = trainer.train(client, delivery.weights, held, done, count, buffers, start, corrected)
    sent = delivery.weights
    update, variates = control.renewed(trainer, trained.update, sent, state, start, count)
    clock.append(time.perf_counter())
    with training(delivery.round, trained.loss, suspect(end.uplink)):
        packet, memory = end.encode(client, update, delivery)
    optimizer = mask_momentum(trained.optimizer, packet.sent) if plan.masks else trained.optimizer
    clock.append(time.perf_counter())
    content = RecordDict()
    report = _report(end, delivery, trained, memory)
    end.reply(content, packet, delivery, trained.buffers, report)
    samples = len(trainer.federation.shards[client])
    content[METRICS] = _metrics(packet, list(end.like), samples, trained.loss, clock)
    own = {name: x for name, x in trained.buffers.items() if name not in delivery.buffers}
    memory |= nest("optimizer", optimizer) | nest("buffers", own) | variates
    if work:
        memory[orders.FRACTION] = torch.tensor(work.p, dtype=torch.float64)
    return content, memory | {"iterations": torch.tensor(done + count)}


def _end(config: RunConfig, trainer: Trainer, work: orders.Work | None, state: State) -> ClientEnd:
    """The channel's end of a client that ``trainer`` serves, for the ``work`` that is ordered."""
    like = control.shared(config, {n: p.detach() for n, p in trainer.parameters.items()})
    downlink, buffers = config.plan.downlink, trainer.buffers.initial
    if work is None:
        return ClientEnd(config.plan.method.compressor, downlink, like, buffers, config.seed)
    uplink, before = orders.uplink_at(config, work.p), orders.uplink_before(config, state)
    return ClientEnd(uplink, downlink, like, buffers, config.seed, before)


def _report(end: ClientEnd, delivery: Delivery, trained: Trained, memory: State) -> bytes:
    """What the server wants to know beside the update; empty where that is nothing."""
    wanted = str(delivery.settings.get(WANTED, ""))
    known = {
        "train_loss": lambda: trained.loss,
        "update_norm": lambda: orders.norm(trained.update),
        "residual_norm": lambda: orders.norm(orders.kept(end.uplink, memory)),
    }
    return to_report(known[name]() for name in wanted.split(",") if name)


def _metrics(
    packet: Packet, names: list[str], samples: int, loss: float, clock: list[float]
) -> MetricRecord:
    """What the server would like to know beside the payloads."""
    counts = [packet.sent[name].count for name in names]
    decode, train, encode = (after - before for before, after in pairwise(clock))
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
