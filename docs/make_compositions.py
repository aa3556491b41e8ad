"""What Flower's strategies and mods do together with ours, tried: ``docs/compositions.csv``.

``PYTHONPATH=. python docs/make_compositions.py`` runs every row in process, writes what came out
and puts the table into ``docs/compositions.md``. A test runs the rows again.
"""

import csv
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.client.mod import secagg_mod, secaggplus_mod
from flwr.clientapp import ClientApp, mod
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, FedMedian, Strategy

from compressors import Compressor, Raw, compress, parse
from fedsim.engines.local import LocalGrid
from strategies import Compressed, TooFewReplies, WrongOrder, answer_partition, client_mod
from strategies.channel.payload import to_arrays, to_tensors

CSV = Path(__file__).with_name("compositions.csv")
PAGE = Path(__file__).with_name("compositions.md")
HEAD = ("part", "order", "outcome", "what came out")
CLIENTS, ENTRIES, ROUNDS, CLIP = 5, 64, 3, 0.15
ALL = {"min_train_nodes": CLIENTS, "min_available_nodes": CLIENTS, "fraction_evaluate": 0.0}
SBC, TOPK = "sbc(0.1)", "per_tensor(topk(0.1) | float32 | golomb)"
FIXED = {"noise_multiplier": 0.0, "clipping_norm": CLIP, "num_sampled_clients": CLIENTS}
ADAPTIVE = {
    "noise_multiplier": 0.0,
    "initial_clipping_norm": CLIP,
    "num_sampled_clients": CLIENTS,
}
START = ArrayRecord({"w": Array(np.zeros(ENTRIES, np.float32))})
_BETWEEN = re.compile(r"(<!-- compositions -->\n).*?(<!-- end of compositions -->)", re.DOTALL)


class Client:
    """Moves half-way to a target of its own; with ``lossy``, to what its receiver would decode.

    It says another number of examples than the others, unless ``alike``.
    """

    def __init__(self, lossy: Compressor | None = None, alike: bool = False) -> None:
        self.lossy, self.alike, self.memory = lossy, alike, {}

    def train(self, message: Message, context: Context) -> Message:
        """An ordinary app: one model in, one model out."""
        client = int(context.node_config["partition-id"])
        (record,) = message.content.array_records.values()
        model = to_tensors(record)
        target = np.random.default_rng(client).normal(size=ENTRIES) / 4
        update = {"w": (torch.from_numpy(target).float() - model["w"]) / 2}
        if self.lossy is not None:
            packet, self.memory[client] = compress(self.lossy, update, self.memory.get(client))
            update = {"w": packet.sent["w"].decoded}
        examples = 1 if self.alike else 1 + client
        metrics = MetricRecord({"num-examples": examples, "train_loss": 1.0 + client})
        trained = to_arrays({"w": model["w"] + update["w"]})
        return Message(RecordDict({"arrays": trained, "metrics": metrics}), reply_to=message)


class Grid(LocalGrid):
    """Replies as Flower's own grid hands them over: a list. Some strategies go through it twice."""

    def send_and_receive(self, messages: Any, *, timeout: float | None = None) -> list[Message]:
        """All replies of a round."""
        return [*super().send_and_receive(messages, timeout=timeout)]


def run(
    strategy: Strategy, mods: Sequence[Any], client: Client | None = None, rounds: int = ROUNDS
) -> np.ndarray:
    """The model after so many rounds in process."""
    app = ClientApp(mods=[*mods])
    app.train()((client or Client()).train)
    answer_partition(app)
    grid = Grid(app, CLIENTS)
    try:
        return strategy.start(grid, START, num_rounds=rounds).arrays["w"].numpy()
    finally:
        grid.close()


def compressing(up: str = TOPK) -> Any:
    """The client's half of ours."""
    return client_mod(parse(up), Raw(), START)


def same(
    make: Callable[[], Strategy], up: str = SBC, mods: Sequence[Any] = (), alike: bool = False
) -> str:
    """Whether the model is that of the strategy alone, whose clients send what is decoded.

    With ``alike`` those clients say one example each, as which ours counts them.
    """
    alone = run(make(), mods, Client(parse(up), alike))
    ours = run(Compressed(make(), parse(up)), [compressing(up), *mods])
    gap = float(np.abs(alone - ours).max())
    equal = gap < 1e-6 and np.abs(ours).max() > 0
    text = "as the strategy alone on what is decoded" if equal else f"differs by {gap:.2g}"
    text += ", each client one example" if alike else ""
    text += f"; moves by {np.linalg.norm(ours):.3g}"
    return f"{'right' if equal else 'wrong'}|{text}"


