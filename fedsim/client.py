"""The ClientApp: decode, train n local iterations, encode, remember."""

import time
from collections.abc import Callable

import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor

from compressors import Raw, State, compress, decompress, derive
from compressors.lift import inside, nest
from fedsim.config import RunConfig
from fedsim.states import ClientStates, number
from fedsim.trainer import mask_momentum, trainer_of
from strategies.nodes import answer_partition
from strategies.payload import METRICS, SAMPLES, get, put

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
    trainer = trainer_of(config)
    payload, settings = get(message.content)
    start = time.perf_counter()
    like: dict[str, Tensor] = {n: p.detach() for n, p in trainer.parameters.items()}
    weights = _base(payload, str(settings["kind"]), config, like, inside("base", state))
    decoded = time.perf_counter()
    done = int(state["iterations"]) if "iterations" in state else 0
    count, round_number = int(str(settings["iterations"])), int(str(settings["round"]))
    trained = trainer.train(client, weights, inside("optimizer", state), done, count)
    stepped = time.perf_counter()
    held = inside("uplink", state) or None
    seed = derive(config.seed, "uplink", client, round_number)
    packet, memory = compress(config.plan.method.compressor, trained.update, held, seed)
    optimizer = trained.optimizer
    if config.plan.masks:
        optimizer = mask_momentum(optimizer, packet.sent)
    encoded = time.perf_counter()
    after = nest("uplink", memory) | nest("optimizer", optimizer)
    after["iterations"] = torch.tensor(done + count)
    if not isinstance(config.plan.downlink, Raw):
        after |= nest("base", weights)
    content = RecordDict()
    put(content, packet.payload)
    content[METRICS] = MetricRecord(
        {
            SAMPLES: len(trainer.federation.shards[client]),
            "train-loss": trained.loss,
            "sent": sum(tensor.count for tensor in packet.sent.values()),
            "decode-seconds": decoded - start,
            "train-seconds": stepped - decoded,
            "encode-seconds": encoded - stepped,
        }
    )
    return content, after


def _base(
    payload: bytes, kind: str, config: RunConfig, like: dict[str, Tensor], held: State
) -> dict[str, Tensor]:
    """The global model of this round: sent whole, or the one held and what was sent for it."""
    if kind == "model":
        return decompress(Raw(), payload, like)
    step = decompress(config.plan.downlink, payload, like)
    return {name: held[name].to(x.device) + x for name, x in step.items()}
