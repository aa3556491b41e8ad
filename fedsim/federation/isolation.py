"""Check that a client's training affects another's only by parameters and buffers.

All clients of a worker train with one model, one loss, one draw and one optimizer. Weights,
buffers and the optimizer's memory are each client's own. Other state is shared if it changes, such
as a counter in a module's attribute. So one client's message is answered twice: after another
client's, and by a new trainer. The task is refused if shared state or the update then differs; the
error names the state.
"""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import RecordDict
from torch import Tensor

from compressors import State
from compressors.usercode import user_code
from fedsim.federation.client import serve, serve_one
from fedsim.federation.clientdata import ClientData
from fedsim.federation.fingerprint import Contents, same
from fedsim.federation.trainer import Trainer
from fedsim.federation.trial import NEAR, Messages, first_messages, held
from fedsim.ground.errors import UsageError
from fedsim.settings.config import RunConfig
from strategies import TrainJob, TrainResult
from strategies.channel.payload import settings_in

_STEPS = 3  # local iterations of a message: a number that is odd, as what changes may change back


def check_isolation(config: RunConfig) -> None:
    """Refuses a run in which the training of a client would change that of another.

    The clients are answered with the run's own method, strategy, optimizer and memory. Errors in
    the trial are left to the run, whose first round meets them too.

    Raises ``UsageError``, which names what changes.
    """
    _seed()
    trainer = Trainer(config, ClientData.of(config))
    clients = [0, 1 % config.plan.clients]
    messages = first_messages(config, trainer, clients)
    both = _trained(messages, clients, trainer)
    _seed()
    one = _trained(messages, clients[1:], Trainer(config, ClientData.of(config)))
    if both is None or one is None:
        return
    near = 1e-5 if trainer.device.type == "cpu" else NEAR[config.training.precision]
    for place, x in both.after.items():
        other = one.after.get(place)
        still = same(both.before.get(place), x, near) and same(one.before.get(place), other, near)
        if not still and not same(x, other, near):
            raise _refused(config, f"{place} changes with the clients that were trained before")
    if not same(both.answer, one.answer, near):
        raise _refused(
            config,
            "an update changes with the clients that were trained before: something that "
            "model, loss, draw or optimizer use keeps a state",
        )


def _refused(config: RunConfig, what: str) -> UsageError:
    return UsageError(
        f"task {config.plan.task.name}: {what}, and all clients of a worker share it; a client has "
        "parameters, buffers (register_buffer) and its optimizer's state of its own"
    )


def _seed() -> None:
    """Draws from generators that no run seeds are the same in both answers."""
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - users draw from it
    torch.manual_seed(0)


class _Outcome(NamedTuple):
    """What the clients of a worker share before and after messages, and the last one's answer."""

    before: Contents
    after: Contents
    answer: tuple[object, ...]


def _trained(messages: Messages, clients: Sequence[int], trainer: Trainer) -> _Outcome | None:
    """The outcome of one message after the other; None where a client fails."""
    before = held(trainer)
    answer: tuple[object, ...] = ()
    for client in clients:
        try:
            with user_code():
                answer = _answer(messages[client], client, trainer)
        except Exception:  # the run's first round says it, with the client
            return None
    return _Outcome(before, held(trainer), answer)


def _answer(content: RecordDict, client: int, trainer: Trainer) -> tuple[object, ...]:
    """The answer of a client to its first message."""
    _seed()
    trained: list[TrainResult] = []

    def train(*job: Any) -> TrainResult:
        trained.append(trainer.train(*TrainJob(*job)._replace(iterations=_STEPS)))
        return trained[-1]

    content = RecordDict(dict(content.items()))
    serving = serve(content, settings_in(content), client, trainer, {})
    reply, memory = serve_one(serving, train, trainer.device)
    results = [(*_sorted(x.update), *_sorted(x.buffers), x.loss) for x in trained]
    if trainer.device.type != "cpu":  # whose sums may differ in last bits, and so what is sent
        return (*results,)
    payloads = [record.get("payload") for record in reply.config_records.values()]
    return (*results, *_sorted(memory), *payloads)


def _sorted(state: State | dict[str, Tensor]) -> list[tuple[str, Tensor]]:
    return [(name, state[name].clone()) for name in sorted(state)]
