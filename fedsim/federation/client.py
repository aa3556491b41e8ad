"""A client's round, from message to reply, and the app that answers messages.

``serve`` is a generator that yields what is to be done. ``serve_one`` does it for one client;
``drivers`` does it for several at once.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from compressors import Sent, State, Tensors, UpdateError, compress, derive
from compressors.device import GPU_DEVICES
from compressors.message import Upload
from compressors.usercode import user_code
from compressors.whole.masking import masked
from compressors.whole.memory import nest, unnest
from fedsim.engines.compat import metrics_of
from fedsim.engines.remote import ClientStates
from fedsim.federation import orders
from fedsim.federation.client_memory import pack_memory, unpack_memory
from fedsim.federation.device import enough
from fedsim.federation.failures import suspect
from fedsim.federation.orders import ORDERED_FRACTION
from fedsim.federation.trainer import Trainer, trainer_of
from fedsim.ground.errors import with_cause
from fedsim.settings.config import RunConfig
from fedsim.settings.groups import EXACT
from strategies import ClientUpdate, TrainJob, TrainResult
from strategies.algorithms.base import check_initial, check_tensors, checked_half
from strategies.channel.acknowledge import stored_number
from strategies.channel.buffers import answered
from strategies.channel.client_end import Encoded, NoBase, ask_for_model
from strategies.channel.nodes import FORGET, PARTITION_ID, answer_partition
from strategies.channel.orders import REPORT_NAMES
from strategies.channel.payload import (
    CLIENT,
    KEY,
    METRICS,
    REPORT,
    SAMPLES,
    SENT,
    Settings,
    settings_in,
)

ConfigOf = Callable[[Context], RunConfig]

_MOMENTA = ("momentum_buffer", "exp_avg")  # SGD's and Adam's first moment


class Masking(NamedTuple):
    """An optimizer state, of which first moments become zero at the ``indices`` of tensors."""

    optimizer: State
    indices: Tensors


class Masked(NamedTuple):
    """The result of a ``Masking``, and how long it took."""

    optimizer: State
    seconds: float = 0.0


Request = TrainJob | Upload | Masking
"""What a client asks of its driver: it gives ``TrainResult``, ``Encoded`` and ``Masked``."""

Serving = Generator[Request, Any, tuple[RecordDict, State]]
"""Requests out, their answers in; at the end the reply's content and the client's memory."""

RULE = "rule"  # in a client's memory: what the algorithm's client half remembers


def make_client_app(config_of: ConfigOf, states: ClientStates) -> ClientApp:
    """A ClientApp for every engine; ``config_of``: the run's config, from Flower's context."""
    app = ClientApp()
    answer_partition(app)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        try:
            trainer, settings = trainer_of(config_of(context)), settings_in(message.content)
            memory, client = states.load(context, settings), client_of(settings, context)
            serving = serve(message.content, settings, client, trainer, memory)
            content, memory = serve_one(serving, trainer.train, trainer.device)
            reply = Message(content, reply_to=message)
            states.commit(context, settings, memory)  # last: a client that failed keeps its own
            return reply
        except NoBase:
            return Message(ask_for_model(), reply_to=message)
        except BaseException:
            with user_code():  # gives what a user's code raised a text that can be sent
                raise

    @app.query(FORGET.split(".")[1])
    def forget(message: Message, context: Context) -> Message:
        states.forget(context, message.content.config_records[KEY])
        return Message(RecordDict(), reply_to=message)

    return app


def client_of(settings: Settings, context: Context) -> int:
    """The client that a message is for: its node's partition, else the one in ``settings``."""
    number = context.node_config.get(PARTITION_ID)
    return int(settings[CLIENT] if number is None else number)


def serve_one(
    serving: Serving, train: Callable[..., TrainResult], device: torch.device
) -> tuple[RecordDict, State]:
    """Answers the requests of one client; returns its reply's content and its memory.

    ``train``: as ``Trainer.train``. Where the memory of ``device`` is full, ``DeviceFull``.
    """
    try:
        request = next(serving)
        while True:
            start = time.perf_counter()
            answer: TrainResult | Encoded | Masked
            try:
                if isinstance(request, TrainJob):
                    answer = train(*request)
                elif isinstance(request, Upload):
                    answer = Encoded(*compress(*request), time.perf_counter() - start)
                else:
                    answer = Masked(mask_all([request])[0], time.perf_counter() - start)
            except Exception as error:
                request = serving.throw(error)
            else:
                request = serving.send(answer)
    except StopIteration as end:
        content, memory = end.value
        return content, memory
    except torch.cuda.OutOfMemoryError:
        with enough(device):
            raise


