"""Replies of which any record is replaced, doubled, reordered or cut on the way to the server.

Whatever comes, the round ends: the client's update is used, and is what its payload says, or it
is not, and the server names the client; the others' count as ever, and the next round has all.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from compressors import Compressor, Raw, decompress, parse
from strategies import DSGD, Asynchronous, ChannelStrategy, Compressed, DelayedDSGD, FedBuff, Uplink
from strategies.channel.payload import CHUNKED, KEY, METRICS, ROUND, SAMPLES, SENT, WANTS
from tests.support.faults import told
from tests.support.linear import Pull, grid_of, modded_app, record, tensor

LONG = 20_000
MANY = int(os.environ.get("FEDSIM_HOSTILE", LONG))
"""Replies to each strategy in the long test."""

ROUNDS = 8
"""Hostile rounds of a federation there, one after the other."""

HUGE = 1e30
"""A model that a lie has moved so far is given up: what honest clients say of it overflows."""

LIAR, LIARS, CLIENTS = 2, (1, 2, 3), 4
"""Who lies alone, and who do where several lie at once."""

TARGETS = [(8.0, 4.0), (4.0, 8.0), (2.0, 2.0), (6.0, 0.0)]
TOPK = parse("ef(topk(0.5) | float32 | golomb)")


def inside() -> FedAvg:
    return FedAvg(fraction_evaluate=0.0)


STRATEGIES: dict[str, tuple[Compressor, Callable[[], ChannelStrategy]]] = {
    "mean by samples": (Raw(), lambda: DelayedDSGD(Raw(), clients=4, rule=DSGD("samples"))),
    "mean of residuals": (TOPK, lambda: DelayedDSGD(TOPK, clients=4)),
    "lossy downlink": (TOPK, lambda: DelayedDSGD(TOPK, TOPK, clients=4)),
    "Flower's mean": (TOPK, lambda: Compressed(inside(), TOPK, clients=4)),
    "asynchronous": (TOPK, lambda: Asynchronous(TOPK, clients=4, rule=FedBuff(1, "constant"))),
}

Change = Callable[[RecordDict], None]
Lies = tuple[dict[int, list[Change]], list[int], bool]
"""What is done to each liar's reply, the order of all, and whether the liars' come twice."""

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.sampled_from([0, 1, -1, 2**53, 2**53 + 1])
)
ITEMS = st.one_of(
    NUMBERS,
    st.text(max_size=8),
    st.binary(max_size=12),
    st.booleans(),
    st.lists(st.integers(-9, 9), max_size=3),
    st.lists(st.floats(), max_size=3),
)
FIELDS = st.sampled_from(
    [
        *((KEY, key) for key in ("payload", ROUND, "fate", "bytes", WANTS, "kind", "more")),
        *((METRICS, key) for key in (SAMPLES, "train-loss", SENT, "sent", "train-seconds", "more")),
    ]
)
NAMES = st.sampled_from([KEY, METRICS, CHUNKED, "more"])
RECORDS: st.SearchStrategy[Any] = st.sampled_from(
    [
        ConfigRecord(),
        MetricRecord(),
        ArrayRecord(),
        record([1.0, 2.0]),
        ConfigRecord({"a": 1}),
        MetricRecord({SAMPLES: 3}),
        ConfigRecord({"payload": b""}),
        ConfigRecord({WANTS: "model"}),
    ]
)


def put(field: tuple[str, str], value: Any) -> Change:
    """Another value under a key, or one more; what Flower refuses to hold cannot be sent."""
    name, key = field

    def change(content: RecordDict) -> None:
        if name in content and not isinstance(content[name], ArrayRecord):
            with suppress(TypeError, ValueError):
                content[name] = type(content[name])({**content[name], key: value})

    return change


def cut(field: tuple[str, str], keep: float, twice: bool) -> Change:
    """The first part of what stands under a key, or all of it twice."""
    name, key = field

    def change(content: RecordDict) -> None:
        held = content.get(name)
        value = None if held is None or isinstance(held, ArrayRecord) else held.get(key)
        if isinstance(value, bytes | str | list):
            new: Any = value + value if twice else value[: int(keep * len(value))]  # type: ignore[operator]
            put(field, new)(content)

    return change


def flip(place: float, bit: int) -> Change:
    """One bit of the payload."""

    def change(content: RecordDict) -> None:
        payload = dict(content.get(KEY) or {}).get("payload")
        if isinstance(payload, bytes) and payload:
            flipped = bytearray(payload)
            flipped[int(place * len(payload)) % len(payload)] ^= 1 << bit
            put((KEY, "payload"), bytes(flipped))(content)

    return change


def without(field: tuple[str, str], all_of_it: bool) -> Change:
    """A record is gone, or a key of it."""
    name, key = field

    def change(content: RecordDict) -> None:
        held = content.get(name)
        if held is not None and all_of_it:
            del content[name]
        elif held is not None and key in held:
            content[name] = type(held)({k: v for k, v in held.items() if k != key})

    return change


def instead(name: str, value: Any) -> Change:
    return lambda content: content.update({name: value})


def copied(name: str, to: str) -> Change:
    """A record stands in the place of another too."""
    return lambda content: content.update({to: content[name]} if name in content else {})


def turned(of: str | None) -> Change:
    """The records of a message, or the values of one, in the other order."""

    def change(content: RecordDict) -> None:
        held = content if of is None else content.get(of)
        if held is None or isinstance(held, ArrayRecord):
            return
        items = [*held.items()][::-1]
        if of is not None:
            content[of] = type(held)(dict(items))
            return
        for name, _ in items:
            del content[name]
        content.update(items)

    return change


FRACTIONS = st.floats(0, 0.999)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    st.builds(put, FIELDS, ITEMS),
    st.builds(cut, FIELDS, FRACTIONS, st.booleans()),
    st.builds(flip, FRACTIONS, st.integers(0, 7)),
    st.builds(without, FIELDS, st.booleans()),
    st.builds(instead, NAMES, RECORDS),
    st.builds(copied, NAMES, NAMES),
    st.builds(turned, st.none() | NAMES),
)
ORDERS = st.permutations(range(CLIENTS))


@contextmanager
def federation(name: str) -> Iterator[tuple[ChannelStrategy, Callable[..., list[Message]]]]:
    """A strategy and a function that asks its clients."""
    method, make = STRATEGIES[name]
    strategy = make()
    down = strategy.downlink
    grid = grid_of(modded_app(Pull(TARGETS), method, down), CLIENTS)
    strategy.open(tensor(0.0, 0.0))
    yield strategy, lambda n: [*grid.send_and_receive(strategy.ask(n, ConfigRecord(), grid))]


def weights(strategy: ChannelStrategy) -> dict[str, Tensor]:
    assert strategy.channel is not None
    return strategy.channel.weights


def traffic(strategy: ChannelStrategy) -> Any:
    """What the round's books hold; of a server that does not wait, of all its arrivals."""
    own = isinstance(strategy, Asynchronous)
    return strategy._round if own else strategy.channel.traffic  # type: ignore[union-attr]


