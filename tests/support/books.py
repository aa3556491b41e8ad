"""What a client of a finished run trained, sent and holds: worked out again from its payloads."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from compressors import Raw, State, decompress
from compressors.whole.memory import unnest
from fedsim import RunConfig
from fedsim.federation import ledger
from fedsim.federation.trainer import Trainer
from fedsim.ground.records import ClientBooks, RoundBits
from strategies import RoundTraffic

Sums = dict[str, Tensor]


def bits_of(traffic: RoundTraffic) -> RoundBits:
    """The bits of a round, of the books of its clients."""
    return ledger.bits_of_round(traffic, books_of(traffic))


def books_of(traffic: RoundTraffic) -> dict[int, ClientBooks]:
    """The books of a round's clients, which are the keys of its traffic."""
    tables = traffic.downlinks, traffic.uplinks, traffic.refused, traffic.failures
    keys = sorted({*traffic.failed_bits}.union(*tables))
    return ledger.client_books(traffic, {key: key for key in keys})


def names(folder: Path, client: int, way: str) -> dict[int, Path]:
    """The payload of each round, ``way`` being ``up`` or ``down``, of a run that kept them."""
    files = sorted(folder.glob(f"payloads/round-*/client-{client:03d}-{way}*.bin"))
    return {int(file.parent.name.removeprefix("round-")): file for file in files}


def applied(folder: Path, client: int, config: RunConfig, template: Sums) -> Sums:
    """The sum of the client's updates that moved the model."""
    method, files = config.plan.method.compressor, names(folder, client, "up").values()
    return _sum([decompress(method, file.read_bytes(), template) for file in files])


def trained(
    folder: Path, client: int, config: RunConfig, trainer: Trainer, rounds: list[int]
) -> Sums:
    """The sum of what the client trained in ``rounds``, from the models that it was sent.

    For raw downlinks, and an optimizer without memory.
    """
    plan, done, updates = config.plan, 0, list[Any]()
    for number, file in names(folder, client, "down").items():
        if number in rounds:
            weights = decompress(Raw(), file.read_bytes(), trainer.parameters)
            count, start = plan.local_iterations(number), plan.iterations_after(number - 1)
            updates.append(trainer.train(client, weights, {}, done, count, {}, start).update)
            done += count
    return _sum(updates)


def held(memory: State, last_applied: int, config: RunConfig, template: Sums) -> Sums:
    """The client's residual, and its last message where that was not applied."""
    parts: list[Any] = [unnest("uplink/residual", memory)]
    if int(memory["pending/round"]) != last_applied:
        payload = memory["pending/payload"].numpy().tobytes()
        parts.append(decompress(config.plan.method.compressor, payload, template))
    return _sum(parts)


def _sum(parts: list[Any]) -> Sums:
    return {n: sum(part[n].double() for part in parts) for n in parts[0]}


def assert_balanced(trained_: Sums, *parts: Sums) -> None:
    """What was trained is the sum of the ``parts``, up to float32's rounding."""
    for name, x in trained_.items():
        total = sum(part[name] for part in parts)
        torch.testing.assert_close(total, x, rtol=1e-5, atol=1e-5)
