"""The models of single clients, where these keep layers of their own or fine-tune what they get."""

from collections.abc import Iterator, Mapping

from flwr.app import ConfigRecord

from compressors import State, Tensors
from compressors.whole.memory import nest, unnest
from fedsim.federation.client import RULE
from fedsim.federation.client_memory import Memories
from fedsim.federation.evaluation import CLIENTS, ClientModel, spread
from fedsim.federation.memorycodec import unpack
from fedsim.federation.trainer import Trainer
from strategies import Delivery
from strategies.channel.acknowledge import Ack

_BUFFERS, _ITERATIONS = "buffers", "iterations"
"""In a client's memory: buffers that do not travel, and how many local iterations it has done."""


def differ(trainer: Trainer, shared: Tensors) -> bool:
    """Whether a client's model is another than the server's.

    Args:
        trainer: of the run.
        shared: what travels, by name.
    """
    half = trainer.plan.client
    return half.fine_tuning > 0 or not trainer.parameters.keys() <= shared.keys()


def personal_states(trainer: Trainer, memories: Memories) -> dict[int, State]:
    """The states that make clients' models their own, by client, of those that have taken part.

    With more than ``CLIENTS`` clients, only so many of them, evenly spread.
    """
    clients = memories.clients()
    parts = {}
    for client in (clients[int(i)] for i in spread(len(clients), CLIENTS)):
        memory = unpack(memories.of(client), trainer.config.machine.memory_as)
        state = {name: unnest(name, memory) for name in (RULE, _BUFFERS)}
        done = {_ITERATIONS: memory[_ITERATIONS]}
        parts[client] = nest(RULE, state[RULE]) | nest(_BUFFERS, state[_BUFFERS]) | done
    return parts


def models(
    trainer: Trainer, weights: Tensors, buffers: Tensors, parts: Mapping[int, State],
    number: int, start: int,
) -> Iterator[ClientModel]:  # fmt: skip
    """The model that each client would have, if it were sent the server's now.

    Args:
        trainer: of the run; it fine-tunes, where the algorithm's clients do.
        weights: the server's, of what travels.
        buffers: the server's.
        parts: what ``personal_states`` returned.
        number: of the last round.
        start: local iterations of the run so far, by which the learning rate goes.
    """
    half, seed = trainer.plan.client, trainer.config.seed
    sent = {**weights}
    for client, memory in parts.items():
        settings = ConfigRecord({"round": number + 1})
        delivery = Delivery(sent, {**buffers}, settings, False, Ack({}), seed=seed)
        local = {**buffers, **unnest(_BUFFERS, memory)}
        begun = trainer.filled(half.initial_weights(delivery, unnest(RULE, memory)))
        if half.fine_tuning == 0:
            yield ClientModel(client, begun, local)
            continue
        done = int(memory[_ITERATIONS])
        tuned = trainer.train(client, begun, {}, done, half.fine_tuning, local, start)
        moved = {n: begun[n].to(x.device) + x for n, x in tuned.update.items()}
        yield ClientModel(client, moved, tuned.buffers)