def step(strategy: ChannelStrategy, uplinks: dict[int, Uplink]) -> Tensor:
    """How the model moves by what is used, of weights that the test knows by the strategy."""
    updates = torch.stack([up.update["w"].double() for up in uplinks.values()])
    if isinstance(strategy, Asynchronous):
        return updates.sum(0)
    by_samples = isinstance(strategy, Compressed) or strategy.rule == DSGD("samples")  # type: ignore[attr-defined]
    counts = [up.samples if by_samples else 1.0 for up in uplinks.values()]
    shares = torch.tensor(counts, dtype=torch.float64) / sum(counts)
    return (shares[:, None] * updates).sum(0)


def hostile_round(
    name: str, strategy: ChannelStrategy, replies: dict[int, Message], number: int, lies: Lies
) -> None:
    """One round with changed replies among honest ones, and what the server made of it."""
    method, (changes_of, order, twice) = STRATEGIES[name][0], lies
    before = weights(strategy)["w"].double()
    honest = {c: dict(message.content[KEY])["payload"] for c, message in replies.items()}
    for client, changes in changes_of.items():
        for change in changes:
            change(replies[client].content)
    given = [replies[client] for client in order]
    strategy.advance([*given, *(replies[client] for client in changes_of if twice)])
    books, liars = traffic(strategy), {*changes_of}
    used = dict(sorted(books.uplinks.items()))
    assert {*used} | liars == {*range(CLIENTS)} and {*books.failures} == liars - {*used}
    assert all(why.strip() and why.isprintable() for why in books.failures.values())
    assert all(used[c].payload == honest[c] for c in used if c not in liars)
    for client, up in used.items():
        said = decompress(method, up.payload, tensor(0.0, 0.0))
        assert torch.equal(up.update["w"], said["w"])
        assert 1 <= up.samples <= 2**53 and up.samples == int(up.samples)
        assert client in liars or up.samples == client + 1
        envelope = dict(replies[client].content.get(KEY) or {})
        if envelope.get(ROUND, number) != number:  # it asked for the model, and was asked again
            assert envelope.get(WANTS) == "model"
    moved = weights(strategy)["w"].double()
    if torch.isfinite(moved).all() and type(strategy.downlink) is Raw:
        most = max(1.0, *(float(up.update["w"].abs().max()) for up in used.values()))
        expected = before + step(strategy, used)
        torch.testing.assert_close(moved, expected, rtol=1e-5, atol=1e-5 * most)


def check(name: str, rounds: Iterable[Lies]) -> None:
    """Hostile rounds, and an honest one; after a huge lie the next ones are of a new federation."""
    left = [*rounds]
    while left:
        with federation(name) as (strategy, asked):
            strategy.advance(asked(1))
            number = 1
            while left and weights(strategy)["w"].abs().max() < HUGE:
                number += 1
                came = {reply.metadata.src_node_id - 1: reply for reply in asked(number)}
                hostile_round(name, strategy, came, number, left.pop(0))
            strategy.advance(asked(number + 1))
            assert {*traffic(strategy).uplinks} == {*range(CLIENTS)}


SOME = st.lists(CHANGES, min_size=1, max_size=3)


def one(changes: list[Change], order: list[int], twice: bool) -> Lies:
    """Lies of one client alone."""
    return {LIAR: changes}, order, twice


@pytest.mark.parametrize("name", STRATEGIES)
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(st.builds(one, SOME, ORDERS, st.booleans()))
def test_a_hostile_reply_is_named_or_is_what_it_says(name: str, lies: Lies) -> None:
    check(name, [lies])


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("name", STRATEGIES)
def test_many_hostile_replies(name: str) -> None:
    """Flower's mean takes what most replies have for what all should have: there one lies alone."""
    liars = (LIAR,) if name == "Flower's mean" else LIARS
    lies = st.tuples(st.fixed_dictionaries(dict.fromkeys(liars, SOME)), ORDERS, st.booleans())
    changed = 0

    @settings(max_examples=-(-MANY // (ROUNDS * len(liars))), deadline=None, database=None)
    @given(st.tuples(*[lies] * ROUNDS))
    def holds(rounds: tuple[Lies, ...]) -> None:
        nonlocal changed
        check(name, rounds)
        changed += sum(len(changes_of) for changes_of, *_ in rounds)

    holds()
    if MANY == LONG:
        told("reply changed", name, changed)
