"""A run played back from its stored messages: written apart from the code that recorded it."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from compressors import Compressor, State, compress, decompress, derive
from compressors.whole.raw import Raw
from fedsim import RunConfig
from fedsim.federation.trainer import build_model

Weights = dict[str, Tensor]


def initial(config: RunConfig) -> Weights:
    """What everybody knows before the first round."""
    model = build_model(config.plan.task, config.seed)
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def messages(folder: Path, pattern: str) -> list[dict[int, Path]]:
    """Round by round, client -> file."""
    numbered = sorted((folder / "payloads").iterdir())
    assert [r.name for r in numbered] == [f"round-{i + 1:05d}" for i in range(len(numbered))]
    return [{int(f.name.split("-")[1]): f for f in sorted(r.glob(pattern))} for r in numbered]


def mean(uplinks: dict[int, Weights], shares: dict[int, float] | None = None) -> Weights:
    """Summed in client order, each with its share of the whole."""
    shares = shares or dict.fromkeys(uplinks, 1)
    whole = sum(shares[c] for c in sorted(uplinks))
    total = {name: torch.zeros_like(x) for name, x in next(iter(uplinks.values())).items()}
    for client in sorted(uplinks):
        for name, x in uplinks[client].items():
            total[name] = torch.add(total[name], x, alpha=shares[client] / whole)
    return total


def uplinks(folder: Path, config: RunConfig) -> list[dict[int, Weights]]:
    """Every uplink of every round through ``decompress`` alone."""
    template = initial(config)
    method: Compressor = config.plan.method.compressor
    return [
        {c: decompress(method, f.read_bytes(), template) for c, f in files.items()}
        for files in messages(folder, "*-up.bin")
    ]


def raw_downlink(
    folder: Path, config: RunConfig, shares: dict[int, float] | None = None
) -> Weights:
    """The final weights from the uplinks; every model sent on the way must be theirs."""
    weights = initial(config)
    ups, downs = uplinks(folder, config), messages(folder, "*-down-*.bin")
    for number, (up, down) in enumerate(zip(ups, downs, strict=True)):
        for file in down.values():
            free = "-free" if number == 0 else ""
            assert file.name.endswith(f"-down-model{free}.bin")
            assert_equal(decompress(Raw(), file.read_bytes(), weights), weights)
        step = mean(up, shares)
        weights = {name: x + step[name] for name, x in weights.items()}
    return weights


def compressed_downlink(
    folder: Path,
    config: RunConfig,
    aggregate: Callable[[dict[int, Weights], int], Weights] = lambda up, _: mean(up),
) -> tuple[Weights, Weights]:
    """The weights as clients saw them last, and as the server left them.

    The first are the sum of the updates that were sent down. The update of the last round
    is sent to nobody: it is encoded here, as the server did, after the mean of what came up
    (or what ``aggregate`` makes of it, given the number of the round from 1 up).
    """
    down_method = config.plan.downlink
    seen, server = initial(config), initial(config)
    memory: State = down_method.init(server)
    last = None
    ups, downs = uplinks(folder, config), messages(folder, "*-down-*.bin")
    for number, (up, down) in enumerate(zip(ups, downs, strict=True)):
        sent = {f.read_bytes() for f in down.values() if f.name.endswith("-update.bin")}
        assert len(sent) <= 1 and (number or not sent)
        if number:
            for payload in sent:
                assert payload == last
            step = decompress(down_method, last, seen)
            seen = {name: x + step[name] for name, x in seen.items()}
        for file in down.values():
            if "-model" in file.name:
                assert file.name.endswith("-free.bin") == (number == 0)
                assert_equal(decompress(Raw(), file.read_bytes(), seen), seen)
        assert_equal(seen, server)
        seed = derive(config.seed, "downlink", number)
        packet, memory = compress(down_method, aggregate(up, number + 1), memory, seed)
        last = packet.payload
        step = decompress(down_method, last, server)
        server = {name: x + step[name] for name, x in server.items()}
    return seen, server


def assert_equal(one: Weights, other: Weights) -> None:
    """Bit for bit."""
    assert list(one) == list(other)
    for name, x in one.items():
        assert x.numpy().tobytes() == other[name].numpy().tobytes(), name
