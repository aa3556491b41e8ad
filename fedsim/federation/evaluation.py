"""The global model, or those of single clients, on held-out data, at no cost in bits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import nan
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord
from torch import Tensor

from compressors import State, Tensors, derive
from compressors.kernels.gpu.layout import send
from compressors.whole.memory import nest, unnest
from fedsim.federation.client import RULE
from fedsim.federation.client_memory import Memories, unpack_memory
from fedsim.federation.device import device_of
from fedsim.federation.draws import evenly_spread
from fedsim.federation.trainer import Trainer
from fedsim.ground.records import SCORE, ClientScores, Score
from fedsim.tasks.base import fetch_sums, read_pair
from fedsim.tasks.pytrees import Tree, forward, to_device
from strategies import Delivery
from strategies.channel.acknowledge import Ack

CLIENTS = 200
"""How many clients are scored by themselves at most; of more, so many evenly spread ones."""


ClientModel = tuple[int, Tensors, Tensors]
"""A client's number, and the parameters and buffers that it has."""


def evaluate(trainer: Trainer, weights: Tensors, clients: Sequence[int] | None = None) -> Score:
    """The scores of ``weights`` on the held-out samples, and on those that clients keep out.

    A model's draws while it is scored are the same every time. ``clients``: that are scored by
    themselves, where clients keep samples out; None: ``CLIENTS`` of all at most.
    """
    data, kept_out, parts = trainer.data, trainer.federation.kept_out, list[np.ndarray]()
    if kept_out is not None:
        numbers = evenly_spread(len(kept_out), CLIENTS).tolist() if clients is None else clients
        parts = [kept_out[client] for client in numbers]

    def scored(seeds: bool) -> list[Score]:
        seed = partial(derive, trainer.config.seed, "evaluate")
        with trainer.watch.turn(seed, seeds), torch.no_grad():
            values = trainer.filled(weights)
            for name, p in trainer.parameters.items():
                p.copy_(values[name])
            trainer.model.eval()
            scores = [_score(trainer, data.test_x, data.test_y, trainer.scored_samples)]
            for part in parts:
                if len(part):  # the numbers go where the samples lie once, and nothing waits
                    chosen = send(torch.from_numpy(part), device_of(data.train_x))
                    scores.append(_score(trainer, data.train_x, data.train_y, chosen))
            return scores

    with trainer.products():
        overall, *by_client = trainer.watch.call(scored)
    if kept_out is None:
        return overall
    metrics = [score.metric for score in by_client]
    return replace(overall, clients=over_clients(metrics, trainer.task.higher_is_better))


def evaluate_each(trainer: Trainer, models: Iterable[ClientModel]) -> Score:
    """The mean over clients of what each one's own model comes to on the held-out samples.

    Where clients have test samples of their own, each is scored on these with its own model, too.
    Without models all is NaN.
    """
    kept_out, on_test, on_parts = trainer.federation.kept_out, list[Score](), list[float]()
    for client, weights, buffers in models:
        trainer.buffers.load({**buffers})
        score = evaluate(trainer, weights, [client])
        on_test.append(score)
        if score.clients is not None and kept_out is not None and len(kept_out[client]):
            on_parts.append(score.clients.client_metric_mean)
    names = on_test[0].more if on_test else ()
    more = {name: fmean(one.more[name] for one in on_test) for name in names}
    metric, loss = (
        fmean(values) if values else nan
        for values in ([one.metric for one in on_test], [one.loss for one in on_test])
    )
    higher = trainer.task.higher_is_better
    clients = None if kept_out is None else over_clients(on_parts, higher)
    return Score(metric, loss, clients, more)


def local_loss(trainer: Trainer, weights: Tensors, client: int, number: int, count: int) -> float:
    """The mean loss of a client's batches at ``weights``, in training mode and without a step.

    Each round, ``number``, has other batches: ``count`` of them, or for 0 an epoch, as many whole
    batches as the client's samples fill.
    """
    first = number * trainer.batches_of(client).an_epoch

    def computed(seeds: bool) -> float:
        total = torch.zeros((), device=trainer.device)
        with torch.no_grad():
            values = trainer.filled(weights)
            for name, p in trainer.parameters.items():
                p.copy_(values[name])
            trainer.buffers.load({})
            trainer.model.train()
            for iteration in range(first, first + batches):
                seed = partial(derive, trainer.config.seed, "local loss", client, iteration)
                with trainer.watch.turn(seed, seeds), trainer.precision:
                    x, y = trainer.batch(client, iteration)
                    total += trainer.task.loss(forward(trainer.model, x), y)
            trainer.buffers.load({})
        return float(total) / batches

    batches = count or trainer.batches_of(client).an_epoch
    with trainer.products():
        return trainer.watch.call(computed)


