"""The ClientApp: decode, train n local iterations, encode, remember."""

import time
from collections.abc import Callable
from itertools import pairwise

import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from compressors import Packet, Raw, State, check_decoded, compress, decompress, derive
from compressors.whole.lift import inside, nest
from fedsim.errors import training
from fedsim.federation.client_memory import ClientStates, number, placed
from fedsim.federation.memories import suspect
from fedsim.federation.trainer import Trainer, mask_momentum, trainer_of
from fedsim.settings.config import RunConfig
from strategies.channel.buffers import ASKED, PAYLOAD, to_payload
from strategies.channel.nodes import answer_partition
from strategies.channel.payload import METRICS, SAMPLES, SENT, get, put

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
        config = config_of(context)
        content, state = _round(message, number(context), config, states.load(context))
        reply = Message(content, reply_to=message)
        states.commit(context, state)  # last: a client that failed above keeps what it had
        return reply

    return app


def _round(
    message: Message, client: int, config: RunConfig, state: State
) -> tuple[RecordDict, State]:
    """One round of one client: the reply's content and its memory from now on."""
    trainer = trainer_of(config)
    payload, settings = get(message.content)
    count, round_number = int(str(settings["iterations"])), int(str(settings["round"]))
    clock = [time.perf_counter()]
    like = {name: p.detach() for name, p in trainer.parameters.items()}
    weights = _base(payload, str(settings["kind"]), config, like, inside("base", state))
    clock.append(time.perf_counter())
    done = int(state["iterations"]) if "iterations" in state else 0
    arrived = _buffers(settings, trainer)
    buffers = inside("buffers", state) | arrived
    start = config.plan.iterations_after(round_number - 1)
    held = inside("optimizer", state)
    trained = trainer.train(client, weights, held, done, count, buffers, start)
    clock.append(time.perf_counter())
    seed = derive(config.seed, "uplink", client, round_number)
    residual = placed(inside("uplink", state), trainer.device) or None
    method = config.plan.method.compressor
    with training(round_number, trained.loss, suspect(method)):
        packet, memory = compress(method, trained.update, residual, seed)
    masked = mask_momentum(trained.optimizer, packet.sent) if config.plan.masks else None
    clock.append(time.perf_counter())
    if not done:  # its first message, outside the clock; later ones are taken on trust
        check_decoded(method, packet, like)
    after = nest("uplink", memory) | nest("optimizer", masked or trained.optimizer)
    after |= nest("buffers", {n: x for n, x in trained.buffers.items() if n not in arrived})
    after["iterations"] = torch.tensor(done + count)
    if not isinstance(config.plan.downlink, Raw):
        after |= nest("base", weights)
    samples = len(trainer.federation.shards[client])
    beside = {n: trained.buffers[n] for n in trainer.buffers.names} if ASKED in settings else {}
    return _content(packet, list(like), beside, samples, trained.loss, clock), after


def _buffers(settings: ConfigRecord, trainer: Trainer) -> State:
    """The server's buffers, where they came with the model."""
    payload = settings.get(PAYLOAD)
    if not isinstance(payload, bytes):
        return {}
    return decompress(Raw(), payload, trainer.buffers.initial)


def _content(
    packet: Packet, names: list[str], buffers: State, samples: int, loss: float, clock: list[float]
) -> RecordDict:
    """The payloads, and beside them what the server would like to know."""
    content = RecordDict()
    put(content, packet.payload, **({PAYLOAD: to_payload(buffers)} if buffers else {}))
    counts = [packet.sent[name].count for name in names]
    decode, train, encode = (after - before for before, after in pairwise(clock))
    content[METRICS] = MetricRecord(
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
    return content


def _base(
    payload: bytes, kind: str, config: RunConfig, like: dict[str, Tensor], held: State
) -> dict[str, Tensor]:
    """The global model of this round: sent whole, or the one held and what was sent for it."""
    if kind == "model":
        return decompress(Raw(), payload, like)
    step = decompress(config.plan.downlink, payload, like)
    return {name: held[name].to(x.device) + x for name, x in step.items()}