def serve(
    content: RecordDict, settings: Settings, client: int, trainer: Trainer, memory: State
) -> Serving:
    """One message of one client: decode, train, encode, remember.

    ``settings`` are those of the message (``settings_in``), and ``memory`` is the client's from its
    last message, empty before the first.

    Raises ``NoBase`` where the client must ask for the whole model.
    """
    config, plan, half = trainer.config, trainer.plan, trainer.plan.client
    if config.machine.memory_as != EXACT:
        memory = unpack_memory(memory, config.machine.memory_as)
    state, line = unnest(RULE, memory), trainer.line
    work = orders.work_of(config, plan, settings)
    if work.ordered:
        before = memory.get(ORDERED_FRACTION)
        last_uplink = None if before is None else orders.uplink_at(config, float(before))
        line = trainer.line_with(orders.uplink_at(config, work.p), last_uplink)
    samples = len(trainer.federation.shards[client])
    clock = time.perf_counter()
    delivery = line.decode(content, memory or None, samples, settings)
    decode_seconds = time.perf_counter() - clock
    done = int(memory.get("iterations", 0))
    hook = half.gradient_hook(delivery, state) if trainer.hooks_gradients else None
    weights = half.initial_weights(delivery, state)
    if plan.own_half:
        check_initial(half, weights, trainer.template, delivery.weights)
    job = TrainJob(
        client,
        trainer.filled(weights),
        unnest("optimizer", memory),
        done,
        work.n,
        unnest("buffers", memory) | delivery.buffers if trainer.has_buffers else {},
        work.start,
        (hook,) if hook else (),
    )
    job, result = yield from half.train(delivery, state, job)
    train_seconds = result.seconds
    client_update = half.make_update(delivery, state, job, result)
    if isinstance(client_update, Generator):
        client_update, more_seconds = yield from _timed(client_update)
        train_seconds += more_seconds
    if plan.own_half:
        client_update = checked_half(half, half.payload_template(trainer.template), client_update)
    if client_update.compressor_state is not None:
        acknowledged = delivery.ack._replace(uplink=client_update.compressor_state)
        delivery = replace(delivery, ack=acknowledged)
    try:
        encoding = line.encode(client, client_update.update, delivery)
        packet, after, encode_seconds = yield from encoding
    except UpdateError as error:
        raise with_cause(error, delivery.round, result.loss, suspect(line.uplink)) from error
    optimizer = result.optimizer
    if plan.masks:
        indices = packet.indices
        if not trainer.masks_all:
            masking_parts = masked(line.uplink, packet.sent)
            indices = {name: x for name, x in indices.items() if name in masking_parts}
        forgot = yield Masking(optimizer, indices)
        optimizer = forgot.optimizer
        encode_seconds += forgot.seconds
    counted = packet.counts
    counts = [counted[name] for name in line.template]
    metrics = metrics_of(
        {
            SAMPLES: samples,
            "train-loss": result.loss,
            "sent": sum(counts),
            SENT: counts,
            "decode-seconds": decode_seconds,
            "train-seconds": train_seconds,
            "encode-seconds": encode_seconds,
        }
    )
    initial = trainer.buffers.initial
    side_payloads = answered(settings, result.buffers, initial) if initial else {}
    if names := settings.get(REPORT_NAMES):
        side_payloads[REPORT] = orders.client_report(names, result, line.uplink, after)
    reply = RecordDict({METRICS: metrics})
    line.reply(reply, packet, delivery, side_payloads)
    after |= nest("optimizer", {} if config.training.stateless else optimizer)
    if result.buffers:
        local = {name: x for name, x in result.buffers.items() if name not in delivery.buffers}
        after |= nest("buffers", local)
    if work.ordered:
        after[ORDERED_FRACTION] = torch.tensor(work.p, dtype=torch.float64)
    next_state = half.next_state(delivery, state, job, result, client_update.update, packet)
    if plan.own_half:
        check_tensors(next_state, f"next_state of {type(half).__name__}")
    after |= nest(RULE, next_state)
    after["iterations"] = stored_number("iterations", done + work.n)
    if config.machine.memory_as == EXACT:
        return reply, after
    seed = derive(config.seed, "memory", client, done)
    return reply, pack_memory(after, config.machine.memory_as, seed)


def _timed(
    jobs: Generator[TrainJob, TrainResult, ClientUpdate],
) -> Generator[TrainJob, TrainResult, tuple[ClientUpdate, float]]:
    """The same jobs; returns what they return, and how many seconds all of them took."""
    seconds = 0.0
    try:
        job = next(jobs)
        while True:
            result = yield job
            seconds += result.seconds
            job = jobs.send(result)
    except StopIteration as end:
        return end.value, seconds


def mask_momentum(optimizer: State, sent: Sent) -> State:
    """The optimizer state with first moments set to zero where entries were sent.

    Lin et al.'s momentum factor masking, as SBC adopts it (supplement A). A tensor that
    was sent whole is left alone: nothing of it is held back, so nothing goes stale.
    """
    indices = {name: x.indices for name, x in sent.items() if isinstance(x.indices, Tensor)}
    return mask_all([Masking(optimizer, indices)])[0]


def mask_all(maskings: Sequence[Masking]) -> list[State]:
    """The same for several clients. On a GPU one launch masks all of their tensors."""
    chosen = [
        {
            key: places
            for name, places in indices.items()
            for kind in _MOMENTA
            if (key := f"{kind}/{name}") in optimizer
        }
        for optimizer, indices in maskings
    ]
    pairs = zip(maskings, chosen, strict=True)
    moments_of = [{key: one.optimizer[key] for key in indices} for one, indices in pairs]
    kernels = None
    if GPU_DEVICES & {x.device.type for moments in moments_of for x in moments.values()}:
        from compressors.device.numbers import (
            masked_copies,  # and triton, which takes its time to load
        )

        kernels = masked_copies(moments_of, chosen)
    if kernels is None:
        for moments, indices in zip(moments_of, chosen, strict=True):
            for key, moment in moments.items():
                moments[key] = moment.clone(memory_format=torch.contiguous_format)
                moments[key].view(-1).index_fill_(0, indices[key], 0.0)
    return [one.optimizer | x for one, x in zip(maskings, kernels or moments_of, strict=True)]