def _score(trainer: Trainer, inputs: Tree, targets: Tree, chosen: Tensor) -> Score:
    """The scores of the trainer's model on the ``chosen`` of some samples."""
    task, device, count = trainer.task, trainer.device, len(chosen)
    sums, loss = dict[str, Any](), "loss of the batches"  # which is no name of a score
    for index in chosen.split(task.evaluation_batch):
        x, y = read_pair(inputs, targets, index)
        expected = to_device(y, device)
        outputs = forward(trainer.model, to_device(x, device, trainer.layout))
        of_batch = {loss: task.loss(outputs, expected)}
        for name, x in task.sums_on_device(outputs, expected, of_batch).items():
            sums[name] = sums.get(name, 0.0) + (x * len(index) if name == loss else x)
    totals = fetch_sums(sums)  # waits for the device
    mean_loss = totals.pop(loss) / count
    (_, metric), *others = task.scores(totals, count).items()
    more = {f"{SCORE}{name}": value for name, value in others}
    return Score(metric, mean_loss, more=more)


def over_clients(metrics: Sequence[float], higher_is_better: bool) -> ClientScores:
    """The mean of clients' metrics, that of the worst tenth (one at least), and their deviation.

    Every client counts once; without clients all is NaN.

    Example:
        >>> over_clients([0.5, 1.0], True)
        ClientScores(client_metric_mean=0.75, client_metric_worst=0.5, client_metric_spread=0.25)
    """
    if not metrics:
        return ClientScores(nan, nan, nan)
    worst = sorted(metrics, reverse=not higher_is_better)[: max(1, len(metrics) // 10)]
    return ClientScores(fmean(metrics), fmean(worst), pstdev(metrics))


_BUFFERS, _ITERATIONS = "buffers", "iterations"
"""In a client's memory: buffers that do not travel, and how many local iterations it has done."""


def differ(trainer: Trainer, shared: Tensors) -> bool:
    """Whether a client's model is another than the server's, of which ``shared`` travels."""
    half = trainer.plan.client
    return half.fine_tuning > 0 or not trainer.parameters.keys() <= shared.keys()


def personal_states(trainer: Trainer, memories: Memories) -> dict[int, State]:
    """The states that make clients' models their own, by client, of those that have taken part.

    With more than ``CLIENTS`` clients, only so many of them, evenly spread.
    """
    clients = memories.clients()
    parts = {}
    for client in (clients[int(i)] for i in evenly_spread(len(clients), CLIENTS)):
        memory = unpack_memory(memories.of(client), trainer.config.machine.memory_as)
        state = {name: unnest(name, memory) for name in (RULE, _BUFFERS)}
        done = {_ITERATIONS: memory[_ITERATIONS]}
        parts[client] = nest(RULE, state[RULE]) | nest(_BUFFERS, state[_BUFFERS]) | done
    return parts


def models(
    trainer: Trainer,
    weights: Tensors,
    buffers: Tensors,
    parts: Mapping[int, State],
    number: int,
    start: int,
) -> Iterator[ClientModel]:
    """The model that each client would have, if it were sent the server's now.

    Where the algorithm's clients fine-tune, the trainer does. ``weights`` are the server's, of what
    travels, and ``parts`` what ``personal_states`` returned; ``number``: of the last round;
    ``start``: local iterations of the run so far, by which the learning rate goes.
    """
    half, seed = trainer.plan.client, trainer.config.seed
    sent = {**weights}
    for client, memory in parts.items():
        settings = ConfigRecord({"round": number + 1})
        delivery = Delivery(sent, {**buffers}, settings, False, Ack({}), seed=seed)
        local = {**buffers, **unnest(_BUFFERS, memory)}
        begun = trainer.filled(half.initial_weights(delivery, unnest(RULE, memory)))
        if half.fine_tuning == 0:
            yield client, begun, local
            continue
        done = int(memory[_ITERATIONS])
        tuned = trainer.train(client, begun, {}, done, half.fine_tuning, local, start)
        moved = {n: begun[n].to(x.device) + x for n, x in tuned.update.items()}
        yield client, moved, tuned.buffers