def clipped(make: Callable[[], Strategy], mods: Sequence[Any]) -> str:
    """How far the model moves in a round, where no client may move it further than the clip."""
    norm = float(np.linalg.norm(run(make(), mods, rounds=1)))
    right = norm <= CLIP * (1 + 1e-5)
    return f"{'right' if right else 'wrong'}|moves by {norm:.3g} where the clip allows {CLIP}"


def refused(make: Callable[[], Strategy], mods: Sequence[Any]) -> str:
    """What is said where the app is built, or in its first round."""
    try:
        run(make(), mods)
    except WrongOrder as error:
        return f"refused|{error}"
    except TooFewReplies as error:
        return f"fails|{str(error).partition('; ')[2]}"
    raise AssertionError("it runs")


def logged(mods: Sequence[Any]) -> str:
    """What a mod that logs sizes says of a reply; the model has to be as without it."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.addFilter(lambda record: bool(lines.append(record.getMessage())))
    log = logging.getLogger("flwr")
    log.setLevel(logging.INFO)
    shown, log.handlers = log.handlers, [handler]
    try:
        model = run(Compressed(FedAvg(**ALL), parse(TOPK)), mods)
    finally:
        log.handlers = shown
        log.setLevel(logging.CRITICAL)
    equal = np.array_equal(model, run(Compressed(FedAvg(**ALL), parse(TOPK)), [compressing()]))
    text = [line for line in lines if line.startswith(("Outgoing m", "Total array elements sent"))]
    return f'{"right" if equal else "wrong"}|logs "{text[0]}"'


def inner(name: str, **settings: Any) -> Callable[[], Strategy]:
    """A strategy of Flower's around FedAvg, or alone."""
    make = getattr(flower, name)
    if name.startswith("DifferentialPrivacy"):
        own = ADAPTIVE if "Adaptive" in name else FIXED
        return lambda: make(FedAvg(**ALL), **own)
    return partial(make, **ALL, **settings)


def of_strategies() -> Iterator[tuple[str, str, str]]:
    """Every strategy of ``flwr.serverapp.strategy``, inside; those that wrap, around as well."""
    own = {
        "FedProx": {"proximal_mu": 0.1},
        "Krum": {"num_malicious_nodes": 1},
        "MultiKrum": {"num_malicious_nodes": 1, "num_nodes_to_select": 2},
        "QFedAvg": {"client_learning_rate": 0.1},
        "FedAvgM": {"server_momentum": 0.5},
    }
    for name in sorted({*flower.__all__} - {"Result", "Strategy"}):
        ours, make = f"Compressed({name})", inner(name, **own.get(name, {}))
        if name.startswith("FedXgb"):
            few = partial(getattr(flower, name), fraction_evaluate=0.0)
            yield name, ours, refused(lambda few=few: Compressed(few(), parse(SBC)), [])
        elif "ClientSide" in name:
            yield from _client_side(name, make)
        elif name == "FedMedian":
            still = lambda: Compressed(FedMedian(), parse(SBC))  # noqa: E731
            yield name, f"{ours}, uplink sbc", refused(still, [])
            yield name, f"{ours}, uplink ef_sign", same(make, "ef_sign")
        else:
            yield name, ours, same(make, alike="ServerSide" in name)
        if "ServerSide" in name:
            yield (
                name,
                ours,
                clipped(lambda make=make: Compressed(make(), parse(SBC)), [compressing(SBC)]),
            )
        if name.startswith("DifferentialPrivacy"):
            wrap = ADAPTIVE if "Adaptive" in name else FIXED
            around = lambda n=name, w=wrap: getattr(flower, n)(  # noqa: E731
                Compressed(FedAvg(**ALL), parse(SBC)), **w
            )
            yield name, f"{name}(Compressed)", refused(around, [compressing(SBC)])
    keys = {"arrayrecord_key": "model", "configrecord_key": "settings"}
    yield 'FedAvg(arrayrecord_key="model")', "Compressed(FedAvg)", same(inner("FedAvg", **keys))


def _client_side(name: str, make: Callable[[], Strategy]) -> Iterator[tuple[str, str, str]]:
    own = mod.fixedclipping_mod if "Fixed" in name else mod.adaptiveclipping_mod
    ours, said = f"Compressed({name})", own.__name__
    yield name, f"{ours}, uplink sbc", refused(lambda: Compressed(make(), parse(SBC)), [])
    yield name, f"{ours}, uplink cnat", refused(lambda: Compressed(make(), parse("cnat")), [])
    topk = lambda: Compressed(make(), parse(TOPK))  # noqa: E731
    yield name, f"{ours}, uplink topk, client_mod alone", refused(topk, [compressing()])
    order = f"{ours}, uplink topk, [client_mod, {said}]"
    yield name, order, clipped(topk, [compressing(), own])
    yield name, f"{ours}, uplink topk, [{said}, client_mod]", refused(topk, [own, compressing()])


def of_mods() -> Iterator[tuple[str, str, str]]:
    """Every other mod of Flower, after ours and before."""
    local = mod.LocalDpMod(CLIP, 0.0, 1.0, 1e-5)  # without noise, so that the clip is seen
    plain = lambda: Compressed(FedAvg(**ALL), parse(TOPK))  # noqa: E731
    yield "LocalDpMod", "[client_mod, LocalDpMod]", clipped(plain, [compressing(), local])
    yield "LocalDpMod", "[LocalDpMod, client_mod]", refused(plain, [local, compressing()])
    for size in (mod.message_size_mod, mod.arrays_size_mod):
        name = size.__name__
        yield name, f"[client_mod, {name}]", logged([compressing(), size])
        yield name, f"[{name}, client_mod]", logged([size, compressing()])
    for secure in (secagg_mod, secaggplus_mod):
        name = secure.__name__
        yield name, f"[client_mod, {name}]", refused(plain, [compressing(), secure])
        yield name, f"[{name}, client_mod]", refused(plain, [secure, compressing()])
    alone = partial(FedAvg, **ALL)
    yield "client_mod", "[client_mod, client_mod]", same(alone, mods=[compressing(SBC)])
    yield "client_mod", "Compressed(FedAvg), no client_mod", refused(plain, [])
    plainly = np.allclose(run(alone(), [compressing()]), run(alone(), []), atol=1e-6)
    text = f"nothing is compressed, and the model is {'' if plainly else 'not '}FedAvg's"
    yield "client_mod", "[client_mod], FedAvg without Compressed", f"idle|{text}"


def after_a_clip() -> Iterator[tuple[str, str, str]]:
    """How long updates arrive that were clipped before they were compressed."""
    for up in (TOPK, "cnat", "qsgd(4)", SBC):
        method, memory, norms = parse(up), None, []
        for number in range(30):
            x = np.random.default_rng(0).normal(size=ENTRIES) / 4  # every round the same way
            update = {"w": torch.from_numpy(x * CLIP / np.linalg.norm(x)).float()}
            packet, memory = compress(method, update, memory, seed=number)
            norms.append(float(packet.sent["w"].decoded.norm()))
        text = f"of 30 updates of norm {CLIP}, the longest arrives with norm {max(norms):.3g}"
        longer = max(norms) > CLIP * (1 + 1e-5)
        yield "a client's clip", f"before {up}", f"{'longer' if longer else 'right'}|{text}"


def rows() -> list[tuple[str, str, str, str]]:
    """Every composition, tried."""
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    tried = [*of_strategies(), *of_mods(), *after_a_clip()]
    return [(part, order, *came.partition("|")[::2]) for part, order, came in tried]


def table() -> str:
    """The table of the CSV."""
    with CSV.open(encoding="utf-8") as file:
        lines = [
            f"| {' | '.join(x.replace('|', chr(92) + '|') for x in row)} |"
            for row in csv.reader(file)
        ]
    return "\n".join([lines[0], "| --- | --- | --- | --- |", *lines[1:]])


def page() -> str:
    """The page with the table of the CSV in it."""
    return _BETWEEN.sub(
        lambda match: f"{match[1]}{table()}\n{match[2]}", PAGE.read_text(encoding="utf-8")
    )


if __name__ == "__main__":
    with CSV.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEAD, *rows()])
    PAGE.write_text(page(), encoding="utf-8")
